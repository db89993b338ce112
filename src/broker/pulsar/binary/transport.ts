// Pulsar's binary protocol as a transport, through the native client. The client has no pause: a small queue of its own, and one
// `receive` for each message that the window has room for, bound what is held.
import { setTimeout as delay } from 'node:timers/promises'
import { GraphmillError } from '../../../errors.ts'
import { defaultMaxHeldBytes, maxMessageBytes } from '../../broker.ts'
import { fullTopicName } from '../admin.ts'
import type { Endpoint } from '../endpoint.ts'
import type { ReceivedMessage } from '../message.ts'
import { decodeMessageId, encodeMessageId, isBehind, type MessageId, positionOf } from '../message-id.ts'
import {
  type Channel,
  type ConsumerChannel,
  type ConsumerRequest,
  type ProducerChannel,
  type ProducerRequest,
  type PulsarTransport,
  type ReaderRequest,
  windowMessages,
} from '../transport.ts'
import { createChannel, type NativeChannel, type NativeConnection } from './channel.ts'
import type { Connection, Connections } from './client.ts'
import type { NativeConsumer, NativeMessage, NativeMessageId, NativeReader } from './native-module.ts'

/** What the channels of one connection share. */
interface Shared {
  readonly endpoint: Endpoint
  readonly connection: Connection
  /** The ends of channels in the background. */
  readonly closing: Set<Promise<unknown>>
}

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
      const received = receivedNative(shared.endpoint, topic, message, nativeId)
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

/** How often a reader asks whether it is at the end. */
const endPollMs = 50
/** How often a reader that seeks asks whether it is connected: the client waits 100 ms before it connects again. */
const seekPollMs = 5
/** How long after a disconnection a message from before it may still come. */
const settleMs = 20
const seekTimeoutMs = 5_000

/**
 * The reader of the client loses the first messages when they come before its listener is ready: it is opened at the end, and then
 * sought to where it is to begin. The server disconnects it for that: what came before the disconnection does not count. While more
 * messages are waiting than it may have in its queue, its listener blocks it.
 */
async function openReader(shared: Shared, request: ReaderRequest): Promise<Channel> {
  const { topic, name, after, receiverQueueSize, signal } = request
  const { MessageId } = shared.connection.module
  // A topic that keeps nothing has no place to seek, and the server does not disconnect a reader that seeks there.
  const atEnd = after === 'latest' || topic.startsWith('non-persistent://')
  const begin = atEnd
    ? undefined
    : after === undefined
      ? MessageId.earliest()
      : MessageId.deserialize(messageIdBytes(after))
  const flow = createReaderFlow(request)
  // What this throws would end the process.
  const listener = (message: NativeMessage): Promise<void> | undefined => {
    try {
      return flow.arrived(receivedNative(shared.endpoint, topic, message, message.getMessageId()))
    } catch (error) {
      shared.endpoint.log.warn({ topic, err: error }, 'message of the server could not be read')
      flow.fail()
      return undefined
    }
  }
  const native = await open(shared, signal, name, () =>
    shared.connection.native.createReader({
      topic: fullTopicName(shared.endpoint, name),
      startMessageId: MessageId.latest(),
      receiverQueueSize,
      listener,
    }),
  )
  const closing = {
    isConnected: () => native.isConnected(),
    close() {
      flow.end()
      return native.close()
    },
  }
  try {
    if (begin === undefined) flow.accept()
    else await seek(shared, { name, native, begin, disconnected: () => flow.accept() })
  } catch (thrown) {
    await closing.close().catch(() => {})
    throw thrown
  }
  const channel = createChannel(closing, shared.closing)
  flow.begin(channel)
  if (request.onEnd !== undefined) watchEnd(native, flow, channel, request.onEnd)
  return channel
}

interface Seek {
  readonly name: string
  readonly native: NativeReader
  readonly begin: NativeMessageId
  readonly disconnected: () => void
}

/** Resolves when the reader is connected again, behind `begin`. A reader whose disconnection was not seen is not used. */
async function seek({ connection }: Shared, { name, native, begin, disconnected }: Seek): Promise<void> {
  const sought = connection.run(name, () => native.seek(begin))
  sought.catch(() => {}) // awaited below
  const deadline = performance.now() + seekTimeoutMs
  while (native.isConnected()) {
    if (performance.now() > deadline)
      throw new GraphmillError('broker_unavailable', `the reader of ${name} could not be placed`)
    await delay(seekPollMs)
  }
  await delay(settleMs)
  disconnected()
  await sought
  while (!native.isConnected()) {
    if (performance.now() > deadline)
      throw new GraphmillError('broker_unavailable', `the reader of ${name} was not connected again`)
    await delay(seekPollMs)
  }
}

/** Calls `onEnd` when the server has twice said that nothing more is there, and nothing came meanwhile. */
function watchEnd(
  native: NativeReader,
  flow: ReturnType<typeof createReaderFlow>,
  channel: NativeChannel,
  onEnd: (channel: Channel) => void,
): void {
  let seenAtEnd: number | undefined
  const timer = setInterval(() => {
    if (channel.isOver) return clearInterval(timer)
    if (flow.waiting > 0) return
    const isAtEnd = native.isConnected() && isCaughtUp(native)
    if (isAtEnd && seenAtEnd === flow.count) {
      clearInterval(timer)
      onEnd(channel)
    }
    seenAtEnd = isAtEnd ? flow.count : undefined
  }, endPollMs)
}

function isCaughtUp(native: NativeReader): boolean {
  try {
    return !native.hasNext()
  } catch {
    return false // the connection was lost meanwhile
  }
}

/** The messages of one reader, from those that come before its channel is open. */
function createReaderFlow({ after, receiverQueueSize, onMessage }: ReaderRequest) {
  /** Until the channel is open. */
  const early: ReceivedMessage[] = []
  let channel: Channel | undefined
  let accepts = false
  let isOver = false
  let waiting = 0
  let count = 0
  /** Let the listener go on. */
  const blocked: (() => void)[] = []
  const release = (): void => {
    for (const go of blocked.splice(0)) go()
  }
  const taken = (): void => {
    if (--waiting < receiverQueueSize) release()
  }
  return {
    /** Messages that came and were not taken, and all that came. */
    get waiting() {
      return waiting
    },
    get count() {
      return count
    },
    arrived(received: ReceivedMessage): Promise<void> | undefined {
      if (!accepts || isOver) return undefined
      if (typeof after === 'object' && !isBehind(received.id, after)) return undefined
      count++
      waiting++
      if (channel === undefined) early.push(received)
      else onMessage(received, channel, taken)
      if (waiting < receiverQueueSize) return undefined
      return new Promise((resolve) => blocked.push(resolve))
    },
    /** What comes from now on counts. */
    accept(): void {
      accepts = true
    },
    begin(open: Channel): void {
      channel = open
      for (const received of early.splice(0)) onMessage(received, channel, taken)
      if (isOver) channel.terminate()
    },
    /** A message could not be taken: the channel must not bring those behind it. */
    fail(): void {
      isOver = true
      channel?.terminate()
    },
    end(): void {
      isOver = true
      release()
    },
  }
}

const messageIdBytes = (id: MessageId): Buffer => Buffer.from(encodeMessageId(id), 'base64')

/** Opens something on a topic. When the signal aborts first, it is closed as soon as it is open. */
async function open<T extends NativeConnection>(
  { connection, closing }: Shared,
  signal: AbortSignal,
  topic: string,
  operation: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const opening = connection.run(`access to ${topic}`, operation)
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(new GraphmillError('aborted', `${topic} is not wanted any more`))
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([opening, aborted.promise])
  } catch (thrown) {
    const late = opening.then((native) => native.close()).catch(() => {})
    closing.add(late)
    void late.then(() => closing.delete(late))
    throw thrown
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** `topic` is the name without the partition. */
function receivedNative(
  endpoint: Endpoint,
  topic: string,
  message: NativeMessage,
  nativeId: NativeMessageId,
): ReceivedMessage {
  const id = decodeMessageId(nativeId.serialize().toString('base64'))
  const partition = Math.max(0, id.partition)
  const position = positionOf(id)
  return {
    id,
    ackId: `${partition} ${position}`,
    message: {
      topic,
      partition,
      position,
      key: message.getPartitionKey(),
      value: message.getData(),
      headers: headersOf(endpoint, topic, message),
      timestamp: message.getPublishTimestamp(),
    },
  }
}

function headersOf(endpoint: Endpoint, topic: string, message: NativeMessage): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(message.getProperties()))
  } catch (err) {
    endpoint.log.warn({ topic, err }, 'the properties of a message could not be read: it is used without any')
    return {}
  }
}
