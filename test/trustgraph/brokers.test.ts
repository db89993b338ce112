// A flow on TrustGraph's topics over each broker: memory, Kafka, and Pulsar over both of its protocols.
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { connectPulsarBinary, connectPulsarWebSocket } from '../../src/broker/pulsar/pulsar.ts'
import { deadTopic } from '../../src/broker/topics.ts'
import { defineProcessor } from '../../src/flow/processor.ts'
import { trustGraphBroker } from '../../src/trustgraph/broker.ts'
import { kafkaTopic, pulsarTopic } from '../../src/trustgraph/names.ts'
import { createWire } from '../../src/trustgraph/wire.ts'
import { brokerSource } from '../support/brokers.ts'
import { settings, startFlow, type TestFlow } from '../support/flow.ts'
import { startKafka } from '../support/kafka-server.ts'
import { nativePulsar } from '../support/native-pulsar.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { pulsarPath, putPulsar, startTrustGraphPulsar } from '../support/trustgraph/brokers.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

interface Cluster {
  readonly connect: () => Promise<Broker>
  readonly stop: () => Promise<void>
  /** Makes a topic as TrustGraph does. */
  readonly createTopic: (name: string) => Promise<void>
}

const ids = { workspace: 'Acme.Corp', flow: 'Papers.v1' }
const cat = '{"entity": "Cat", "definition": "A feline animal"}\n'
const chunkOf = (id: string, text = 'A cat is a feline animal.') => ({
  metadata: { id, root: 'urn:doc:1', collection: 'research' },
  chunk: text,
  document_id: id,
  attributes: {},
})

/** The length of each chunk's text. */
const measure = defineProcessor({
  name: 'measure',
  inputs: ['chunk'],
  outputs: ['topics'],
  async *handle({ payload }) {
    const facts = [{ topic: String(payload.text.length), definition: 'd' }]
    yield { to: 'topics', payload: { run: { id: 'r', startedAt: 1 }, facts } }
  },
})

function flowsOver(kind: 'kafka' | 'pulsar', open: () => Promise<Cluster>) {
  const wire = wireOf(ids, kind)
  const nameOf = (ours: string) => wire.find(ours)!.name
  const [chunks, triples] = [
    nameOf('gm.flow.chunk.default.default'),
    nameOf('gm.flow.triples.default.default'),
  ]
  const requests = nameOf('gm.request.prompt.default.default')
  const replies = nameOf('gm.response.prompt.trustgraph.default.default')
  let cluster: Cluster
  let theirs: Broker
  const flows: TestFlow[] = []
  const brokers: Broker[] = []
  beforeAll(async () => {
    cluster = await open()
    theirs = await cluster.connect()
  }, 200_000)
  afterEach(async () => {
    await Promise.all(flows.splice(0).map((flow) => flow.stop()))
    await Promise.all(brokers.splice(0).map((broker) => broker.close()))
  }, 60_000)
  afterAll(async () => {
    await theirs?.close()
    await cluster?.stop()
  }, 60_000)

  async function start(...processors: Parameters<typeof startFlow>[0]) {
    const broker = await cluster.connect()
    brokers.push(broker)
    const flow = await startFlow(processors, { broker, wire, llm: scriptedLlm(Array(50).fill(cat)) })
    flows.push(flow)
  }

  /** Until a new group has its place, at the end, what is published is not its own. */
  async function until<T>(answer: Promise<T>, publish: (round: number) => Promise<void>): Promise<T> {
    let over = false
    const done = answer.finally(() => {
      over = true
    })
    done.catch(() => {})
    for (let round = 0; !over && round < 60; round++) {
      await publish(round)
      await Promise.race([done, delay(500)])
    }
    return await done
  }

  test('takes chunks and requests of TrustGraph, answers there, and leaves its topics as they are', async () => {
    await cluster.createTopic(chunks)
    const before = await theirs.listTopics(chunks)
    await start(extractDefinitions, prompt, emitTriples)
    expect(await theirs.listTopics(chunks)).toEqual(before)
    const [triple] = await until(readJson(theirs, triples), (round) =>
      publishJson(theirs, chunks, chunkOf(`urn:chunk:${round}`)),
    )
    expect(triple!.body['metadata']).toMatchObject({ root: 'urn:doc:1', collection: 'research' })
    const request = { id: 'extract-definitions', terms: { text: '"A cat."' }, streaming: false }
    const answered = (async () => {
      const signal = AbortSignal.timeout(30_000)
      for await (const { headers } of theirs.read(
        { topic: replies, from: 'earliest', until: 'never' },
        signal,
      ))
        if (headers['id']?.startsWith('call-')) return headers['id']
      return undefined
    })()
    const id = await until(answered, (round) =>
      publishJson(theirs, requests, request, { id: `call-${round}` }),
    )
    expect(id).toMatch(/^call-\d+$/)
    // All at once: on Pulsar, messages that are not kept have one id.
    const ids = Array.from({ length: 10 }, (_, n) => `together-${n}`)
    const waiting = new Set(ids)
    const all = (async () => {
      const signal = AbortSignal.timeout(30_000)
      for await (const { headers } of theirs.read(
        { topic: replies, from: 'earliest', until: 'never' },
        signal,
      )) {
        waiting.delete(headers['id'] ?? '')
        if (waiting.size === 0) return
      }
    })()
    await until(all, async (round) => {
      if (round === 1) await Promise.all(ids.map((id) => publishJson(theirs, requests, request, { id })))
    })
    expect([...waiting]).toEqual([])
  })

  test('begins a new group at the end, reads what is published right after `running`, and all of a topic that was made again', async () => {
    const own = { workspace: 'default', flow: 'fresh' }
    const trustgraph = { ...ids, flow: 'Fresh' }
    const fresh = createWire([{ ...own, trustgraph }], {
      space: 'gm',
      nameOf: kind === 'pulsar' ? pulsarTopic : kafkaTopic,
    })
    const [documents, cut] = ['document', 'chunk'].map(
      (role) => fresh.find(`gm.flow.${role}.default.fresh`)!.name,
    ) as [string, string]
    const publish = (id: string) =>
      publishJson(theirs, documents, {
        metadata: { id, root: id, collection: 'research' },
        text: 'A cat is a feline animal.',
        document_id: '',
      })
    const run = async () => {
      const broker = await cluster.connect()
      brokers.push(broker)
      const flow = await startFlow([chunkText], { broker, wire: fresh, flows: [{ ...own, settings }] })
      flows.push(flow)
      return flow
    }
    await cluster.createTopic(documents)
    await publish('urn:doc:early')
    const first = await run()
    await publish('urn:doc:next')
    const [chunk] = await readJson(theirs, cut)
    expect(chunk!.body['metadata']).toMatchObject({ root: 'urn:doc:next' })
    await first.stop()
    await theirs.deleteTopics([documents])
    await cluster.createTopic(documents)
    await publish('urn:doc:again')
    await run()
    const [, last] = await readJson(theirs, cut, 2)
    expect(last!.body['metadata']).toMatchObject({ root: 'urn:doc:again' })
  })

  test('puts what is no JSON object, and a request without id, beside the topic, as it came', async () => {
    await start(extractDefinitions, prompt)
    const dead = deadTopic(chunks)
    const untilThere = async (topic: string) => {
      while (!(await theirs.listTopics(topic)).some(({ name }) => name === topic)) await delay(50)
      for await (const letter of theirs.read(
        { topic, from: 'earliest', until: 'never' },
        AbortSignal.timeout(30_000),
      ))
        return letter
      return undefined
    }
    const letter = await until(untilThere(dead), () => publishJson(theirs, chunks, 'no {', { own: 'yes' }))
    expect(Buffer.from(letter!.value).toString()).toBe('no {')
    expect(letter!.headers).toMatchObject({
      own: 'yes',
      'dead-code': 'bytes_undecodable',
      'dead-topic': chunks,
    })
    const deadRequests = nameOf('gm.request.prompt.default.default.dead')
    expect(deadRequests).toMatch(kind === 'pulsar' ? /^persistent:/ : /\.dead$/)
    const other = await until(untilThere(deadRequests), () =>
      publishJson(theirs, requests, { id: 'p', terms: {} }),
    )
    expect(other!.headers['dead-code']).toBe('bytes_undecodable')
  })

  test('lists the topics by our names, with the lag of the groups of TrustGraph', async () => {
    const broker = trustGraphBroker(theirs, wire)
    const names = (await broker.listTopics('gm.')).map(({ name }) => name)
    expect(names).toEqual(
      expect.arrayContaining(['gm.flow.chunk.default.default', 'gm.flow.chunk.default.default.dead']),
    )
    const lag = await broker.lag(
      'gm.extract-definitions.chunk.default.default',
      'gm.flow.chunk.default.default',
    )
    const group = 'kg-extract-definitions--Acme.Corp--Papers.v1--input'
    expect(lag.total).toBe((await theirs.lag(group, chunks)).total)
    await broker.deleteTopics(['gm.flow.chunk.default.default'])
    expect(await theirs.hasTopic(chunks)).toBe(true)
  })

  test('takes a chunk of 5 MiB', async () => {
    const flow = wireOf({ ...ids, flow: 'Large' }, kind)
    const large = flow.find('gm.flow.chunk.default.default')!.name
    const broker = await cluster.connect()
    brokers.push(broker)
    const runs = await startFlow([measure], { broker, wire: flow })
    flows.push(runs)
    const length = 5 * 1024 * 1024
    await publishJson(theirs, large, chunkOf('urn:chunk:large', 'x'.repeat(length)))
    const signal = AbortSignal.timeout(30_000)
    const topics = { topic: 'gm.flow.topics.default.default', from: 'earliest', until: 'never' } as const
    for await (const { value, headers } of broker.read(topics, signal)) {
      const { payload } = runs.codec.decode(value, headers)
      expect(payload).toMatchObject({ facts: [{ topic: String(length) }] })
      break
    }
  })
}

describe('TrustGraph’s topics on the memory broker', { timeout: 60_000 }, () =>
  flowsOver('kafka', async () => {
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    return {
      connect: async () => cluster.connect(),
      stop: () => broker.close(),
      createTopic: (name) => broker.ensureTopics([{ name, partitions: 1 }]),
    }
  }),
)

const jars = await brokerSource('TrustGraph’s topics', ['jars'])

describe.runIf(jars)('TrustGraph’s topics on Kafka', { timeout: 90_000 }, () =>
  flowsOver('kafka', async () => {
    const server = await startKafka()
    const connect = () => connectKafka({ brokers: server.bootstrap, fetchWaitMs: 50 })
    const broker = await connect()
    return {
      connect,
      async stop() {
        await broker.close()
        await server.stop()
      },
      createTopic: (name) => broker.ensureTopics([{ name, partitions: 1 }]),
    }
  }),
)

async function pulsar(protocol: 'WebSocket' | 'binary'): Promise<Cluster> {
  const server = await startTrustGraphPulsar()
  const { url, binaryUrl, adminUrl } = server
  return {
    connect: () =>
      protocol === 'binary'
        ? connectPulsarBinary({ url: binaryUrl, adminUrl })
        : connectPulsarWebSocket({ url }),
    stop: () => server.stop(),
    createTopic: (name) => putPulsar(server, pulsarPath(name)),
  }
}

describe.runIf(jars)('TrustGraph’s topics on Pulsar over WebSockets', { timeout: 120_000 }, () =>
  flowsOver('pulsar', () => pulsar('WebSocket')),
)

const binary = jars !== undefined && nativePulsar('TrustGraph’s topics on Pulsar')
describe.runIf(binary)('TrustGraph’s topics on Pulsar over its binary protocol', { timeout: 120_000 }, () =>
  flowsOver('pulsar', () => pulsar('binary')),
)
