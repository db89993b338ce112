// A reader of Pulsar's native client: it begins at a given message, and its end is asked for, because the client does not tell it.
import { setTimeout as delay } from 'node:timers/promises'
import { GraphmillError } from '../../../errors.ts'
import { fullTopicName } from '../admin.ts'
import type { ReceivedMessage } from '../message.ts'
import { encodeMessageId, isBehind, type MessageId } from '../message-id.ts'
import type { Channel, ReaderRequest } from '../transport.ts'
import { createChannel, type NativeChannel, open, type Shared } from './channel.ts'
import type { NativeMessage, NativeMessageId, NativeReader } from './native-module.ts'
import { receivedNative } from './received-message.ts'

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
export async function openReader(shared: Shared, request: ReaderRequest): Promise<Channel> {
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
