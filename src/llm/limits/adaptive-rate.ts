// How many calls a minute a server takes, learned from its refusals. The rate grows quickly up to the one refused last, and
// slowly beyond it.

/** Shares of a refused rate: the rate after a refusal, and the share from which a rate counts as near to the refused one. */
const after = 0.95
const near = 0.94
/** Far below the refused rate: the factor of growth, after so many calls and milliseconds. */
const fastRaise = 1.2
const fastCalls = 5
const fastMs = 250
/** Near to it: the share of growth, larger with each step, after the calls of `slowMs`, within bounds. */
const firstStep = 0.01
const largestStep = 0.15
const stepGrowth = 1.5
const slowMs = 180_000
const fewestCalls = 30
const mostCalls = 150
/** Calls between two refusals that are needed to estimate a rate. */
const enough = 10
/** The share of a rate that is kept after an early refusal, and of one that most calls did not wait for. */
const afterFew = 0.6
const afterLoose = 0.8
/** The share of calls that must have waited for the rate, or it was not what limited them. */
const mostWaited = 0.8
/** How much more than the seen rate a server may take: when calls were paced, and when few calls were made. */
const abovePace = 1.3
const aboveDemand = 1.5
/** Counts of two minutes that differ by at most this share show the same limit. */
const sameCount = 0.05
/** Servers count by the second, by the minute, or with a bucket. One that refuses everything for this long counts by the minute. */
const longMs = 5_000
const minuteMs = 60_000
/** The longest burst after a wait. */
const burstMs = 30
/** The precision of timers. */
const timerMs = 5

export interface AdaptiveRate {
  /** Calls a millisecond; infinite until something is known. */
  readonly perMs: number
  /** A refusal has confirmed it. */
  readonly isKnown: boolean
  /** Milliseconds until the next call may start. */
  delay(now: number): number
  /** A call starts, at a share of the rate, and counts as accepted. Returns whether it had to wait for the rate. */
  start(now: number, share: number): boolean
  /** The server accepted a call that had waited for the rate. */
  taken(now: number): void
  /** The server refused the call that started at `at`. The rate changes when the next call starts. */
  refused(at: number, refusal: RateRefusal | undefined): void
}

export interface RateRefusal {
  readonly now: number
  /** Nothing starts before. */
  readonly until: number
  /** It is about the rate, not about calls at once. */
  readonly isRate: boolean
  /** The call had waited for this rate. */
  readonly paced: boolean
  /** Calls at once, or the rate, were at their limit. */
  readonly pressed: boolean
  /** How long nothing more is tried after `until`. */
  readonly calmMs: number
}

/** Times are in milliseconds. */
export function createAdaptiveRate(): AdaptiveRate {
  let rate = Number.POSITIVE_INFINITY
  /** The rate that was refused last; infinite while the rate is only a guess. */
  let ceiling = Number.POSITIVE_INFINITY
  let nextAt = 0
  let step = firstStep
  let calls = 0
  let raisedAt = 0
  let calm = 0
  let begun: number | undefined
  /** A refusal that the rate does not show yet: calls that started before may still be refused too. */
  let news: RateRefusal | undefined
  /** When calls could start again after the last refusal, how many did, and how many of them waited for the rate. */
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

  /** The rate of a server that counts by the minute: the calls of the last one, over the wait that follows too. */
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
    start(now, share) {
      begun ??= now
      if (news) learn(news)
      started.add(now)
      since++
      if (rate === Number.POSITIVE_INFINITY) return false
      const paced = nextAt > now - timerMs
      if (paced) waited++
      nextAt = Math.max(nextAt, now - burstMs) + 1 / (share * rate)
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

/** Counts calls by quarters of a second. */
function createCounter() {
  const cells: { readonly at: number; count: number }[] = []
  const cellMs = 250

  return {
    /** The time of the latest call. */
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
