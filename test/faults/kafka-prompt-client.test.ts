// PromptClient on real Kafka: replies of a flow, and a broker that goes away under it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { type Execution, openExecution } from './execution.ts'

const present = (await brokerSource('PromptClient on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('PromptClient on Kafka', { timeout: 120_000 }, () => {
  let server: KafkaServer
  let llm: LlmServer
  let execution: Execution
  beforeAll(async () => {
    server = await startKafka()
    llm = await startLlmServer({ rules: [{ reply: '{"entity":"mill","definition":"a machine"}\n' }] })
    const connect = () => connectKafka({ brokers: server.bootstrap })
    const site = { brokerUrl: `kafka://${server.bootstrap.join()}`, connect }
    execution = await openExecution(site, { space: 'asked', llmUrl: llm.url })
    await execution.startRuntime({ only: ['prompt'] })
  }, 120_000)
  afterAll(async () => {
    await execution.close()
    await llm.close()
    await server.stop()
  }, 120_000)

  test('many requests in flight each get their own reply, and the reply topic goes when it closes', async () => {
    const client = await PromptClient.connect({ broker: execution.broker, space: 'asked' })
    const replies = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const items: unknown[] = []
        const context = { n: `${n}` }
        for await (const part of client.ask('extract-definitions', { text: `Text ${n}.` }, { context })) {
          expect(part.context).toMatchObject(context)
          items.push(...(JSON.parse(part.object ?? '[]') as unknown[]))
        }
        return items.length
      }),
    )
    expect(replies).toEqual(Array(50).fill(1))
    const replyTopics = async () =>
      (await execution.broker.listTopics('asked.response.prompt.client-')).map(({ name }) => name)
    expect(await replyTopics()).toHaveLength(1)
    await client.close()
    await expect.poll(replyTopics, { timeout: 30_000 }).toEqual([])
  })

  test('a request keeps its timeout, and is cancelled at once, while the broker is unavailable', async () => {
    const client = await PromptClient.connect({ broker: execution.broker, space: 'asked' })
    await server.kill(0)
    const begun = performance.now()
    const ask = (options: { timeoutMs: number; signal?: AbortSignal }) =>
      client.ask('extract-definitions', { text: 'x' }, options).next()
    const cancelled = new AbortController()
    const reason = new Error('not wanted any more')
    setTimeout(() => cancelled.abort(reason), 1000)
    await Promise.all([
      expect(ask({ timeoutMs: 1000 })).rejects.toMatchObject({ code: 'deadline_exceeded' }),
      expect(ask({ timeoutMs: 60_000, signal: cancelled.signal })).rejects.toBe(reason),
    ])
    expect(performance.now() - begun).toBeLessThan(10_000)
    await server.restart(0)
    await client.close()
  })
})
