// Reads a Pulsar topic without a group: one reader channel for each partition, opened again behind the last message it brought.
import { setMaxListeners } from 'node:events'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { ReadMessage, TopicRange } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createQueue } from '../window/queue.ts'
import { createWake } from '../window/wake.ts'
import { endOf, type PartitionEnd, partitionNames, partitionsOf } from './admin.ts'
import type { Endpoint } from './endpoint.ts'
import { type MessageId, parsePosition, reaches } from './message-id.ts'
import { type Channel, type PulsarTransport, type Reading, reopenDelayMs } from './transport.ts'

/** Messages that all partitions together may bring before they are taken. */
const queuedMessages = 96

interface PartitionRead {
  /** The name of the partition's own topic. */
  readonly name: string
  /** The last message that came, or the one to begin behind; undefined: from the oldest. */
  last: MessageId | 'latest' | undefined
  /** Where to stop; undefined: never. `unknown`: when nothing more is there, since the end cannot be asked for. */
  end: PartitionEnd | 'unknown' | 'reached' | undefined
}

interface QueuedMessage {
  readonly message: ReadMessage
  /** Lets the server send one more. */
  taken(): void
}

export interface ReadOptions {
  readonly transport: PulsarTransport
  readonly lookup: TopicLookup
  /** The open readers of one broker object: its `close()` waits until they are closed. */
  readonly readers: Set<PulsarReader>
  readonly signal: AbortSignal
}

/** Ends at the end of the range, or when the signal aborts. */
export async function* readPulsar(
  endpoint: Endpoint,
  range: TopicRange,
  { transport, lookup, readers, signal }: ReadOptions,
): AsyncGenerator<ReadMessage, void> {
  if (signal.aborted) return
  const reader = new PulsarReader(endpoint, range, { transport, lookup })
  readers.add(reader)
  const close = (): void => void reader.close()
  signal.addEventListener('abort', close, { once: true })
  try {
    for (let message = await reader.next(); message !== undefined; message = await reader.next())
      yield message
  } finally {
    signal.removeEventListener('abort', close)
    await reader.close()
    readers.delete(reader)
  }
}

export class PulsarReader {
  readonly #endpoint: Endpoint
  readonly #range: TopicRange
  readonly #reading: Reading
  readonly #lookup: TopicLookup
  readonly #stop = new AbortController()
  readonly #wake = createWake()
  readonly #queue = createQueue<QueuedMessage>()
  readonly #channels = new Set<Channel>()
  readonly #running: Promise<void>
  /** Every partition has brought all messages of the range. */
  #isComplete = false
  #failure: GraphmillError | undefined

  constructor(
    endpoint: Endpoint,
    range: TopicRange,
    { transport, lookup }: Pick<ReadOptions, 'transport' | 'lookup'>,
  ) {
    this.#endpoint = endpoint
    this.#range = range
    this.#reading = transport.openReading()
    this.#lookup = lookup
    setMaxListeners(0, this.#stop.signal) // every partition listens
    this.#running = this.#run()
  }

  /** The next message; undefined at the end, or when the reader was closed. */
  async next(): Promise<ReadMessage | undefined> {
    while (!this.#stop.signal.aborted) {
      const queued = this.#queue.shift()
      if (queued !== undefined) {
        queued.taken()
        return queued.message
      }
      if (this.#failure !== undefined) throw this.#failure
      if (this.#isComplete) return undefined
      await this.#wake.wait()
    }
    return undefined
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#wake.notify()
    await Promise.all([...this.#channels].map((channel) => channel.close()))
    await this.#running
    await this.#reading.close()
  }

  async #run(): Promise<void> {
    const look = setInterval(() => void this.#reopenUnlessThere(), this.#endpoint.topicCheckMs)
    look.unref()
    try {
      const reads = await this.#partitionReads()
      const receiverQueueSize = Math.max(4, Math.floor(queuedMessages / reads.length))
      await Promise.all(reads.map((read) => this.#follow(read, receiverQueueSize)))
      this.#isComplete = true
    } catch (thrown) {
      this.#failure ??= toGraphmillError(thrown)
    }
    clearInterval(look)
    this.#wake.notify()
  }

  /** The partitions to read, with their present ends, without those that have no message in the range. */
  async #partitionReads(): Promise<readonly PartitionRead[]> {
    const { topic, partition: only } = this.#range
    const names = partitionNames(topic, await partitionsOf(this.#endpoint, topic))
    const reads = [...names.entries()]
      .filter(([partition]) => only === undefined || partition === only)
      .map(([partition, name]) => this.#partitionRead(name, partition))
    return (await Promise.all(reads)).filter((read) => read !== undefined)
  }

  async #partitionRead(name: string, partition: number): Promise<PartitionRead | undefined> {
    const { from, until } = this.#range
    if (this.#endpoint.withoutAdmin !== undefined) return beginWithoutAdmin(this.#range, name, partition)
    const now = until === 'end' || from === 'latest' ? await endOf(this.#endpoint, name) : undefined
    if (until === 'end' && now === undefined) return undefined
    let last: MessageId | undefined
    if (from === 'latest') last = now && { ...now, partition, batchIndex: -1, batchSize: 0 }
    else if (from !== 'earliest') last = givenPosition(from, partition)
    const read = { name, last, end: until === 'end' ? now : undefined }
    return isOver(read) ? undefined : read
  }

  async #follow(read: PartitionRead, receiverQueueSize: number): Promise<void> {
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted && !isOver(read); failures++) {
      if (failures > 0) await pause(reopenDelayMs(failures), signal)
      try {
        // The reader endpoint reports a missing topic like any other fault.
        await partitionsOf(this.#endpoint, this.#range.topic)
        const channel = await this.#open(read, receiverQueueSize)
        if (signal.aborted) channel.terminate()
        failures = 0
        this.#channels.add(channel)
        await channel.closed
        this.#channels.delete(channel)
      } catch (thrown) {
        if (signal.aborted) return
        const error = toGraphmillError(thrown)
        if (error.retry !== 'later' && !(await this.#lookup.contradicts(error, this.#range.topic)))
          throw thrown
        this.#endpoint.log.warn({ topic: read.name, err: thrown }, 'reader could not be opened')
      }
    }
  }

  /** A topic that was deleted leaves the channels open and silent. */
  async #reopenUnlessThere(): Promise<void> {
    if (await this.#lookup.mayExist(this.#range.topic)) return
    for (const channel of this.#channels) channel.terminate()
  }

  #open(read: PartitionRead, receiverQueueSize: number): Promise<Channel> {
    return this.#reading.open({
      topic: this.#range.topic,
      name: read.name,
      after: read.last,
      receiverQueueSize,
      signal: this.#stop.signal,
      ...(read.end === 'unknown' && {
        onEnd(channel: Channel) {
          read.end = 'reached'
          void channel.close()
        },
      }),
      onMessage: ({ id, message }, channel, taken) => {
        if (isOver(read)) return
        read.last = id
        this.#queue.push({ message, taken })
        this.#wake.notify()
        if (isOver(read)) void channel.close()
      },
    })
  }
}

function isOver({ last, end }: PartitionRead): boolean {
  if (end === 'reached') return true
  return typeof end === 'object' && typeof last === 'object' && reaches(last, end)
}

function beginWithoutAdmin(range: TopicRange, name: string, partition: number): PartitionRead {
  const { from, until } = range
  const end = until === 'end' ? 'unknown' : undefined
  if (from === 'latest') return { name, last: 'latest', end: end && 'reached' }
  return { name, last: from === 'earliest' ? undefined : givenPosition(from, partition), end }
}

function givenPosition(
  positions: Readonly<Record<number, string>>,
  partition: number,
): MessageId | undefined {
  const position = positions[partition]
  if (position === undefined) return undefined
  const id = parsePosition(position, partition)
  if (id !== undefined) return id
  throw new GraphmillError('usage', `${JSON.stringify(position)} is no position in a Pulsar topic`)
}
