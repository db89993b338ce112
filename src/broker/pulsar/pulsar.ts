// The broker on Pulsar, over its admin API and a transport: WebSockets, or the binary protocol of the native client.
// Topics are `persistent://tenant/namespace/<name>`. Automatic creation of topics should be turned off in the server.
import { randomUUID } from 'node:crypto'
import { GraphmillError } from '../../errors.ts'
import {
  type Broker,
  type GroupStart,
  maxMessageBytes,
  type OutgoingBytes,
  type TopicSpec,
} from '../broker.ts'
import { createTopicLookup, type TopicLookup } from '../topic-lookup.ts'
import { isDeadTopic } from '../topics.ts'
import { consumeLoop, type Member } from '../window/consume-loop.ts'
import {
  checkConnection,
  createTopic,
  deleteTopic,
  hasGroup,
  isThere,
  lagOf,
  listTopics,
  partitionsOf,
} from './admin.ts'
import { PulsarMember } from './consumer.ts'
import { deleteSettled, ends } from './delete-settled.ts'
import { type Endpoint, endpointOf, type PulsarBinaryOptions, type PulsarOptions } from './endpoint.ts'
import { PulsarProducer } from './producer.ts'
import { type PulsarReader, readPulsar } from './reader.ts'
import type { PulsarTransport } from './transport.ts'
import { webSocketTransport } from './websocket.ts'

export type { PulsarBinaryOptions, PulsarOptions } from './endpoint.ts'
export { findProtocols } from './protocols.ts'

/** How many topics are created or deleted concurrently: more would only queue up in the server. */
const adminConcurrency = 8
/** How long a short subscription may take. */
const subscribeTimeoutMs = 20_000

/**
 * A broker for a Pulsar server, 4.0 or newer. Rejects with `broker_unavailable` after about two seconds without one, and with
 * `broker_refused` when it refuses us.
 *
 * A dead letter, and a replay of one, may be as large as the server takes: `maxMessageSize` (5 MiB by default) and, since a
 * frame is base64, three quarters of `webSocketMaxTextFrameSize` (1 MiB by default; 8 MiB is enough for every message that
 * Pulsar stores). Therefore `TopicSpec.maxBytes` is not set on topics.
 *
 * @example const broker = await connectPulsarWebSocket({ url: 'ws://127.0.0.1:8080' })
 */
export async function connectPulsarWebSocket(options: PulsarOptions, signal?: AbortSignal): Promise<Broker> {
  const endpoint = endpointOf(options)
  await checkConnection(endpoint, signal)
  return pulsarBroker(endpoint, webSocketTransport(endpoint))
}

/**
 * The same over the binary protocol. Rejects with `pulsar_client_missing` when the native module cannot be loaded. Where no admin
 * API answers at the default address, topics are used as they are, and nothing else that it does is there.
 *
 * @example const broker = await connectPulsarBinary({ url: 'pulsar://127.0.0.1:6650' })
 */
export async function connectPulsarBinary(
  options: PulsarBinaryOptions,
  signal?: AbortSignal,
): Promise<Broker> {
  const { openBinary } = await import('./binary/open.ts')
  const { endpoint, transport } = await openBinary(options, signal)
  return pulsarBroker(endpoint, transport)
}

function pulsarBroker(endpoint: Endpoint, transport: PulsarTransport): Broker {
  const lookup = createTopicLookup((topic) => isThere(endpoint, topic))
  const producers = new Map<string, PulsarProducer>()
  const members = new Set<Member>()
  const readers = new Set<PulsarReader>()
  const closing = new AbortController()

  return {
    async ensureTopics(topics) {
      if (endpoint.withoutAdmin === undefined) await forEach(topics, (spec) => createTopic(endpoint, spec))
      else await requireTopics(endpoint, topics)
      lookup.forget(topics.map(({ name }) => name))
    },
    ensureGroups: (starts) => forEach(starts, (start) => ensureSubscription(endpoint, transport, start)),
    hasTopic: (topic) => lookup.exists(topic),
    listTopics: (prefix) => listTopics(endpoint, prefix),
    async deleteTopics(topics) {
      await forEach(topics, (topic) => deleteTopic(endpoint, topic))
      lookup.forget(topics)
    },
    lag: (group, topic) => lagOf(endpoint, group, topic),
    ends: (topic) => ends(endpoint, topic),
    deleteSettled: (deletion) => deleteSettled(endpoint, deletion),

    async publish(message) {
      if (closing.signal.aborted) throw new GraphmillError('broker_unavailable', 'the broker was closed')
      refuseLarge(message)
      await producerOf(message.topic, { endpoint, transport, lookup, producers }).publish(message)
    },

    consume: (subscription, signal) =>
      consumeLoop(
        (wake) =>
          new PulsarMember(endpoint, subscription, { transport, lookup, closing: closing.signal, wake }),
        { signal, closing: closing.signal, members },
      ),

    read: (range, signal) =>
      readPulsar(endpoint, range, {
        transport,
        lookup,
        readers,
        signal: AbortSignal.any([signal, closing.signal]),
      }),

    async close() {
      closing.abort()
      await Promise.all([
        ...[...members].map((member) => member.leave()),
        ...[...readers, ...producers.values()].map((client) => client.close()),
      ])
      await transport.close()
    },
  }
}

interface Publishing {
  readonly endpoint: Endpoint
  readonly transport: PulsarTransport
  readonly lookup: TopicLookup
  /** By topic. */
  readonly producers: Map<string, PulsarProducer>
}

function producerOf(topic: string, { endpoint, transport, lookup, producers }: Publishing): PulsarProducer {
  const existing = producers.get(topic)
  if (existing !== undefined) return existing
  const onUseless = (): void => {
    producers.delete(topic)
    void producer.close()
  }
  const producer = new PulsarProducer(endpoint, topic, { transport, lookup, onUseless })
  producers.set(topic, producer)
  return producer
}

/** Checked before a message joins others in flight. */
function refuseLarge({ topic, value, anySize }: OutgoingBytes): void {
  if (value.byteLength <= maxMessageBytes || (anySize ?? isDeadTopic(topic))) return
  throw new GraphmillError(
    'message_too_large',
    `a message for ${topic} has ${value.byteLength} bytes, more than ${maxMessageBytes}`,
  )
}

/** Where no topic can be created. */
async function requireTopics(endpoint: Endpoint, topics: readonly TopicSpec[]): Promise<void> {
  const missing: string[] = []
  await forEach(topics, async ({ name }) => {
    if (!(await isThere(endpoint, name))) missing.push(name)
  })
  if (missing.length === 0) return
  const text = `Pulsar has no topic ${missing.sort().join(', ')}, and its admin API cannot be reached to create it: create it there, or name the API with --pulsar-admin`
  throw new GraphmillError('topic_missing', text)
}

/**
 * Creates a subscription by subscribing for a moment: the server creates it once, wherever it begins. The admin API would move it
 * when two processes ask for it at once, and one of them fails.
 */
async function ensureSubscription(
  endpoint: Endpoint,
  transport: PulsarTransport,
  start: GroupStart,
): Promise<void> {
  const { topic } = start
  if (topic.startsWith('non-persistent://') || !(await isThere(endpoint, topic))) return
  // A group that exists stays as it is: without the admin API, it gets one more member for a moment.
  if (endpoint.withoutAdmin === undefined && (await hasGroup(endpoint, start))) return
  const channel = await transport.openConsumer({
    subscription: { ...start, maxInFlight: 1 },
    name: randomUUID(),
    partitions: await partitionsOf(endpoint, topic),
    signal: AbortSignal.timeout(subscribeTimeoutMs),
    onMessage() {}, // none was asked for
  })
  await channel.close()
}

async function forEach<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const work = async (): Promise<void> => {
    for (const item of rest) await act(item)
  }
  await Promise.all(Array.from({ length: adminConcurrency }, work))
}
