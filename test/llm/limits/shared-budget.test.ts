// A budget of a day or month: what it costs, what is reserved of it, and that a replica begins nothing without a reservation.
import { describe, expect, it } from 'vitest'
import { createSharedBudget, readBudget, tokenPrice } from '../../../src/llm/limits/shared-budget.ts'

const noon = Date.parse('2026-11-23T12:00:00Z')
const dollars = (amount: number, time = () => noon) =>
  createSharedBudget({
    ...{ amount, unit: 'usd', period: 'day', model: 'm', time },
    price: { prompt: 1_000_000, completion: 2_000_000 },
  })
const ended = (promptTokens: number, completionTokens: number) => ({
  accepted: true,
  usage: { promptTokens, completionTokens, totalTokens: promptTokens + completionTokens },
})

describe('a budget of a day or month', () => {
  it.each([
    ['20/day', { amount: 20, unit: 'usd', period: 'day' }],
    ['0.5/month', { amount: 0.5, unit: 'usd', period: 'month' }],
    ['5000000tokens/day', { amount: 5_000_000, unit: 'tokens', period: 'day' }],
  ])('is read from %s', (text, terms) => expect(readBudget(text)).toEqual(terms))

  it.each(['', '20', '-1/day', '0/day', '1e3/day', '20/week', '5 tokens', 'NaN/day'])(
    'is not read from %j',
    (text) => expect(() => readBudget(text)).toThrow('budget: must be an amount'),
  )

  it('begins no call before a reservation was read back', () => {
    const budget = dollars(100)
    expect(budget.admits()).toBe(false)
    const uses = budget.plan(true, 0, 0)
    expect(budget.admits()).toBe(false)
    budget.confirmed(uses)
    expect(budget.admits()).toBe(true)
  })

  it('reserves nothing that another has reserved before, and says when nothing is left', () => {
    const budget = dollars(100)
    const uses = budget.plan(true, 0, 0)
    budget.changed([], [{ period: '2026-11-23', spent: 10, reserved: 99.5 }])
    budget.confirmed(uses)
    expect(budget.admits()).toBe(false)
    expect(budget.exhausted()).toBeUndefined()
    budget.changed([], [{ period: '2026-11-23', spent: 1, reserved: 1 }])
    expect(budget.exhausted()).toMatchObject({ code: 'budget_exhausted', retryAfterMs: 30_000 })
    expect(budget.exhausted()!.message).toContain('2026-11-24T00:00:00.000Z')
  })

  it('counts what calls cost, what is expected of those without a report, and nothing for those that were refused', () => {
    const budget = dollars(1000)
    budget.begin(10)(ended(10, 20))
    expect(budget.used()).toBe(50)
    budget.begin(10)({ accepted: false })
    expect(budget.used()).toBe(50)
    budget.begin(10)({ accepted: true })
    expect(budget.used()).toBeGreaterThan(50 + 10)
  })

  it('begins again with the next day, and calls over midnight count for the day of their begin', () => {
    let now = noon
    const budget = dollars(100, () => now)
    const end = budget.begin(10)
    now += 24 * 3600_000
    expect(budget.used()).toBe(0)
    end(ended(10, 20))
    expect(budget.used()).toBe(0)
    const uses = budget.plan(true, 0, 0)
    expect(uses.map(({ period, spent }) => [period, spent])).toEqual([
      ['2026-11-24', 0],
      ['2026-11-23', 50],
    ])
  })

  it('goes on with what was spent when the clock is set back over midnight, and again', () => {
    let now = Date.parse('2026-11-24T00:00:00Z') - 1
    const budget = dollars(100, () => now)
    budget.confirmed(budget.plan(true, 0, 0))
    budget.begin(10)(ended(10, 40))
    now += 1
    budget.begin(10)(ended(10, 0))
    now -= 1
    expect(budget.used()).toBe(90)
    expect(budget.admits()).toBe(false)
    const uses = budget.plan(true, 0, 0).map(({ period, spent }) => [period, spent])
    expect(uses).toEqual([
      ['2026-11-23', 90],
      ['2026-11-24', 10],
    ])
    now += 1
    expect(budget.used()).toBe(10)
  })

  it('gives back what it has not spent when there are no calls', () => {
    const budget = createSharedBudget({
      ...{ amount: 1000, unit: 'tokens', period: 'month', model: 'm', time: () => noon, price: tokenPrice },
    })
    budget.confirmed(budget.plan(true, 0, 0))
    budget.begin(3)(ended(2, 1))
    expect(budget.plan(false, 0, 5000)).toEqual([{ period: '2026-11', spent: 3, reserved: 3 }])
    expect(budget.admits()).toBe(false)
  })
})
