// How many calls a minute a server takes, as its refusals show it: quickly up to what was refused last, slowly beyond.

/** Of what was refused: where to go on, and from where on it is near. */
const after = 0.95
const near = 0.94
/** Far from what was refused, it grows by this after so many calls and milliseconds. */
const fastRaise = 1.2
const fastCalls = 5
const fastMs = 250
/** Near to it, by this share after so many calls: those of three minutes, within bounds. Every further raise is a larger one. */
const firstStep = 0.01
const largestStep = 0.05
const stepGrowth = 1.5
const slowMs = 180_000
const fewestCalls = 30
const mostCalls = 150
/** Calls between two refusals that make a rate more than a guess. */
const enough = 10
/** What is left of a rate that was refused after fewer; and of one that most calls had no need to wait for. */
const afterFew = 0.6
const afterLoose = 0.8
/** So many of the calls must have waited for their turn, else the rate was not what held them up. */
const mostWaited = 0.8
/** How much more than was seen a server may take: where it was refused at a higher rate, and where little was asked of it. */
const abovePace = 1.3
const aboveDemand = 1.5
/** Two counts of a minute that differ by no more are the same limit. */
const sameCount = 0.05
/** Servers count by the second, by the minute, or let a bucket fill up. Who takes nothing for as long as this counts by the minute. */
const longMs = 5_000
const minuteMs = 60_000
/** A burst after a wait is at most this long, in milliseconds. */
const burstMs = 30
/** Timers are not more exact. */
const timerMs = 5

export interface AdaptiveRate {
  /** Calls a millisecond; infinite as long as nothing is known. */
  readonly perMs: number
  /** It is near to what the server refused, and no guess. */
  readonly isKnown: boolean
  /** Milliseconds until the next call may start. */
  delay(now: number): number
  /** A call starts, and is thought to be taken. Returns whether it had to wait for its turn. */
  start(now: number): boolean
  /** The server took a call that had to wait for its turn. */
  taken(now: number): void
  /** The server did not take the call that started at `at`. What that tells is learned when the next one starts. */
  refused(at: number, refusal: RateRefusal | undefined): void
}

export interface RateRefusal {
  readonly now: number
  /** Nothing starts before. */
  readonly until: number
  /** It is not about calls at once. */
  readonly isRate: boolean
  /** The call had to wait for its turn in this rate. */
  readonly paced: boolean
  /** As many calls were running as might, or as many started. */
  readonly pressed: boolean
  /** How long nothing more is tried behind `until`. */
  readonly calmMs: number
}

/** Times are milliseconds. */
export function createAdaptiveRate(): AdaptiveRate {
  let rate = Number.POSITIVE_INFINITY
  /** What was refused last; infinite as long as the rate is only a guess. */
  let ceiling = Number.POSITIVE_INFINITY
  let nextAt = 0
  let step = firstStep
  let calls = 0
  let raisedAt = 0
  let calm = 0
  let begun: number | undefined
  /** A refusal of which nothing is learned yet: calls that started before may still be refused too. */
  let news: RateRefusal | undefined
  /** When calls could start again after the last refusal, how many started since, and how many of these waited for their turn. */
  let resumedAt = 0
  let since = 0
  let waited = 0
  /** Calls a millisecond of the last minute that ended in a long wait. */
  let longRate = 0
  const started = createCounter()

  function grow(now: number): void {
    calls++
    const slow = rate >= near * ceiling
    const needed = slow ? Math.min(mostCalls, Math.max(fewestCalls, rate * slowMs)) : fastCalls
    if (calls < needed || now - raisedAt < (slow ? calm : fastMs)) return
    calls = 0
    raisedAt = now
    if (!slow) rate = Math.min(fastRaise * rate, after * ceiling)
    else {
      rate *= 1 + step
      step = Math.min(largestStep, stepGrowth * step)
    }
  }

  /** What the server takes when it counts by the minute: all of the last one, the wait that follows included. */
  function lowerToMinute({ now, until, isRate }: RateRefusal): number {
    const count = started.since(now - minuteMs)
    const minute = count / Math.min(minuteMs, until - begun!)
    if (isRate ? count > 0 : count >= enough) rate = Math.min(rate, minute)
    return minute
  }

  function learn(refusal: RateRefusal): void {
    const { now, until, isRate, calmMs } = refusal
    if (isRate || until - now >= longMs || (until > now && rate === Number.POSITIVE_INFINITY)) {
      lower(refusal)
      step = firstStep
      calls = 0
    }
    news = undefined
    raisedAt = resumedAt = until
    calm = calmMs
    since = waited = 0
  }

  function lower(refusal: RateRefusal): void {
    const { now, until, isRate, paced, pressed } = refusal
    const silence = until - started.latest
    if (silence >= longMs) {
      const minute = lowerToMinute(refusal)
      const again = Math.abs(minute - longRate) < sameCount * minute
      longRate = minute
      if (again || (isRate && (pressed || silence >= minuteMs / 2))) ceiling = rate
      else if (isRate) ceiling = aboveDemand * rate
    } else if (!paced || rate === Number.POSITIVE_INFINITY) lowerToMinute(refusal)
    else if (since < enough) rate *= since > 0 ? afterFew : 1
    else {
      const average = since / (now - resumedAt)
      if (waited < mostWaited * since) rate *= afterLoose
      else {
        ceiling = Math.min(rate, abovePace * average)
        rate = Math.min(after * rate, average)
      }
    }
  }

  return {
    get perMs() {
      return rate
    },
    get isKnown() {
      return ceiling < Number.POSITIVE_INFINITY
    },
    delay: (now) => Math.max(0, nextAt - now),
    start(now) {
      begun ??= now
      if (news) learn(news)
      started.add(now)
      since++
      if (rate === Number.POSITIVE_INFINITY) return false
      const paced = nextAt > now - timerMs
      if (paced) waited++
      nextAt = Math.max(nextAt, now - burstMs) + 1 / rate
      return paced
    },
    taken: grow,
    refused(at, refusal) {
      started.remove(at)
      if (at >= resumedAt) since--
      if (refusal) news = refusal
    },
  }
}

/** Counts by quarters of a second. */
function createCounter() {
  const cells: { readonly at: number; count: number }[] = []
  const cellMs = 250

  return {
    /** The time of the latest one that is counted. */
    get latest() {
      return cells.findLast(({ count }) => count > 0)?.at ?? Number.NEGATIVE_INFINITY
    },
    add(time: number) {
      const at = Math.floor(time / cellMs) * cellMs
      const last = cells.at(-1)
      if (last?.at === at) last.count++
      else cells.push({ at, count: 1 })
      while (cells[0]!.at < time - 2 * minuteMs) cells.shift()
    },
    remove(time: number) {
      const cell = cells.findLast(({ at }) => at <= time)
      if (cell) cell.count--
    },
    since(time: number) {
      return cells.reduce((sum, { at, count }) => (at >= time ? sum + count : sum), 0)
    },
  }
}
