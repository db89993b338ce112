// A relay of 1 KiB messages, decode -> handle -> encode -> publish -> ack: the runner on a real broker, compared with a bare loop of the
// same client with the same codec. Both read messages that were published before they began, and end when all outputs are stored.
import { once } from 'node:events'
import { pino } from 'pino'
import WebSocket from 'ws'
import type { Broker } from '../src/broker/broker.ts'
import { loadNativeModule, type NativeMessage } from '../src/broker/pulsar/binary/native-module.ts'
import { outputRoute } from '../src/flow/ports.ts'
import { defineProcessor, type Outputs } from '../src/flow/processor.ts'
import { run } from '../src/flow/run.ts'
import { createOffline } from '../src/llm/offline/offline.ts'
import { type Codec, createCodec } from '../src/messages/codec.ts'
import { loadSchemas } from '../src/messages/registry.ts'
import { blank, relayed, relayedPayload, scope } from './relay-message.ts'
import { median, type Row } from './row.ts'

const rounds = 3
const settings = { extractors: [], chunkSize: 2000, chunkOverlap: 100 }
const text = 'The mill stands by the river. '.repeat(34).slice(0, 1000)
const partitions = 12

const relay = defineProcessor({
  name: 'relay',
  inputs: ['chunk'],
  outputs: ['entity-contexts'],
  maxInFlight: 1000,
  async *handle({ payload }): Outputs<'entity-contexts'> {
    yield { to: 'entity-contexts', payload: relayedPayload(payload.text) }
  },
})

/** Topics for this bench, filled with messages. */
export interface Pair {
  readonly space: string
  readonly from: string
  readonly to: string
}

export interface RelayOptions {
  /** The name in the table. */
  readonly name: string
  readonly connect: () => Promise<Broker>
  /** Messages of a round. */
  readonly count: number
  /** The bare loop: resolves to messages per second. */
  readonly bare: (pair: Pair, count: number) => Promise<number>
}

/** Rates of both, alternating, and the ratio of their medians. */
export async function relayBench({ name, connect, count, bare }: RelayOptions): Promise<Row[]> {
  const codec = createCodec(loadSchemas())
  const broker = await connect()
  const rates = { ours: [] as number[], bare: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    rates.bare.push(await bare(await fill(broker, codec, `bare${round}`, count), count))
    const mine = await connect()
    rates.ours.push(await ours(mine, await fill(broker, codec, `ours${round}`, count), count))
    await mine.close()
  }
  await broker.close()
  const [one, other] = [median(rates.ours), median(rates.bare)]
  const note = `1 KiB, ${count} messages, median of ${rounds}`
  return [
    { name: `${name}: relay`, value: one, unit: 'messages/s', note },
    { name: `${name}: relay, bare loop`, value: other, unit: 'messages/s', note },
    { name: `${name}: relay, ratio to the bare loop`, value: one / other, unit: '', bound: '>= 0.6' },
  ]
}

async function fill(broker: Broker, codec: Codec, space: string, count: number): Promise<Pair> {
  const place = { space, ...scope }
  const [from, to] = [outputRoute('chunk', place).topic, outputRoute('entity-contexts', place).topic]
  await broker.ensureTopics([from, to].map((topic) => ({ name: topic, partitions })))
  const messages = Array.from({ length: count }, (_, index) => {
    const id = `chunk-${index}`
    const header = { ...blank, correlationId: id, documentId: 'urn:d', chunkId: `urn:d/0/${index}` }
    const payload = { part: 0, index, offset: 0, length: text.length, text }
    return codec.encode(header, { type: 'Chunk', payload }, { topic: from, salt: '', id: () => id })
  })
  await Promise.all(messages.map((message) => broker.publish(message)))
  return { space, from, to }
}

async function ours(broker: Broker, { space, to }: Pair, count: number): Promise<number> {
  const done = Promise.withResolvers<void>()
  let [begun, stored] = [0, 0]
  const counting: Broker = {
    ...broker,
    async publish(message) {
      begun ||= performance.now()
      await broker.publish(message)
      if (message.topic === to && ++stored >= count) done.resolve()
    },
  }
  const store = { write: async () => {}, close: async () => {} }
  const log = pino({ level: 'error' }, pino.destination(2))
  const flows = [{ ...scope, settings }]
  const signal = new AbortController().signal
  const llm = createOffline()
  const runtime = await run({ broker: counting, processors: [relay], flows, llm, store, log, space }, signal)
  begun = 0
  await done.promise
  const rate = count / ((performance.now() - begun) / 1000)
  await runtime.stop(10_000)
  return rate
}

/** As in our client: compressing these frames does not pay. */
const plain = { perMessageDeflate: false }

interface Frame {
  readonly messageId: string
  readonly payload: string
  readonly properties?: Readonly<Record<string, string>>
  readonly context?: string
}

/** Pulsar by WebSocket: each message that the server pushes is decoded, encoded and sent; the answer acks it. */
export function barePulsar(url: string): RelayOptions['bare'] {
  const codec = createCodec(loadSchemas())
  return async ({ space, from, to }, count) => {
    const path = (topic: string) => `persistent/public/default/${topic}`
    const producer = new WebSocket(`${url}/ws/v2/producer/${path(to)}`, plain)
    await once(producer, 'open')
    const query = 'subscriptionType=Shared&subscriptionInitialPosition=Earliest&receiverQueueSize=1000'
    const consumer = new WebSocket(`${url}/ws/v2/consumer/${path(from)}/${space}-bare?${query}`, plain)
    const done = Promise.withResolvers<void>()
    let [begun, settled] = [0, 0]
    consumer.on('message', (data) => {
      begun ||= performance.now()
      const { messageId, payload, properties = {} } = JSON.parse(String(data)) as Frame
      const { key, value, headers } = relayed(codec, to, Buffer.from(payload, 'base64'), properties)
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
      producer.send(JSON.stringify({ payload: bytes, key, properties: headers, context: messageId }))
    })
    producer.on('message', (data) => {
      const { context } = JSON.parse(String(data)) as Frame
      consumer.send(JSON.stringify({ messageId: context }))
      if (++settled >= count) done.resolve()
    })
    await done.promise
    const rate = count / ((performance.now() - begun) / 1000)
    producer.close()
    consumer.close()
    return rate
  }
}

/** Pulsar by its native client: each message is decoded, encoded and sent, with the same settings as ours; storing it acks it. */
export function barePulsarNative(serviceUrl: string): RelayOptions['bare'] {
  const codec = createCodec(loadSchemas())
  const topicOf = (name: string) => `persistent://public/default/${name}`
  return async ({ space, from, to }, count) => {
    const { Client } = loadNativeModule()
    Client.setLogHandler(() => {})
    const client = new Client({ serviceUrl, logLevel: 2 })
    const producer = await client.createProducer({
      topic: topicOf(to),
      batchingEnabled: false,
      maxPendingMessages: 2000,
      hashingScheme: 'JavaStringHash',
    })
    const consumer = await client.subscribe({
      topic: topicOf(from),
      subscription: `${space}-bare`,
      subscriptionType: 'Shared',
      subscriptionInitialPosition: 'Earliest',
      receiverQueueSize: 1000,
    })
    const done = Promise.withResolvers<void>()
    let [begun, settled] = [0, 0]
    const handle = async (message: NativeMessage): Promise<void> => {
      begun ||= performance.now()
      const headers = Object.fromEntries(Object.entries(message.getProperties()))
      const one = relayed(codec, to, message.getData(), headers)
      const data = Buffer.from(one.value.buffer, one.value.byteOffset, one.value.byteLength)
      await producer.send({ data, properties: one.headers, partitionKey: one.key })
      await consumer.acknowledgeId(message.getMessageId())
      if (++settled >= count) done.resolve()
    }
    /** As many as ours has in flight. */
    const worker = async (): Promise<void> => {
      for (;;) await handle(await consumer.receive())
    }
    for (let n = 0; n < 1000; n++) worker().catch(() => {}) // closing rejects what they wait for
    await done.promise
    const rate = count / ((performance.now() - begun) / 1000)
    await consumer.close()
    await client.close()
    return rate
  }
}
