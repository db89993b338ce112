// What a server's refusals (429) teach: how many calls it takes at once, and how many a minute.
// Additive increase while it is calm, multiplicative decrease on a refusal; a pause that the server asks for is kept.

import { createAdaptiveConcurrency } from './adaptive-concurrency.ts'
import { createAdaptiveRate } from './adaptive-rate.ts'

/** What was true when a call started. */
export interface Start {
  readonly at: number
  /** Calls that ran then, this one included. */
  readonly running: number
  /** It had to wait for its turn in the learned rate. */
  readonly paced: boolean
}

export interface AdaptiveLimiter {
  /** Whether there is room for one more beside those that run. */
  hasRoom(running: number): boolean
  /** Milliseconds until the next call may start. */
  delay(now: number): number
  /** Milliseconds that are left of the pause after a refusal. */
  pause(now: number): number
  started(now: number, running: number): Start
  /** The server took the call. */
  accepted(start: Start, now: number): void
  /** It is over, in whatever way. */
  ended(start: Start): void
  /** The server refused it, and perhaps said how long to wait; `running` calls are left. */
  refused(start: Start, now: number, running: number, retryAfterMs: number | undefined): void
}

/** The pause after a refusal that names none; it grows while nothing is taken. */
const firstPauseMs = 500
const longestPauseMs = 30_000
/** What was refused is not tried again for so long, or for so many times the pause that it cost. */
const calmMs = 5_000
const longestCalmMs = 60_000
const calmPauses = 30
/** Calls whose places are remembered; so many of them at a place show that a refusal there is not about calls at once. */
const remembered = 200
const shown = 30
/** Refusals that must show the contrary before that is believed. */
const sure = 3

/** `most`: the calls at once that are allowed, whatever the server takes. Times are milliseconds. */
export function createAdaptiveLimiter(most: number): AdaptiveLimiter {
  const room = createAdaptiveConcurrency(Math.max(1, most))
  const rate = createAdaptiveRate()
  let untouched = true
  let pausedUntil = 0
  let lastRefusal = Number.NEGATIVE_INFINITY
  /** Refusals since a call was taken, and the place of the last of them. */
  let refusals = 0
  let refusedPlace = 0
  /** What the last refusal was about. */
  let isRate = false
  /** Whether all was in use when refusals began. */
  let pressed = false
  /** The one call that is allowed until one is taken. */
  let probe: Start | undefined
  /** The places of the calls that were taken last: how many ran, each included. */
  const places: number[] = []
  /** Above 0: refusals have shown that they are not about calls at once. */
  let belief = 0

  /** Whether a refusal at this place is about calls a minute: a server that counts calls at once takes calls at lower places. */
  function isAboutRate(place: number, paced: boolean): boolean {
    const taken = places.filter((each) => each >= place).length
    if (place === 1 || taken >= shown || (refusals > 0 && place < refusedPlace)) belief = sure
    else if (taken === 0) belief = Math.max(0, belief - 1)
    return belief > 0 || (paced && (rate.isKnown || place < 0.9 * room.size))
  }

  /** After a refusal one call shows whether the pause was long enough; at a known rate the next ones come one by one anyway. */
  const probing = () => refusals > 0 && !(isRate && rate.isKnown)

  function ownPause(): number {
    if (refusals === 0 && !isRate) return 0
    const pause = rate.isKnown
      ? Math.max(firstPauseMs, 1 / rate.perMs) * 2 ** refusals
      : firstPauseMs * 4 ** refusals
    return Math.min(longestPauseMs, pause)
  }

  return {
    hasRoom: (running) => running < room.size && !(probing() && probe),
    delay: (now) => Math.ceil(Math.max(0, pausedUntil - now, rate.delay(now))),
    pause: (now) => Math.ceil(Math.max(0, pausedUntil - now)),
    started(now, running) {
      const start = { at: now, running, paced: rate.start(now) }
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
      untouched = false
      // Of calls that started before the last refusal was known, this is the same news again.
      if (start.at < lastRefusal) {
        rate.refused(start.at, undefined)
        if (!isRate) room.cut(running)
        pausedUntil = Math.max(pausedUntil, now + retryAfterMs)
        return
      }
      // Calls that started together arrive in any order.
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
