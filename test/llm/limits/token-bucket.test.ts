// A client's limit per minute: spread evenly, and never exceeded in any 60 seconds.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createTokenBucket } from '../../../src/llm/limits/token-bucket.ts'

/** Spends each amount as soon as allowed, and returns the times. */
function spendAll(perMinute: number, amounts: readonly number[]) {
  const limit = createTokenBucket(perMinute)
  let now = 0
  return amounts.map((amount) => {
    for (let delay = limit.delay(amount, now); delay > 0; delay = limit.delay(amount, now)) now += delay
    limit.spend(amount, now)
    return { at: now, amount }
  })
}

describe('a limit per minute', () => {
  it('is never exceeded in any 60 seconds, and nearly used', () => {
    const amounts = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 50, maxLength: 200 })
    fc.assert(
      fc.property(fc.integer({ min: 50, max: 1000 }), amounts, (perMinute, list) => {
        const spent = spendAll(perMinute, list)
        for (const { at } of spent) {
          const sum = spent.reduce(
            (all, one) => (one.at > at - 60_000 && one.at <= at ? all + one.amount : all),
            0,
          )
          expect(sum).toBeLessThanOrEqual(perMinute)
        }
        const total = list.reduce((sum, amount) => sum + amount, 0)
        const minutes = Math.max(1, spent.at(-1)!.at / 60_000)
        expect(total / minutes / perMinute).toBeGreaterThan(Math.min(total / perMinute, 1) * 0.4)
      }),
      { numRuns: 50 },
    )
  })

  it('spreads calls evenly, after a silence too', () => {
    const limit = createTokenBucket(600)
    expect(limit.delay(1, 500_000)).toBe(0)
    limit.spend(1, 500_000)
    expect(limit.delay(1, 500_000)).toBeGreaterThan(90)
    expect(limit.delay(1, 500_105)).toBe(0)
  })

  it('returns what was not needed, without losing the elapsed time', () => {
    const limit = createTokenBucket(60_000)
    const spending = limit.spend(10_000, 0)
    expect(limit.delay(1, 0)).toBeGreaterThan(9000)
    spending.correct(1000, 900)
    expect(limit.delay(1, 900)).toBeLessThan(200)
    const more = limit.spend(1, 2000)
    more.correct(5000, 2000)
    expect(limit.delay(1, 2000)).toBeGreaterThan(4000)
  })

  it('admits a single amount above it', () => {
    const limit = createTokenBucket(100)
    expect(limit.delay(1000, 0)).toBe(0)
    limit.spend(1000, 0)
    expect(limit.delay(1, 30_000)).toBeGreaterThan(30_000)
  })

  it('allows in a minute what the limits of that minute have allowed, when it changes', () => {
    const limit = createTokenBucket(0)
    limit.setLimit(60, 0)
    const times: number[] = []
    for (let now = 0; now < 300_000; now += 50) {
      if (now === 120_000) limit.setLimit(6, now)
      if (limit.delay(1, now) > 0) continue
      limit.spend(1, now)
      times.push(now)
    }
    const between = (from: number, to: number) => times.filter((at) => at > from && at <= to).length
    // Nothing was allowed before: the first call waits for what it takes.
    expect(times[0]).toBeGreaterThanOrEqual(1000)
    expect(between(60_000, 120_000)).toBeGreaterThan(50)
    expect(between(90_000, 150_000)).toBeLessThanOrEqual(33)
    expect(between(120_000, 180_000)).toBeLessThanOrEqual(6)
    expect(between(180_000, 300_000)).toBeGreaterThanOrEqual(10)
  })
})
