// How many calls at once a server takes, learned from its refusals. A refused size is tried again one call at a time, and more
// rarely after each try that failed.

/** Calls at once at the start. */
const firstSize = 24
/** What each accepted call adds, until a limit is found: the size doubles with each round of calls. */
const opening = 1
/** How many calls are accepted, with every place in use, before more is tried. Doubled after every try that failed. */
const fewestCalls = 100
const mostCalls = 800
/** The same after a try that succeeded. */
const callsAfterSuccess = 20
/** The same while refusals are about the rate: the size then only hinders it. */
const callsAtRateLimit = 10

export interface AdaptiveConcurrency {
  /** Calls at once, at least 1. */
  readonly size: number
  /** A call was accepted, before any limit was found. */
  open(): void
  /** A call in the last place was accepted. `isRate`: refusals are not about calls at once. */
  filled(now: number, isRate: boolean): void
  /** A call was refused beside `running` others. `tried`: it is the first of its kind, and nothing more is tried for a while. */
  cut(running: number, tried?: { readonly until: number; readonly calmMs: number }): void
}

/** `most` is the upper limit, whatever the server takes. Times are in milliseconds. */
export function createAdaptiveConcurrency(most: number): AdaptiveConcurrency {
  let size = Math.min(most, firstSize)
  /** The size after the last refusal. */
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
    filled(now, isRate) {
      taken++
      if (isRate) {
        if (taken >= callsAtRateLimit) grow(Math.max(1, size / 10))
        return
      }
      if (taken < calls || now - restedAt < calm) return
      restedAt = now
      if (size > held) {
        // The last try succeeded: the server takes more than before.
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
