// Pulsar's binary protocol as a transport, through the native client. The client has no pause: a small queue of its own, and one
// `receive` for each message that the window has room for, bound what is held.
import { defaultMaxHeldBytes, maxMessageBytes } from '../../broker.ts'
import { fullTopicName } from '../admin.ts'
import type { Endpoint } from '../endpoint.ts'
import {
  type Channel,
  type ConsumerChannel,
  type ConsumerRequest,
  type ProducerChannel,
  type ProducerRequest,
  type PulsarTransport,
  windowMessages,
} from '../transport.ts'
import { createChannel, open, type Shared } from './channel.ts'
import type { Connections } from './client.ts'
import type { NativeConsumer, NativeMessage, NativeMessageId } from './native-module.ts'
import { openReader } from './reader.ts'
import { receivedNative } from './received-message.ts'

export function binaryTransport(endpoint: Endpoint, connections: Connections): PulsarTransport {
  const closing = new Set<Promise<unknown>>()
  /** The connection stays until the channel has ended. */
  const openOn = async <C extends Channel>(
    { lease }: Connections,
    open: (shared: Shared) => Promise<C>,
  ): Promise<C> => {
    const { connection, release } = await lease()
    const releaseWhenEnded = (): void => void Promise.all(closing).then(release)
    try {
      const channel = await open({ endpoint, connection, closing })
      void channel.closed.then(releaseWhenEnded)
      return channel
    } catch (thrown) {
      releaseWhenEnded()
      throw thrown
    }
  }
  return {
    openConsumer: (request) => openOn(connections, (shared) => openConsumer(shared, request)),
    openProducer: (request) => openOn(connections, (shared) => openProducer(shared, request)),
    openReading() {
      // The listener of one reader holds up all others of its connection.
      const own = connections.another()
      return {
        open: (request) => openOn(own, (shared) => openReader(shared, request)),
        close: () => own.close(),
      }
    },
    async close() {
      await Promise.all(closing)
      await connections.close()
    },
  }
}

async function openConsumer(shared: Shared, request: ConsumerRequest): Promise<ConsumerChannel> {
  const { subscription, name, partitions, signal, onMessage } = request
  const { topic, group, ordering, from } = subscription
  const { perPartition, readAhead } = queueOf(request)
  const native = await open(shared, signal, topic, () =>
    shared.connection.native.subscribe({
      topic: fullTopicName(shared.endpoint, topic),
      subscription: group,
      subscriptionType: ordering === 'none' ? 'Shared' : 'KeyShared',
      subscriptionInitialPosition: from === 'latest' ? 'Latest' : 'Earliest',
      consumerName: name,
      receiverQueueSize: perPartition,
      ackTimeoutMs: 0,
      batchIndexAckEnabled: true,
    }),
  )
  const channel = createChannel(native, shared.closing)
  /** Received and not acknowledged, by `ackId`. */
  const held = new Map<string, NativeMessageId>()
  // The messages of a topic that keeps nothing all have the same id.
  const keepsNothing = topic.startsWith('non-persistent://')
  let count = 0
  let last = Promise.resolve()
  /** The client gives messages to its receivers in the order in which these ask, but their promises resolve in any order. */
  const receive = (): void => {
    const received = native.receive()
    received.catch(() => {}) // handled in its turn
    last = last.then(() => received).then(arrived, refused)
  }
  const refused = (error: Error): void => channel.lose(error.message)
  function arrived(message: NativeMessage): void {
    if (channel.isOver) return
    try {
      const nativeId = message.getMessageId()
      const read = receivedNative(shared.endpoint, topic, message, nativeId)
      const received = keepsNothing ? { ...read, ackId: String(count++) } : read
      // The client was connected again before anybody noticed: what is in flight here may be elsewhere too.
      if (held.has(received.ackId)) {
        channel.lose('a message in flight came again')
        return
      }
      held.set(received.ackId, nativeId)
      onMessage(received)
    } catch (error) {
      shared.endpoint.log.warn({ topic, err: error }, 'message of the server could not be read')
      channel.terminate()
    }
  }
  return Object.assign(channel, {
    readAhead: partitions === 0 ? perPartition : readAhead,
    grant(messages: number) {
      for (let n = 0; n < messages && !channel.isOver; n++) receive()
    },
    ack(ackId: string) {
      const nativeId = held.get(ackId)
      held.delete(ackId)
      if (nativeId !== undefined && !channel.isOver) acknowledge(native, nativeId)
    },
  })
}

/** An acknowledgement that is not stored brings the message again. */
function acknowledge(native: NativeConsumer, id: NativeMessageId): void {
  native.acknowledgeId(id).catch(() => {})
}

/**
 * What the client may hold beyond what it was asked for: half of the messages and three quarters of the bytes at most, but at least
 * one message of every partition. With less, the server would wait for permits between any two messages.
 */
function queueOf({ subscription, partitions }: ConsumerRequest) {
  const { maxInFlight, maxBytes = defaultMaxHeldBytes } = subscription
  const most = Math.min(maxInFlight / 2, (maxBytes / maxMessageBytes) * 0.75)
  const perPartition = Math.max(1, Math.floor(most / Math.max(1, partitions)))
  return { perPartition, readAhead: perPartition * Math.max(1, partitions) }
}

async function openProducer(
  shared: Shared,
  { topic, signal, onAnswer }: ProducerRequest,
): Promise<ProducerChannel> {
  const native = await open(shared, signal, topic, () =>
    shared.connection.native.createProducer({
      topic: fullTopicName(shared.endpoint, topic),
      // As the WebSocket API does it, so that both put a key into the same partition.
      messageRoutingMode: 'RoundRobinDistribution',
      hashingScheme: 'JavaStringHash',
      // The messages of a batch would go to one member whatever their keys.
      batchingEnabled: false,
      maxPendingMessages: windowMessages,
      maxPendingMessagesAcrossPartitions: 50 * windowMessages,
      sendTimeoutMs: shared.endpoint.publishTimeoutMs + 5_000,
    }),
  )
  const channel = createChannel(native, shared.closing)
  return Object.assign(channel, {
    send: ({ key, value, headers }: Parameters<ProducerChannel['send']>[0], context: string) => {
      const data = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      const answer = (result: string, errorMsg = ''): void => {
        if (!channel.isOver) onAnswer({ result, context, errorMsg })
      }
      native.send({ data, properties: headers, partitionKey: key }).then(
        () => answer('ok'),
        (error: Error) => answer('failed', error.message),
      )
    },
  })
}
