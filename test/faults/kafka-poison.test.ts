// Messages that no one can process, on real Kafka: each ends as its error reply or dead letter, can be shown and replayed,
// and holds up none of its neighbours.
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka.ts'
import { deadTopic, topicName, topicSpec } from '../../src/broker/topics.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { graphmill } from '../support/processes.ts'
import { openExecution, type Site, undisturbed, units } from './execution.ts'
import { expectAll } from './expect-all.ts'

const present = (await brokerSource('poison, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('poison, on Kafka', { timeout: 120_000 }, () => {
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
    const { metrics } = await execution.startMill()

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
    // The document's, and the one whose reply nobody could be given.
    expect(llm.counts.calls - callsBefore).toBe(units + 1)

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
      'topic_missing prompt',
    ])
    expect(await metrics.registry.metrics()).toContain(
      'graphmill_dead_letters_total{processor="prompt",code="topic_missing"} 1',
    )
    const letters = []
    for await (const letter of broker.read(
      { topic: deadTopic(topic('document')), from: 'earliest', until: 'end' },
      AbortSignal.timeout(20_000),
    ))
      letters.push(letter)
    expect(letters.map(({ key, value, headers }) => [key, value.byteLength, headers['id']])).toEqual([
      ['k', 2_000_000, 'large'],
    ])

    // Whoever was gone is back: the request is replayed, and answered.
    await broker.ensureTopics([topicSpec(gone)])
    await graphmill('dead', 'replay', 'prompt', '--id', unheard, ...flags)
    for await (const { headers } of broker.read(
      { topic: gone, from: 'earliest', until: 'never' },
      AbortSignal.timeout(20_000),
    )) {
      expect(headers['correlationId']).toBe(unheard)
      break
    }
    // Nobody has mended this one: it dies again, and is not replayed over and over.
    await graphmill('dead', 'replay', 'definitions', ...flags)
    await execution.finished()
    expect(await codes('definitions')).toEqual(['schema_unknown emit-triples', 'schema_unknown emit-triples'])
    await execution.close()
  })
})

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
