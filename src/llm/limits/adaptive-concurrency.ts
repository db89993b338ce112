// How many calls at once a server takes, as its refusals show it: what it refused is tried again one call at a time, and
// the more often that was in vain, the more rarely.

/** Calls at once before anything is known. */
const firstSize = 8
/** What each call that is taken adds, as long as nothing was refused. */
const opening = 0.5
/** So many calls are taken, with every place in use, before more is tried; twice as many after every try in vain. */
const fewestCalls = 100
const mostCalls = 800
/** Sooner where the last try was not in vain. */
const callsAfterSuccess = 20
/** The same while it is the rate that is refused: these places are only in its way. */
const callsInTheWay = 10

export interface AdaptiveConcurrency {
  /** Calls at once, at least 1. */
  readonly size: number
  /** A call was taken, and nothing was refused yet. */
  open(): void
  /** A call was taken that had the last place. `inTheWay`: it is not about this limit that calls are refused. */
  filled(now: number, inTheWay: boolean): void
  /** A call was refused beside `running` others. `tried`: not one of several at once; nothing more is tried for a while. */
  cut(running: number, tried?: { readonly until: number; readonly calmMs: number }): void
}

/** `most`: the calls at once that are allowed, whatever the server takes. Times are milliseconds. */
export function createAdaptiveConcurrency(most: number): AdaptiveConcurrency {
  let size = Math.min(most, firstSize)
  /** What was left by the last refusal. */
  let held = 0
  let step = 1
  let calls = fewestCalls
  let taken = 0
  let restedAt = 0
  let calm = 0

  function grow(by: number): void {
    size = Math.min(most, size + by)
    taken = 0
  }

  return {
    get size() {
      return Math.floor(size)
    },
    open: () => grow(opening),
    filled(now, inTheWay) {
      taken++
      if (inTheWay) {
        if (taken >= callsInTheWay) grow(Math.max(1, size / 10))
        return
      }
      if (taken < calls || now - restedAt < calm) return
      restedAt = now
      if (size > held) {
        // The last try was not in vain: the server takes more than it did.
        calls = Math.max(callsAfterSuccess, calls / 4)
        calm = 0
        step = Math.min(size / 4, 2 * step)
      }
      grow(step)
    },
    cut(running, tried) {
      size = Math.max(1, Math.min(size, running))
      held = size
      step = 1
      taken = 0
      if (!tried) return
      restedAt = tried.until
      calm = tried.calmMs
      calls = Math.min(mostCalls, Math.max(fewestCalls, 2 * calls))
    },
  }
}
