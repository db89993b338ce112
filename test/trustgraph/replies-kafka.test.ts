// Requests of TrustGraph's clients on real Kafka: what is answered, also when a process dies in the middle, and who asks whom.
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import { textCompletion } from '../../processors/text-completion.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { type FlowRuntimeOptions, run } from '../../src/flow/run.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { createTextService } from '../../src/llm/text-service/text-service.ts'
import { brokerSource } from '../support/brokers.ts'
import { scope, settings } from '../support/flow.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

const present = (await brokerSource('requests of TrustGraph, on Kafka', ['jars'])) !== undefined

const chunk = {
  metadata: { id: 'urn:chunk:1', root: 'urn:doc:1', collection: 'research' },
  ...{ chunk: 'A cat is a feline animal.', document_id: 'urn:chunk:1', attributes: {} },
}
const cat = '{"entity":"Cat","definition":"A feline animal"}\n'
const store = { write: async () => undefined, close: async () => undefined }

describe.skipIf(!present)('on Kafka', { timeout: 120_000 }, () => {
  let server: KafkaServer
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    server = await startKafka()
  })
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })
  afterAll(() => server?.stop())

  const connect = () => connectKafka({ brokers: server.bootstrap })
  let flows = 0

  /** A process of ours; TrustGraph's flow has another id in each test. */
  async function start(flow: string, processors: FlowRuntimeOptions['processors'], llm: Llm) {
    const broker = await connect()
    const wire = wireOf({ flow, group: 'beside' })
    const log = pino({ level: 'silent' })
    const options = {
      broker,
      processors,
      flows: [{ ...scope, settings }],
      llm,
      store,
      log,
      wire,
    }
    const runtime = await run(options, new AbortController().signal)
    const end = async () => {
      await runtime.stop(0)
      await broker.close()
    }
    ends.push(end)
    return { broker, end: () => ends.splice(ends.indexOf(end), 1)[0]!() }
  }

  const topicOf = (kind: string, name: string, flow: string) => `tg.${kind}.${name}.default.${flow}`
  const newFlow = () => `f${++flows}`
  const ask = (broker: Broker, flow: string, id: string, streaming = false) =>
    publishJson(
      broker,
      topicOf('request', 'prompt', flow),
      { id: 'extract-definitions', terms: { text: '"A cat."' }, streaming },
      { id },
    )
  const replies = async (broker: Broker, flow: string, count: number) =>
    (await readJson(broker, topicOf('response', 'prompt', flow), count)).map(({ headers, body }) => ({
      id: headers['id'],
      ...body,
    }))

  test('a request is answered in one message, and a stream in a text and an end', async () => {
    const flow = newFlow()
    const { broker } = await start(flow, [prompt], scriptedLlm([cat]))
    await ask(broker, flow, 'whole')
    await replies(broker, flow, 1)
    await ask(broker, flow, 'streamed', true)
    // The topic has several partitions; a reply is in one of them.
    const all = await replies(broker, flow, 3)
    expect(all.filter(({ id }) => id === 'whole')).toMatchObject([
      { text: null, object: `[${cat.trim()}]`, end_of_stream: true },
    ])
    expect(all.filter(({ id }) => id === 'streamed')).toMatchObject([
      { text: cat, object: null, end_of_stream: false },
      { text: '', object: null, end_of_stream: true },
    ])
  })

  test('a streamed request whose process dies while the model writes is answered by another, once', async () => {
    const flow = newFlow()
    const asked = Promise.withResolvers<void>()
    const half: Llm = {
      ...scriptedLlm([]),
      async *stream(_request, signal) {
        yield { type: 'delta', kind: 'content', text: '{"entity":"Half","definition":"a"}\n' }
        asked.resolve()
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    }
    const dying = await start(flow, [prompt], half)
    await ask(dying.broker, flow, 'streamed', true)
    await asked.promise
    await dying.end()
    const { broker } = await start(flow, [prompt], scriptedLlm([cat]))
    expect(await replies(broker, flow, 2)).toMatchObject([
      { id: 'streamed', text: cat, end_of_stream: false },
      { id: 'streamed', text: '', end_of_stream: true },
    ])
  })

  test('an extractor of ours asks, and gets the reply of TrustGraph’s service by its id', async () => {
    const flow = newFlow()
    const { broker } = await start(flow, [extractDefinitions], scriptedLlm([]))
    await publishJson(broker, topicOf('flow', 'chunk-load', flow), chunk)
    const [request] = await readJson(broker, topicOf('request', 'prompt', flow))
    const reply = { object: `[${cat.trim()}]`, end_of_stream: true }
    const responses = topicOf('response', 'prompt', flow)
    await publishJson(broker, responses, { object: '[{}]', end_of_stream: true }, { id: 'of-another-client' })
    await publishJson(broker, responses, reply, { id: request!.headers['id']! })
    const ours = 'gm.flow.definitions.default.default'
    for await (const { headers } of broker.read(
      { topic: ours, from: 'earliest', until: 'never' },
      AbortSignal.timeout(20_000),
    )) {
      expect(headers).toMatchObject({ documentId: 'urn:doc:1', chunkId: 'urn:chunk:1' })
      break
    }
  })

  test('a chain of three: a client, our prompt processor, and a text-completion service', async () => {
    const flow = newFlow()
    await start(flow, [textCompletion], scriptedLlm([cat]))
    const { broker } = await start(flow, [prompt], createTextService({ model: 'm', timeoutMs: 60_000 }))
    await ask(broker, flow, 'whole')
    expect(await replies(broker, flow, 1)).toMatchObject([
      { id: 'whole', object: `[${cat.trim()}]`, model: 'scripted-1', in_token: 10 },
    ])
  })
})
