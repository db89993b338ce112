// Limits that replicas share, on the memory broker: real clocks, a model server that counts, and the topic's own records.
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import type { Broker } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { limitsTopic } from '../../src/broker/topics.ts'
import { createLimitsTopic, type LimitsTopic } from '../../src/flow/limits-topic.ts'
import { limitedStream } from '../../src/llm/limits/limited-stream.ts'
import { createRateLimiter } from '../../src/llm/limits/rate-limiter.ts'
import { tokenPrice } from '../../src/llm/limits/shared-budget.ts'
import type { SharedLimitsOptions } from '../../src/llm/limits/shared-limits.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { startLlmServer } from '../support/llm-server.ts'

const topic = limitsTopic('gm')
const log = pino({ level: 'silent' })
const opened: LimitsTopic[] = []
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close()
})

type Limits = Omit<SharedLimitsOptions, 'replica' | 'model'>

/** A replica that asks the model with so many callers until it is stopped. */
function startReplica(
  broker: Broker,
  llmUrl: string,
  { callers, key, ...limits }: Limits & { readonly callers: number; readonly key?: string },
) {
  const shared = createLimitsTopic({
    space: 'gm',
    log,
    registry: undefined,
    contextKey: key ? () => key : undefined,
  })
  opened.push(shared)
  const llm = createOpenAi({ baseUrl: llmUrl, apiKey: 'none', model: 'm' })
  const { requestsPerMinute, tokensPerMinute } = limits
  const rateLimiter = createRateLimiter({
    ...{ requestsPerMinute, tokensPerMinute },
    shared: shared.share({ workspace: '', id: 'openai m', model: 'm', ...limits }),
  })
  shared.start(broker)
  const stopping = new AbortController()
  const caller = { workspace: 'w', flow: 'f', lane: 'prompt' }
  const refusals: unknown[] = []
  async function ask(): Promise<void> {
    const request = { messages: [{ role: 'user', content: 'say something short' }] } as const
    while (!stopping.signal.aborted)
      try {
        for await (const _ of limitedStream(llm, rateLimiter, request, caller, stopping.signal));
      } catch (thrown) {
        if (stopping.signal.aborted) return
        refusals.push(thrown)
        await delay(200)
      }
  }
  const done = Promise.all(Array.from({ length: callers }, ask))
  return {
    shared,
    refusals,
    rateLimiter,
    async stop() {
      stopping.abort()
      await done
      opened.splice(opened.indexOf(shared), 1)
      await shared.close()
    },
  }
}

async function records(broker: Broker): Promise<number> {
  let count = 0
  for await (const _ of broker.read({ topic, from: 'earliest', until: 'end' }, new AbortController().signal))
    count++
  return count
}

describe('limits that replicas share through a topic', () => {
  it('hold for calls at once, while replicas join and leave', { timeout: 30_000 }, async () => {
    await using server = await startLlmServer({ latencyMs: 100 })
    const cluster = createMemoryCluster()
    const limits = { concurrency: 4, callers: 8 }
    const first = startReplica(cluster.connect(), server.url, limits)
    await server.until(({ concurrent }) => concurrent === 4)
    const second = startReplica(cluster.connect(), server.url, limits)
    await server.until(() => second.rateLimiter.running === 2 && first.rateLimiter.running === 2)
    await first.stop()
    await server.until(({ concurrent }) => concurrent === 4 && second.rateLimiter.running === 4)
    expect(server.counts.maxConcurrent).toBe(4)
    await second.stop()
  })

  it('go on beside bytes that are no leases, and count only what is signed when there is a key', {
    timeout: 30_000,
  }, async () => {
    await using server = await startLlmServer({ latencyMs: 50 })
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    const limits = { concurrency: 4, callers: 8 }
    const key = 'a key of at least 16 characters'
    const honest = startReplica(broker, server.url, { ...limits, key })
    await server.until(({ concurrent }) => concurrent === 4)
    for (const value of [
      Buffer.alloc(0),
      Buffer.from('garbage'),
      Buffer.from(`c301${'00'.repeat(40)}`, 'hex'),
    ])
      await broker.publish({ topic, key: 'x', value, headers: {} })
    const forger = startReplica(cluster.connect(), server.url, { ...limits, callers: 1 })
    const before = await records(broker)
    await expect.poll(() => records(broker), { timeout: 10_000 }).toBeGreaterThan(before)
    await delay(2500)
    expect(honest.shared.states()[0]!.share).toBe(1)
    expect(forger.rateLimiter.running).toBe(0)
    await forger.stop()
    await honest.stop()
  })

  it('hold a budget, say so, and go on with a larger one', { timeout: 30_000 }, async () => {
    await using server = await startLlmServer({ latencyMs: 20 })
    const cluster = createMemoryCluster()
    const budgetOf = (amount: number) => ({
      budget: { amount, unit: 'tokens', period: 'month', price: tokenPrice } as const,
      callers: 2,
    })
    const one = startReplica(cluster.connect(), server.url, budgetOf(300))
    const two = startReplica(cluster.connect(), server.url, budgetOf(300))
    await expect
      .poll(() => Math.min(one.refusals.length, two.refusals.length), { timeout: 20_000 })
      .toBeGreaterThan(2)
    expect(one.refusals[0]).toMatchObject({ code: 'budget_exhausted', retry: 'later' })
    const [state] = one.shared.states()
    expect(state).toMatchObject({
      isExhausted: true,
      budget: { amount: 300, unit: 'tokens', period: 'month' },
    })
    const { completed } = server.counts
    const tokens = state!.budget!.used / completed
    // Each caller may have been in flight.
    expect(state!.budget!.used).toBeLessThan(300 + 4 * tokens + 1)
    await one.stop()
    await two.stop()
    const before = server.counts.calls
    const three = startReplica(cluster.connect(), server.url, budgetOf(300))
    await expect.poll(() => three.refusals.length).toBeGreaterThan(0)
    expect(server.counts.calls).toBe(before)
    await three.stop()
    const four = startReplica(cluster.connect(), server.url, budgetOf(3000))
    await server.until(({ calls }) => calls > before)
    await four.stop()
  })

  it('hold for a model that is added later', { timeout: 30_000 }, async () => {
    await using server = await startLlmServer({ latencyMs: 100 })
    const cluster = createMemoryCluster()
    const one = startReplica(cluster.connect(), server.url, { concurrency: 2, callers: 4 })
    await server.until(({ concurrent }) => concurrent === 2)
    const broker = cluster.connect()
    const shared = createLimitsTopic({ space: 'gm', log, registry: undefined, contextKey: undefined })
    opened.push(shared)
    shared.share({ workspace: 'other', id: 'openai m', model: 'm', concurrency: 2 })
    shared.start(broker)
    await delay(200)
    const late = createRateLimiter({
      shared: shared.share({ workspace: '', id: 'openai m', model: 'm', concurrency: 2 }),
    })
    const slot = late.acquire({ workspace: 'w', flow: 'f', lane: 'l', signal: new AbortController().signal })
    const winner = await Promise.race([slot, delay(300, undefined)])
    expect(winner).toBeUndefined()
    await slot
    expect(one.rateLimiter.running).toBeLessThanOrEqual(1)
    await one.stop()
  })

  it('publish nothing when nothing is shared', async () => {
    const broker = createMemoryCluster().connect()
    const shared = createLimitsTopic({ space: 'gm', log, registry: undefined, contextKey: undefined })
    shared.start(broker)
    await delay(50)
    expect(await broker.listTopics('gm.')).toEqual([])
    await shared.close()
  })
})
