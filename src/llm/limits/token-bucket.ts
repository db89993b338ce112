// A limit per minute that the client keeps: spread evenly, so that it also holds for servers that count by the second, and never
// exceeded in any 60 seconds. A spent amount can be corrected once the true one is known. The limit may change: what may be spent in a
// minute is then what the limits of that minute have allowed.

export interface TokenBucket {
  /** Milliseconds until `amount` may be spent; 0 for now. An amount above the limit may be spent alone. */
  delay(amount: number, now: number): number
  spend(amount: number, now: number): Withdrawal
  /** From now on, `perMinute` may be spent a minute. */
  setLimit(perMinute: number, now: number): void
}

export interface Withdrawal {
  /** Replaces the amount by the true one. */
  correct(amount: number, now: number): void
}

/** The share of the limit that is used: the rest allows for clocks and networks that jitter. */
const share = 0.96
const windowMs = 60_500
const minuteMs = 60_000
/** How long an unspent amount is kept: servers refuse bursts after a silence. */
const burstMs = 30
/** How soon a limit that has just changed is looked at again. */
const changedMs = 250
const precision = 1e-9

/** Times are in milliseconds, of a clock that never goes back. */
export function createTokenBucket(perMinute: number): TokenBucket {
  const spent: { at: number; amount: number; forgotten: boolean }[] = []
  /** The limits of the last minute, the current one last. */
  const limits = [{ from: Number.NEGATIVE_INFINITY, perMinute }]
  const limit = () => limits.at(-1)!.perMinute
  const perMs = () => (limit() * share) / minuteMs
  const capacity = () => Math.max(1, perMs() * burstMs)
  let sum = 0
  let level = capacity()
  let filledAt = 0

  function advance(now: number): void {
    // Only a correction may lift the level above the capacity, time may not.
    if (level < capacity()) level = Math.min(capacity(), level + (now - filledAt) * perMs())
    filledAt = now
    while (spent[0] && spent[0].at <= now - windowMs) {
      sum -= spent[0].amount
      spent[0].forgotten = true
      spent.shift()
    }
    while (limits[1] && limits[1].from <= now - minuteMs) limits.shift()
  }

  /** What the limits of the last minute have allowed. */
  function allowed(now: number): number {
    if (limits.length === 1) return limit()
    return limits.reduce((total, { from, perMinute }, index) => {
      const until = limits[index + 1]?.from ?? now
      return total + (perMinute * (until - Math.max(from, now - minuteMs))) / minuteMs
    }, 0)
  }

  return {
    delay(amount, now) {
      advance(now)
      const missing = Math.min(amount, capacity()) - level
      const toFill = missing > 0 ? missing / perMs() : 0
      return Math.ceil(Math.max(toFill, untilAllowed(amount, now)))
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
    setLimit(perMinute, now) {
      if (perMinute === limit()) return
      advance(now)
      limits.push({ from: now, perMinute })
      level = Math.min(level, capacity())
    },
  }

  /** Milliseconds until the last minute has room for the amount. */
  function untilAllowed(amount: number, now: number): number {
    const most = allowed(now)
    let excess = sum + Math.min(amount, limit()) - most
    if (excess <= precision * most) return 0
    if (limits.length > 1) return changedMs
    for (const { at, amount: old } of spent) {
      excess -= old
      if (excess <= 0) return at + windowMs - now
    }
    return 0
  }
}
