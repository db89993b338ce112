// Requests whose clients have left, on real Kafka: each is a dead letter before the model is asked, and neither the flow nor
// the clients beside them notice.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { topicName, topicSpec } from '../../src/broker/topics.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { openExecution, type Site } from './execution.ts'
import { leftClients, lettersOf, request, rules } from './left-clients.ts'

const present = (await brokerSource('reply topics, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('requests whose reply topic is missing, on Kafka', { timeout: 240_000 }, () => {
  let server: KafkaServer
  let llm: LlmServer
  beforeAll(async () => {
    server = await startKafka()
    llm = await startLlmServer({ rules })
  }, 120_000)
  afterAll(async () => {
    await llm?.close()
    await server?.stop()
  }, 120_000)

  const site = (): Site => ({
    brokerUrl: `kafka://${server.bootstrap.join()}`,
    connect: () => connectKafka({ brokers: server.bootstrap }),
  })
  const open = (space: string) => openExecution(site(), { space, llmUrl: llm.url })

  test.each([
    { clients: 300, each: 1 },
    { clients: 30, each: 100 },
    { clients: 3000, each: 1 },
  ])(
    '$clients clients that have left, with $each requests each, cost no call and block no other',
    async (load) => {
      await leftClients(site(), load)
      expect.hasAssertions()
    },
  )

  test('a client that leaves while the model writes costs its own request only', async () => {
    const execution = await open('leaving')
    const { runtime } = await execution.startRuntime({ only: ['prompt'] })
    let ended: unknown
    runtime.done.catch((error) => {
      ended = error
    })
    const connect = () => PromptClient.connect({ broker: execution.broker, space: 'leaving', lane: 'prompt' })
    const staying = await connect()
    const waits: number[] = []
    for (let round = 0; round < 5; round++) {
      const leaving = await Promise.all(Array.from({ length: 5 }, connect))
      const given = leaving.map((one) => one.ask('extract-definitions', { text: `x${round}` }).next())
      for (const one of given) one.catch(() => {})
      await Promise.all(leaving.map((one) => one.close()))
      const begun = performance.now()
      const parts: unknown[] = []
      for await (const part of staying.ask('extract-definitions', { text: `stays ${round}` }))
        parts.push(part)
      expect(parts).toHaveLength(1)
      waits.push(Math.round(performance.now() - begun))
    }
    process.stderr.write(`one that stays waited for ${waits.join(', ')} ms while five left\n`)
    expect(ended).toBeUndefined()
    await staying.close()
    await execution.close()
  })

  test('what is no message of its topic is a dead letter that says so', async () => {
    const execution = await open('misplaced')
    await execution.startRuntime({ only: ['prompt', 'extract-definitions', 'chunk-text'] })
    const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
    const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
    await producer.connect()
    const id = await execution.send('prompt', request)
    const [bare] = await lettersOf(execution.broker, execution.topic('prompt'), 1)
    expect(bare!.headers).toMatchObject({ id, 'dead-code': 'reply_topic_refused' })
    const { 'content-crc32': crc } = bare!.headers
    for (const port of ['chunk', 'document'] as const) {
      const topic = execution.topic(port)
      const value = Buffer.from(bare!.value)
      const messages = [
        { key: 'k', value, headers: { id, 'content-crc32': crc! } },
        { key: 'k', value: null, headers: { id: 'tombstone' } },
      ]
      await producer.send({ topic, messages })
      const letters = await lettersOf(execution.broker, topic, 2)
      expect(letters.map(({ headers }) => headers['dead-code']).sort()).toEqual([
        'message_empty',
        'message_misplaced',
      ])
      const misplaced = letters.find(({ headers }) => headers['dead-code'] === 'message_misplaced')
      expect(misplaced!.headers['dead-message']).toContain('PromptRequest')
    }
    await producer.disconnect()
    await execution.close()
  })

  test('hundreds of dead letters open no connection of their own', async () => {
    const execution = await open('letters')
    await execution.startRuntime({ only: ['prompt'] })
    const place = { space: 'letters', workspace: 'default', flow: 'default' }
    const replyTo = (receiver: string) => topicName({ ...place, class: 'response', role: 'prompt', receiver })
    await execution.broker.ensureTopics([topicSpec(replyTo('client'))])
    const ask = (n: number) =>
      execution.send(
        'prompt',
        { ...request, promptId: 'none' },
        { replyTo: replyTo(n % 2 ? 'client' : `gone-${n}`) },
      )
    await Promise.all([0, 1].map(ask))
    await lettersOf(execution.broker, execution.topic('prompt'), 2)
    let opened = 0
    const count = () => opened++
    subscribe('net.client.socket', count)
    await Promise.all(Array.from({ length: 300 }, (_, n) => ask(n)))
    await lettersOf(execution.broker, execution.topic('prompt'), 302)
    unsubscribe('net.client.socket', count)
    process.stderr.write(`300 dead letters: ${opened} connections opened\n`)
    expect(opened).toBeLessThan(20)
    await execution.close()
  })
})
