// A limit per minute that the client keeps: spread evenly, so that it also holds for servers that count by the second, and never
// exceeded in any 60 seconds. A spent amount can be corrected once the true one is known.

export interface TokenBucket {
  /** Milliseconds until `amount` may be spent; 0 for now. An amount above the limit may be spent alone. */
  delay(amount: number, now: number): number
  spend(amount: number, now: number): Withdrawal
}

export interface Withdrawal {
  /** Replaces the amount by the true one. */
  correct(amount: number, now: number): void
}

/** The share of the limit that is used: the rest allows for clocks and networks that jitter. */
const share = 0.96
const windowMs = 60_500
/** How long an unspent amount is kept: servers refuse bursts after a silence. */
const burstMs = 30

/** Times are in milliseconds, of a clock that never goes back. */
export function createTokenBucket(perMinute: number): TokenBucket {
  const perMs = (perMinute * share) / 60_000
  const capacity = Math.max(1, perMs * burstMs)
  const spent: { at: number; amount: number; forgotten: boolean }[] = []
  let sum = 0
  let level = capacity
  let filledAt = 0

  function advance(now: number): void {
    // Only a correction may lift the level above the capacity, time may not.
    if (level < capacity) level = Math.min(capacity, level + (now - filledAt) * perMs)
    filledAt = now
    while (spent[0] && spent[0].at <= now - windowMs) {
      sum -= spent[0].amount
      spent[0].forgotten = true
      spent.shift()
    }
  }

  return {
    delay(amount, now) {
      advance(now)
      const missing = Math.min(amount, capacity) - level
      const toFill = missing > 0 ? missing / perMs : 0
      return Math.ceil(Math.max(toFill, untilForgotten(amount, now)))
    },
    spend(amount, now) {
      advance(now)
      const entry = { at: now, amount, forgotten: false }
      spent.push(entry)
      sum += amount
      level -= amount
      return {
        correct(actual, now) {
          advance(now)
          const more = actual - entry.amount
          entry.amount = actual
          if (!entry.forgotten) sum += more
          level -= more
        },
      }
    },
  }

  /** Milliseconds until enough of the last minute is forgotten. */
  function untilForgotten(amount: number, now: number): number {
    let excess = sum + amount - perMinute
    for (const { at, amount: old } of spent) {
      if (excess <= 0) return 0
      excess -= old
      if (excess <= 0) return at + windowMs - now
    }
    return excess <= 0 || spent.length === 0 ? 0 : spent.at(-1)!.at + windowMs - now
  }
}
