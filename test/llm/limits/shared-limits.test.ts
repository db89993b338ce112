// Limits that replicas share, in simulated time: random replicas join, leave and are killed, their clocks differ by hours, and a
// server counts. The bounds are those of docs/models.md.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tokenPrice } from '../../../src/llm/limits/shared-budget.ts'
import { createSharedLimits } from '../../../src/llm/limits/shared-limits.ts'
import type { LimitLease, LimitLeaseInit } from '../../../src/messages/generated.ts'
import { limitReplicas, type ReplicaOptions } from '../../support/limit-replicas.ts'
import { simulatedTime } from '../../support/simulated-time.ts'

const minute = 60_000
const one = () => 1

/** What happens to the replicas, one after the other. */
const events = fc.array(
  fc.record({
    after: fc.integer({ min: 1, max: 40_000 }),
    what: fc.constantFrom('join', 'leave', 'kill'),
    who: fc.nat(),
  }),
  { minLength: 5, maxLength: 8 },
)

/** There is always one that neither leaves nor is killed, and at most ten. There is a minute between two kills. */
async function play(plan: readonly { after: number; what: string; who: number }[], options: ReplicaOptions) {
  const time = simulatedTime()
  const site = limitReplicas(time)
  const living: ReturnType<typeof site.join>[] = []
  let count = 0
  const join = () => living.push(site.join(`r${count++}`, { ...options, skew: count * 7_200_000 }))
  let killedAt = 0
  join()
  join()
  for (const { after, what: wish, who } of plan) {
    await time.runUntil(time.now() + after)
    const what = wish === 'kill' && time.now() < killedAt + minute ? 'join' : wish
    if (what === 'kill') killedAt = time.now()
    const [chosen] =
      what === 'join' || living.length < 2 ? [] : living.splice(1 + (who % (living.length - 1)), 1)
    if (!chosen && living.length < 10) join()
    if (what === 'leave') void chosen?.leave()
    else chosen?.kill()
  }
  await time.runUntil(Math.max(time.now(), 3 * minute))
  return { ...site, end: time.now() }
}

describe('limits that replicas share', () => {
  it.each([
    { limits: { requestsPerMinute: 600 }, amount: one },
    { limits: { requestsPerMinute: 20 }, amount: one },
    { limits: { tokensPerMinute: 60_000 }, amount: ({ tokens }: { tokens: number }) => tokens },
  ])(
    '$limits: never more than 110% in any minute, and never under half in one',
    async ({ limits, amount }) => {
      const [most] = Object.values(limits) as [number]
      await fc.assert(
        fc.asyncProperty(events, async (plan) => {
          const site = await play(plan, { ...limits, callers: 24, longest: 2000, tokens: 500 })
          expect(site.mostInMinute(amount)).toBeLessThanOrEqual(1.1 * most)
          expect(site.leastIn(minute, amount, 20_000, site.end)).toBeGreaterThanOrEqual(Math.floor(most / 2))
        }),
        { numRuns: 5, endOnFailure: true },
      )
    },
  )

  it('5 requests a minute: never more in any minute, and over half of them in the long run', async () => {
    await fc.assert(
      fc.asyncProperty(events, async (plan) => {
        const site = await play(plan, { requestsPerMinute: 5, callers: 4, longest: 2000 })
        expect(site.mostInMinute(one)).toBeLessThanOrEqual(5)
        expect(site.calls.length / (site.end / minute)).toBeGreaterThan(2.5)
      }),
      { numRuns: 5, endOnFailure: true },
    )
  })

  it.each([1, 4, 16])('%i calls at once: never more, and nearly always as many', async (concurrency) => {
    await fc.assert(
      fc.asyncProperty(events, async (plan) => {
        const site = await play(plan, { concurrency, callers: 20, longest: 3000 })
        expect(Math.max(...site.calls.map(({ running }) => running))).toBeLessThanOrEqual(concurrency)
        // A call takes 1.65 s on average.
        const usual = (concurrency * minute) / 1650
        expect(site.leastIn(minute, one, 10_000, site.end)).toBeGreaterThan(usual / 2)
      }),
      { numRuns: 5, endOnFailure: true },
    )
  })

  it('publishes at most one lease in 2 s and replica, and nothing without calls', async () => {
    const time = simulatedTime()
    const site = limitReplicas(time)
    const replicas = ['a', 'b', 'c'].map((name) =>
      site.join(name, { requestsPerMinute: 300, callers: 10, longest: 3000 }),
    )
    await time.runUntil(minute)
    for (const { pause } of replicas) pause()
    await time.runUntil(2 * minute)
    const before = site.published.length
    await time.runUntil(10 * minute)
    expect(site.published.length).toBe(before)
    for (const name of ['a', 'b', 'c']) {
      const times = site.published.filter(({ replica }) => replica === name).map(({ at }) => at)
      expect(Math.min(...times.slice(1).map((at, index) => at - times[index]!))).toBeGreaterThanOrEqual(2000)
    }
  })

  it('publishes a lease again that was not read back, also that of a replica without calls', () => {
    let now = 0
    const budget = { amount: 1000, unit: 'tokens', period: 'day', price: tokenPrice } as const
    const holder = createSharedLimits({ replica: 'r', model: 'm', budget, now: () => now, time: () => now })
    const user = { running: 0, waiting: 1, waitsSince: 0, nextTokens: 3, serve() {} }
    holder.limits.attach(user)
    const read = (lease: LimitLeaseInit) => holder.heard({ ...lease, signature: '' } as LimitLease)
    read(holder.next()!)
    holder.limits.begin(3)({ accepted: true })
    user.waiting = 0
    now += 2000
    const idle = holder.next()!
    expect(idle.budgets![0]!.reserved).toBeLessThan(10)
    now += 5000
    const again = holder.next()!
    expect(again).toEqual({ ...idle, number: idle.number + 1 })
    read(again)
    now += 5000
    expect(holder.next()).toBeUndefined()
  })

  it('gives a replica that has more to do what the others do not need', async () => {
    const time = simulatedTime()
    const site = limitReplicas(time)
    const options = { requestsPerMinute: 600, longest: 2000 }
    for (const name of ['idle', 'quiet']) site.join(name, { ...options, longest: 20_000, callers: 1 })
    site.join('busy', { ...options, callers: 40 })
    await time.runUntil(4 * minute)
    const last = site.calls.filter(({ at, replica }) => at > 3 * minute && replica === 'busy')
    expect(last.length).toBeGreaterThan(0.8 * 600)
  })

  it('gives every replica its turn when there are more replicas than calls', async () => {
    const time = simulatedTime()
    const site = limitReplicas(time)
    for (const name of ['a', 'b', 'c']) site.join(name, { concurrency: 2, callers: 4, longest: 2000 })
    await time.runUntil(60 * minute)
    const counts = ['a', 'b', 'c'].map((name) => site.calls.filter(({ replica }) => replica === name).length)
    expect(Math.min(...counts)).toBeGreaterThan(site.calls.length / 10)
  })

  it('ignores leases that are no leases, and goes on beside one that wants everything', async () => {
    const time = simulatedTime()
    const site = limitReplicas(time)
    site.join('a', { requestsPerMinute: 300, callers: 20, longest: 2000 })
    await time.runUntil(minute)
    const strange = {
      model: '',
      replica: 'x',
      number: 1,
      wants: 1,
      least: 0.01,
      has: 0,
      budgets: [],
      signature: '',
    }
    const values = [Number.NaN, -5, 1e308, Number.POSITIVE_INFINITY]
    const garbled: Partial<LimitLease>[] = values.flatMap((value) => [
      { wants: value },
      { has: value },
      { least: value },
      { number: value + 0.5 },
      { budgets: [{ period: '2026-11-23', spent: value, reserved: value }] },
    ])
    for (const [index, each] of garbled.entries())
      site.append({ ...strange, replica: `x${index}`, ...each } as LimitLease)
    site.append({ ...strange, replica: 'y'.repeat(1000) })
    await time.runUntil(2 * minute)
    expect(site.leastIn(minute, one, 30_000, 2 * minute)).toBeGreaterThan(0.9 * 300)
    site.append(strange)
    await time.runUntil(4 * minute)
    expect(site.mostInMinute(one)).toBeLessThanOrEqual(330)
    expect(site.leastIn(minute, one, 30_000, 4 * minute)).toBeGreaterThan(150)
  })
})

describe('a budget that replicas share', () => {
  const day = Date.parse('2026-11-23T23:30:00Z')
  const midnight = 30 * minute
  const amount = 1_000_000
  const budget = { amount, unit: 'tokens', period: 'day', price: tokenPrice } as const
  const callers = 8

  it.each([{ killed: false }, { killed: true }])(
    'is passed by calls in flight only, and goes on the next day; killed: $killed',
    async ({ killed }) => {
      await fc.assert(
        fc.asyncProperty(events, fc.integer({ min: 0, max: 100_000 }), async (plan, skew) => {
          const time = simulatedTime()
          const site = limitReplicas(time)
          const options = { budget, callers, longest: 4000, tokens: 1000 }
          const living = new Map<string, ReturnType<typeof site.join>>()
          // Their clocks differ by minutes.
          const join = (name: string) =>
            living.set(
              name,
              site.join(name, {
                ...options,
                skew: living.size * 1e6,
                time: () => day + time.now() + (living.size % 3) * skew,
              }),
            )
          join('first')
          for (const [index, { after, what }] of plan.entries()) {
            await time.runUntil(time.now() + after)
            const name = [...living.keys()][1]
            if (!name || what === 'join') join(`r${index}`)
            else {
              if (killed) living.get(name)!.kill()
              else void living.get(name)!.leave()
              living.delete(name)
            }
          }
          await time.runUntil(midnight - 10 * minute)
          const spent = site.calls.reduce((sum, { tokens }) => sum + tokens, 0)
          // One call of each replica may pass it, and estimates are wrong by up to 20%.
          expect(spent).toBeLessThanOrEqual(amount + (plan.length + 2) * callers * 1200)
          // What killed replicas had reserved stays spent: 1% of the budget or 10 s of their calls.
          const lost = killed ? plan.length * Math.max(0.01 * amount, 10 * callers * 1200) : 0
          expect(spent).toBeGreaterThan(amount - lost - callers * 1200)
          const before = site.calls.length
          await time.runUntil(midnight - 4 * minute)
          expect(site.calls.length).toBe(before)
          await time.runUntil(midnight + 2 * minute)
          expect(site.calls.length).toBeGreaterThan(before + 10)
        }),
        { numRuns: 5, endOnFailure: true },
      )
    },
  )
})
