// What a server's refusals (429) teach: how many calls it takes at once, and how many a minute.
// Additive increase while it is calm, multiplicative decrease on a refusal; a pause that the server asks for is kept.

/** What was true when a call started. */
export interface Start {
  readonly at: number
  /** Calls that ran then, this one included. */
  readonly running: number
  /** It had to wait for its turn in the learned rate. */
  readonly paced: boolean
}

export interface Pace {
  /** Whether there is room for one more beside those that run. */
  hasRoom(running: number): boolean
  /** Milliseconds until the next call may start. */
  delay(now: number): number
  started(now: number, running: number): Start
  /** The server took the call. */
  accepted(start: Start, now: number): void
  /** It is over, in whatever way. */
  ended(start: Start): void
  /** The server refused it, and perhaps said how long to wait; `running` calls are left. */
  refused(start: Start, now: number, running: number, retryAfterMs: number | undefined): void
}

/** Calls at once before anything is known; each that is taken makes room for one more. */
const firstRoom = 8
const shortestCalmMs = 1_000
const longestCalmMs = 64_000
/** A calm takes this many calls as well, so that slow calls are not refused more often than quick ones. */
const callsPerSecondOfCalm = 10
/** The pause after a refusal that names none; it doubles while nothing is taken. */
const firstPauseMs = 500
const longestPauseMs = 30_000
/** The rate grows by this after every calm, or by the second while it is only guessed. */
const raise = 1.02
const fastRaise = 1.5
/** Calls between two refusals that make a rate more than a guess. */
const enough = 10
const rememberedMs = 60_000

/** `most`: the calls at once that are allowed, whatever the server takes. Times are milliseconds. */
export function createPace(most: number): Pace {
  let room = Math.min(most, firstRoom)
  /** Nothing was refused yet. */
  let untouched = true
  /** Calls at once that were left by the last refusal: another one without more of them is about their rate. */
  let cut = 0
  /** Calls a millisecond. */
  let rate = Number.POSITIVE_INFINITY
  /** The rate was refused once, not only guessed. */
  let isKnown = false
  let nextAt = 0
  let pausedUntil = 0
  /** Refusals since a call was taken. */
  let refusals = 0
  /** What the last refusal was about. */
  let isRate = false
  /** The one call that is allowed until one is taken. */
  let probe: Start | undefined
  let calmMs = shortestCalmMs
  let calmSince = 0
  let takenInCalm = 0
  let raises = 0
  let lastRefusal = Number.NEGATIVE_INFINITY
  let takenSinceRefusal = 0
  let begun: number | undefined
  const taken = createCounter()

  /** What was taken lately, the pause that follows included: right for a server that counts by the minute. */
  function guessRate(now: number, pauseMs: number): void {
    const until = now + pauseMs
    const guess = taken.since(now - rememberedMs) / Math.min(rememberedMs, until - begun!)
    if (guess > 0) rate = Math.min(rate, guess)
  }

  function lowerRate(): void {
    const measured = takenSinceRefusal >= enough
    rate *= measured ? (isKnown ? 0.95 : 0.9) : 0.5
    isKnown ||= measured
  }

  return {
    // After a refusal one call shows whether the pause was long enough.
    hasRoom: (running) => running < Math.floor(room) && (refusals === 0 || probe === undefined),
    delay: (now) => Math.ceil(Math.max(0, pausedUntil - now, nextAt - now)),
    started(now, running) {
      begun ??= now
      const paced = Number.isFinite(rate) && nextAt > now - 5
      if (Number.isFinite(rate)) nextAt = Math.max(nextAt, now - 30) + 1 / rate
      const start = { at: now, running, paced }
      if (refusals > 0) probe = start
      return start
    },
    ended(start) {
      if (probe === start) probe = undefined
    },
    accepted(start, now) {
      this.ended(start)
      taken.add(now)
      takenSinceRefusal += 1
      if (start.at >= lastRefusal) refusals = 0
      if (untouched) room = Math.min(most, room + 1)
      takenInCalm += 1
      const guessing = start.paced && !isKnown
      const calm = now - calmSince >= calmMs && takenInCalm >= (calmMs / 1000) * callsPerSecondOfCalm
      if (untouched || !(guessing ? now - calmSince >= shortestCalmMs : calm)) return
      const full = start.running >= Math.floor(room)
      if (!full && !start.paced) return
      if (full) room = Math.min(most, room + 1)
      if (start.paced) rate *= guessing ? fastRaise : raise
      calmSince = now
      takenInCalm = 0
      raises += 1
      if (raises % 4 === 0) calmMs = Math.max(shortestCalmMs, calmMs / 2)
    },
    refused(start, now, running, retryAfterMs) {
      // Of calls that started before the last refusal was known, this is the same news again.
      const isNews = start.at >= lastRefusal
      if (isNews) isRate = start.running <= cut
      if (!isRate) {
        room = Math.max(1, Math.min(room, running))
        cut = room
      }
      const ownMs =
        isNews && (refusals > 0 || isRate) ? Math.min(longestPauseMs, firstPauseMs * 2 ** refusals) : 0
      const pauseMs = Math.max(retryAfterMs ?? 0, ownMs)
      pausedUntil = Math.max(pausedUntil, now + pauseMs)
      calmSince = Math.max(calmSince, now + pauseMs)
      takenInCalm = 0
      untouched = false
      if (!isNews) return
      if (isRate && start.paced) lowerRate()
      else if (isRate || (pauseMs > 0 && rate === Number.POSITIVE_INFINITY)) guessRate(now, pauseMs)
      refusals += 1
      calmMs = Math.min(longestCalmMs, calmMs * 2)
      raises = 0
      lastRefusal = now
      takenSinceRefusal = 0
    },
  }
}

/** Counts by quarters of a second. */
function createCounter() {
  const cells: { at: number; count: number }[] = []
  return {
    add(now: number) {
      const at = Math.floor(now / 250) * 250
      const last = cells.at(-1)
      if (last?.at === at) last.count += 1
      else cells.push({ at, count: 1 })
      while (cells[0] && cells[0].at < now - 2 * rememberedMs) cells.shift()
    },
    since(time: number) {
      return cells.reduce((sum, { at, count }) => (at >= time ? sum + count : sum), 0)
    },
  }
}
