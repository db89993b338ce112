// Messages that no one can process, on real Kafka: each ends as its error reply or dead letter, can be shown and replayed,
// and holds up none of its neighbours.
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { deadTopic, topicName, topicSpec } from '../../src/broker/topics.ts'
import { createSchemasTopic } from '../../src/flow/schemas-topic.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import type { ComposedSchema } from '../../src/messages/wire.ts'
import { brokerSource } from '../support/brokers.ts'
import { bookOf } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { graphmill, startGraphmill } from '../support/processes.ts'
import { extractors, openExecution, type Site, undisturbed, units } from './execution.ts'
import { expectAll } from './expect-all.ts'

const present = (await brokerSource('poison, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('poison, on Kafka', { timeout: 240_000 }, () => {
  let server: KafkaServer
  let site: Site

  beforeAll(async () => {
    server = await startKafka()
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
  })
  afterAll(() => server?.stop())

  test('every kind has its outcome, and a document beside them is whole', async () => {
    await using llm = await startLlmServer()
    const expected = await undisturbed(llm.url)
    const callsBefore = llm.counts.calls
    const execution = await openExecution(site, { space: 'poison', llmUrl: llm.url })
    const { broker, topic, send } = execution
    const place = { space: 'poison', workspace: 'default', flow: 'default' }
    const responseTopic = (receiver: string) =>
      topicName({ ...place, class: 'response', role: 'prompt', receiver })
    const [inbox, gone] = [responseTopic('tester'), responseTopic('gone')]
    await broker.ensureTopics([
      topicSpec(inbox),
      topicSpec(topic('chunk')),
      topicSpec(topic('definitions')),
      { ...topicSpec(topic('document')), maxBytes: 3 * 1024 * 1024 },
    ])
    const { metrics } = await execution.startRuntime()

    const bytes = (text: string) => Buffer.from(text)
    await broker.publish({
      topic: topic('chunk'),
      key: 'k',
      value: bytes('no Avro'),
      headers: { id: 'undecodable' },
    })
    const unknown = Buffer.concat([Buffer.from('c3010102030405060708', 'hex'), bytes('some body')])
    await broker.publish({
      topic: topic('definitions'),
      key: 'k',
      value: unknown,
      headers: { id: 'unknown' },
    })
    await foreign(server, {
      topic: topic('document'),
      value: Buffer.alloc(2_000_000, 'x'),
      headers: { id: 'large' },
    })
    const ask = {
      promptId: 'extract-topics',
      terms: { text: '"A mill is a machine."' },
      streaming: true,
      context: {},
    }
    const noPrompt = await send('prompt', { ...ask, promptId: 'no-such' }, { replyTo: inbox })
    const late = await send('prompt', ask, { replyTo: inbox, deadline: Date.now() - 1000 })
    const unheard = await send('prompt', ask, { replyTo: gone })

    await execution.load()
    await expectAll(execution, expected)
    // Only the document's: no reply is requested that no client could get.
    expect(llm.counts.calls - callsBefore).toBe(units)

    const replies = (await execution.messages(inbox)) as Message<'PromptResponse'>[]
    expect(replies.map(({ correlationId, payload }) => [correlationId, payload.error?.type]).sort()).toEqual(
      [
        [noPrompt, 'prompt_unknown'],
        [late, 'deadline_exceeded'],
      ].sort(),
    )
    expect(replies.every(({ payload }) => payload.endOfStream)).toBe(true)

    const flags = ['--broker', site.brokerUrl, '--space', 'poison']
    const shown = async (role: string) =>
      (await graphmill('dead', 'show', role, ...flags))
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { headers: Record<string, string> }).headers)
    const codes = async (role: string) =>
      (await shown(role)).map((headers) => `${headers['dead-code']} ${headers['dead-processor']}`).sort()
    expect(await codes('chunk')).toEqual([
      'bytes_undecodable extract-definitions',
      'bytes_undecodable extract-relationships',
      'bytes_undecodable extract-topics',
    ])
    expect(await codes('definitions')).toEqual(['schema_unknown emit-triples'])
    expect(await codes('document')).toEqual(['message_too_large chunk-text'])
    expect(await codes('prompt')).toEqual([
      'deadline_exceeded prompt',
      'prompt_unknown prompt',
      'reply_topic_missing prompt',
    ])
    expect(await metrics.registry.metrics()).toContain(
      'graphmill_dead_letters_total{processor="prompt",code="reply_topic_missing"} 1',
    )
    const large = ['k', 2_000_000, 'large']
    expect((await stored(broker, deadTopic(topic('document')))).map(look)).toEqual([large])

    // The client that was gone is back: the request is replayed, and answered.
    await broker.ensureTopics([topicSpec(gone)])
    await graphmill('dead', 'replay', 'prompt', '--id', unheard, ...flags)
    for await (const { headers } of broker.read(
      { topic: gone, from: 'earliest', until: 'never' },
      AbortSignal.timeout(20_000),
    )) {
      expect(headers['correlationId']).toBe(unheard)
      break
    }
    // Nobody has mended these: each comes back to its topic as it was, dies again, and is not replayed over and over.
    const outcome = async (role: 'chunk' | 'definitions' | 'document') => {
      const said = (await run('dead', 'replay', role, ...flags)).stderr
      await execution.settled()
      const back = (await stored(broker, topic(role))).filter(({ headers }) => headers['replayed'])
      return { said: said.trim().split('\n').at(-1), back: back.map(look), codes: await codes(role) }
    }
    const three = ['extract-definitions', 'extract-relationships', 'extract-topics']
    const perExtractor = three.flatMap((name) => Array(2).fill(`bytes_undecodable ${name}`))
    // It died in three groups, and comes back to all of them at once.
    expect(await outcome('chunk')).toEqual({
      said: '3 replayed',
      back: [['k', 7, 'undecodable']],
      codes: perExtractor,
    })
    expect(await outcome('definitions')).toEqual({
      said: '1 replayed',
      back: [['k', unknown.byteLength, 'unknown']],
      codes: ['schema_unknown emit-triples', 'schema_unknown emit-triples'],
    })
    expect(await outcome('document')).toEqual({
      said: '1 replayed',
      back: [large],
      codes: ['message_too_large chunk-text', 'message_too_large chunk-text'],
    })
    expect((await stored(broker, deadTopic(topic('document')))).map(look)).toEqual([large, large])

    // A topic that takes no such message any more: that letter is reported, those behind it come back, and both replays end.
    await limit(server, topic('document'), 1024 * 1024)
    await broker.publish({
      topic: topic('document'),
      key: 'k',
      value: bytes('no Avro'),
      headers: { id: 'small' },
    })
    await execution.settled()
    const both = await Promise.all([0, 1].map(() => run('dead', 'replay', 'document', ...flags)))
    const refusal = /^large in poison\.flow\.document.*can't be replayed: .*\[message_too_large\]$/m
    expect(both.map(({ code }) => code).sort()).toEqual([0, 1])
    expect(both.filter(({ stderr }) => refusal.test(stderr)).map(({ code }) => code)).toEqual([1])
    expect(both.some(({ stderr }) => /^1 replayed/m.test(stderr))).toBe(true)
    expect((await stored(broker, topic('document'))).map(look).slice(-1)).toEqual([['k', 7, 'small']])
    await execution.close()
  })

  test('one whose cause was fixed before its replay is done, and its document with it', async () => {
    await using llm = await startLlmServer()
    const execution = await openExecution(site, { space: 'mended', llmUrl: llm.url })
    const { broker, topic } = execution
    await execution.startRuntime()
    const about = { documentId: 'urn:test:mended' }
    await execution.send('progress', { kind: 'document', parts: 1, title: 'mended' }, about)
    await execution.send('progress', { kind: 'part', part: 0, chunks: 1, units: extractors }, about)
    // A chunk of a build that has one more field, which has not announced its schema.
    const schemas = loadSchemas()
    const next = structuredClone(schemas.current.get('Chunk')) as ComposedSchema & {
      fields: { type: { fields: object[] } }[]
    }
    const record = next.fields.at(-1)!.type as { fields: object[] }
    record.fields.push({ name: 'language', type: 'string', default: '' })
    const newer = createCodec({
      ...schemas,
      current: new Map([...schemas.current, ['Chunk' as const, next]]),
    })
    const header = {
      source: 'newer',
      time: Date.now(),
      workspace: 'default',
      flow: 'default',
      collection: 'default',
      ...about,
      chunkId: `${about.documentId}/0/0`,
      correlationId: 'chunk',
      causationId: '',
      replyTo: null,
      deadline: null,
      traceparent: null,
    }
    const payload = { text: bookOf(1), part: 0, index: 0, offset: 0, length: bookOf(1).length }
    const sealing = { topic: topic('chunk'), key: header.chunkId, salt: '', id: () => 'chunk' }
    await broker.publish(newer.encode(header, { type: 'Chunk', payload }, sealing))

    const flags = ['--broker', site.brokerUrl, '--space', 'mended']
    const status = async () => {
      const { stdout } = await run('status', about.documentId, '--json', ...flags)
      return stdout === '' ? undefined : (JSON.parse(stdout) as unknown)
    }
    const patience = { timeout: 30_000, interval: 500 }
    await expect
      .poll(status, patience)
      .toMatchObject({ state: 'failed', units: { expected: 3, done: 0, partial: 0, dead: 3 } })
    expect(llm.counts.calls).toBe(0)

    await createSchemasTopic(broker, newer, 'mended').announce(AbortSignal.timeout(20_000))
    await graphmill('dead', 'replay', 'chunk', ...flags)
    await expect
      .poll(status, patience)
      .toMatchObject({ state: 'done', units: { expected: 3, done: 3, partial: 0, dead: 0 } })
    expect(llm.counts.calls).toBe(3)
    await execution.close()
  })
})

const look = ({ key, value, headers }: ReadMessage) => [key, value.byteLength, headers['id']]

/** All that a topic holds now. */
async function stored(broker: Broker, topic: string): Promise<ReadMessage[]> {
  const found: ReadMessage[] = []
  const signal = AbortSignal.timeout(20_000)
  for await (const entry of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) found.push(entry)
  return found
}

/** Runs `graphmill` to its end, whatever that is. */
async function run(...parameters: readonly string[]) {
  const child = startGraphmill(parameters)
  const { code } = await child.ended
  return { code, stdout: child.stdout(), stderr: child.stderr() }
}

/** Publishes past all of our limits, as another program would. */
async function foreign(
  server: KafkaServer,
  { topic, value, headers }: { topic: string; value: Buffer; headers: Record<string, string> },
): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  await producer.connect()
  await producer.send({ topic, messages: [{ key: 'k', value, headers }] })
  await producer.disconnect()
}

/** Sets the largest message that a topic takes, as an operator would. */
async function limit(server: KafkaServer, topic: string, bytes: number): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  const configEntries = [{ name: 'max.message.bytes', value: `${bytes}` }]
  const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configEntries }]
  await admin.alterConfigs({ validateOnly: false, resources })
  await admin.disconnect()
}
