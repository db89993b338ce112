// Learns from refusals (429) how many calls a server takes at once, and how many a minute. It is AIMD (additive increase,
// multiplicative decrease): with n calls at once and r calls a millisecond,
//   an accepted call in the last place:    n += step, after enough calls (step 1, doubled up to n / 4 while tries succeed)
//   an accepted call before any limit:     n += 1
//   while refusals are about the rate:     n += max(1, n / 10), after 10 calls in the last place
//   an accepted call near the known rate:  r *= 1.01, after enough calls (up to 1.05); 1.2 when far below it
//   a refusal that may be chance:          nothing (chance-refusals.ts); only the refused message waits, in the runner
//   chance is more common than supposed:   n and r are learned from the start again
//   a refusal about calls at once:         n = calls that were running beside it
//   a refusal about the rate:              r = 0.95 r or the seen average, whichever is less
// After other refusals all calls wait for the pause that the server asks for. Without one it grows exponentially until a call is
// accepted.
import { createAdaptiveConcurrency } from './adaptive-concurrency.ts'
import { createAdaptiveRate } from './adaptive-rate.ts'
import { createChanceRefusals, type JudgedCall } from './chance-refusals.ts'

/** The state at the start of a call. */
export interface CallStart {
  readonly at: number
  /** Calls that were running, this one included. */
  readonly running: number
  /** It waited for the learned rate. */
  readonly paced: boolean
  readonly judged: JudgedCall
}

export interface AdaptiveLimiter {
  /** Whether one more call may run beside `running` others. */
  hasRoom(running: number): boolean
  /** Milliseconds until the next call may start. */
  delay(now: number): number
  /** Milliseconds that are left of the pause after a refusal. */
  pause(now: number): number
  started(now: number, running: number): CallStart
  /** The server accepted the call. */
  accepted(start: CallStart, now: number): void
  /** The call has ended, whatever its result. */
  ended(start: CallStart): void
  /** The server refused the call, and may have asked for a wait. `running` other calls are left. */
  refused(start: CallStart, now: number, running: number, retryAfterMs: number | undefined): void
}

/** The pause after a refusal that asks for none. It grows until a call is accepted. */
const firstPauseMs = 500
const longestPauseMs = 30_000
/** How long a refused size or rate is not tried again: at least `calmMs`, else a multiple of the pause that it cost. */
const calmMs = 5_000
const longestCalmMs = 60_000
const calmPauses = 30
/** Accepted calls that are remembered. `shown` of them at a place prove that a refusal there is not about calls at once. */
const remembered = 200
const shown = 30
/** The share of a limit that is used while the refusals by chance are measured. */
const measuredUse = 0.8
/** Refusals that must contradict a belief before it changes. */
const sure = 3

/** `most` is the upper limit of calls at once, whatever the server takes. Times are in milliseconds. */
export function createAdaptiveLimiter(most: number): AdaptiveLimiter {
  let room = createAdaptiveConcurrency(Math.max(1, most))
  let rate = createAdaptiveRate()
  const chance = createChanceRefusals()
  let untouched = true
  let pausedUntil = 0
  let lastRefusal = Number.NEGATIVE_INFINITY
  /** Refusals since the last accepted call, and the place of the latest. A place is the number of calls that ran. */
  let refusals = 0
  let refusedPlace = 0
  /** Whether the last refusal was about the rate. */
  let isRate = false
  /** Whether a limit was fully used when the refusals began. */
  let pressed = false
  /** The only call that may run until one is accepted. */
  let probe: CallStart | undefined
  /** The places of the calls that were accepted last. */
  const places: number[] = []
  /** Above 0 when refusals have shown that they are not about calls at once. */
  let belief = 0

  /** Whether a refusal at this place is about calls a minute: a server that limits calls at once accepts them at lower places. */
  function isAboutRate(place: number, paced: boolean): boolean {
    const taken = places.filter((each) => each >= place).length
    if (place === 1 || taken >= shown || (refusals > 0 && place < refusedPlace)) belief = sure
    else if (taken === 0) belief = Math.max(0, belief - 1)
    return belief > 0 || (paced && (rate.isKnown || place < 0.9 * room.size))
  }

  const roomNow = () => (chance.measures ? Math.max(1, measuredUse * room.size) : room.size)

  function forgetLimits(): void {
    room = createAdaptiveConcurrency(Math.max(1, most))
    rate = createAdaptiveRate()
    untouched = true
    isRate = false
    belief = 0
    places.length = 0
  }

  /** After a refusal a single call tests whether the pause was long enough. At a known rate calls come one by one anyway. */
  const probing = () => refusals > 0 && !(isRate && rate.isKnown)

  function ownPause(): number {
    if (refusals === 0 && !isRate) return 0
    const pause = rate.isKnown
      ? Math.max(firstPauseMs, 1 / rate.perMs) * 2 ** refusals
      : firstPauseMs * 4 ** refusals
    return Math.min(longestPauseMs, pause)
  }

  return {
    hasRoom: (running) => running < roomNow() && !(probing() && probe),
    delay: (now) => Math.ceil(Math.max(0, pausedUntil - now, rate.delay(now))),
    pause: (now) => Math.ceil(Math.max(0, pausedUntil - now)),
    started(now, running) {
      const judged = chance.started()
      if (chance.doubtsLimit()) forgetLimits()
      const start = { at: now, running, paced: rate.start(now, chance.measures ? measuredUse : 1), judged }
      if (probing()) probe = start
      return start
    },
    ended(start) {
      if (probe === start) probe = undefined
    },
    accepted(start, now) {
      this.ended(start)
      if (start.paced) rate.taken(now)
      places.push(start.running)
      if (places.length > remembered) places.shift()
      if (start.at >= lastRefusal) refusals = 0
      if (untouched) room.open()
      else if (!start.paced && start.running >= room.size) room.filled(now, belief > 0)
    },
    refused(start, now, running, retryAfterMs = 0) {
      if (refusals === 0 && chance.mayBeChance(start.judged)) return rate.refused(start.at, undefined)
      untouched = false
      // A call that started before the last refusal was known tells nothing new.
      if (start.at < lastRefusal) {
        rate.refused(start.at, undefined)
        if (!isRate) room.cut(running)
        pausedUntil = Math.max(pausedUntil, now + retryAfterMs)
        return
      }
      // Calls that started together reach the server in any order.
      const place = Math.max(start.running, running + 1)
      isRate = isAboutRate(place, start.paced)
      if (refusals === 0) pressed = start.paced || start.running >= room.size
      const pauseMs = Math.max(retryAfterMs, ownPause())
      const until = now + pauseMs
      const calm = Math.min(longestCalmMs, Math.max(calmMs, calmPauses * pauseMs))
      pausedUntil = Math.max(pausedUntil, until)
      if (!isRate) room.cut(place - 1, { until, calmMs: calm })
      rate.refused(start.at, { now, until, isRate, paced: start.paced, pressed, calmMs: calm })
      refusals++
      refusedPlace = place
      lastRefusal = now
    },
  }
}
