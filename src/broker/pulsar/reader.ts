// Reads a Pulsar topic without a group: one reader socket a partition, each opened again behind what it brought last.
import { setMaxListeners } from 'node:events'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { pause } from '../../wait.ts'
import type { ReadMessage, TopicRange } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createWake } from '../window/wake.ts'
import { endOf, type PartitionEnd, partitionNames, partitionsOf, topicPath } from './admin.ts'
import type { Endpoint } from './endpoint.ts'
import { received, type SocketMessage } from './message.ts'
import { encodeMessageId, type MessageId, parsePosition, reaches } from './message-id.ts'
import { openSocket, type PulsarSocket, reopenDelayMs } from './socket.ts'

/** Messages that all partitions together may bring before they are taken. */
const queuedMessages = 96

interface Part {
  /** The name of the partition's own topic. */
  readonly name: string
  /** The last message that came, or the one to begin behind; undefined: from the oldest. */
  last: MessageId | undefined
  /** Where to stop; undefined: never. */
  readonly end: PartitionEnd | undefined
}

interface Queued {
  readonly message: ReadMessage
  /** Lets the server send one more. */
  taken(): void
}

export class PulsarReader {
  readonly #endpoint: Endpoint
  readonly #range: TopicRange
  readonly #lookup: TopicLookup
  readonly #stop = new AbortController()
  readonly #wake = createWake()
  readonly #queue: Queued[] = []
  readonly #sockets = new Set<PulsarSocket>()
  readonly #running: Promise<void>
  /** Every partition has brought all it was asked for. */
  #over = false
  #failure: GraphmillError | undefined

  constructor(endpoint: Endpoint, range: TopicRange, lookup: TopicLookup) {
    this.#endpoint = endpoint
    this.#range = range
    this.#lookup = lookup
    setMaxListeners(0, this.#stop.signal) // every partition listens
    this.#running = this.#run()
  }

  /** The next message; undefined at the end, or when the reader was closed. */
  async next(): Promise<ReadMessage | undefined> {
    for (;;) {
      if (this.#stop.signal.aborted) return undefined
      const queued = this.#queue.shift()
      if (queued !== undefined) {
        queued.taken()
        return queued.message
      }
      if (this.#failure !== undefined) throw this.#failure
      if (this.#over) return undefined
      await this.#wake.wait()
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#wake.notify()
    await Promise.all([...this.#sockets].map((socket) => socket.close()))
    await this.#running
  }

  async #run(): Promise<void> {
    const look = setInterval(() => void this.#reopenUnlessThere(), this.#endpoint.topicCheckMs)
    look.unref()
    try {
      const parts = await this.#parts()
      const receiverQueueSize = Math.max(4, Math.floor(queuedMessages / parts.length))
      await Promise.all(parts.map((part) => this.#follow(part, receiverQueueSize)))
      this.#over = true
    } catch (thrown) {
      this.#failure ??= toGraphmillError(thrown)
    }
    clearInterval(look)
    this.#wake.notify()
  }

  /** The partitions to read, and the ends they have now. A partition that has nothing to bring is left out. */
  async #parts(): Promise<readonly Part[]> {
    const { topic, partition } = this.#range
    const names = partitionNames(topic, await partitionsOf(this.#endpoint, topic))
    const wanted = names.map((name, number) => ({ name, number }))
    const parts = wanted
      .filter(({ number }) => partition === undefined || partition === number)
      .map(({ name, number }) => this.#part(name, number))
    return (await Promise.all(parts)).filter((part) => part !== undefined)
  }

  async #part(name: string, partition: number): Promise<Part | undefined> {
    const { from, until } = this.#range
    const now = until === 'end' || from === 'latest' ? await endOf(this.#endpoint, name) : undefined
    const end = until === 'end' ? now : undefined
    if (until === 'end' && end === undefined) return undefined
    let last: MessageId | undefined
    if (from === 'latest') last = now && { ...now, partition, batchIndex: -1, batchSize: 0 }
    else if (from !== 'earliest') last = positionGiven(from, partition)
    const part = { name, last, end }
    return isOver(part) ? undefined : part
  }

  async #follow(part: Part, receiverQueueSize: number): Promise<void> {
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted && !isOver(part); failures++) {
      if (failures > 0) await pause(reopenDelayMs(failures), signal)
      try {
        await partitionsOf(this.#endpoint, this.#range.topic) // the reader endpoint does not tell a missing topic from a fault
        const socket = await this.#open(part, receiverQueueSize)
        if (signal.aborted) socket.terminate()
        failures = 0
        this.#sockets.add(socket)
        await socket.closed
        this.#sockets.delete(socket)
      } catch (thrown) {
        if (signal.aborted) return
        const error = toGraphmillError(thrown)
        if (error.retry !== 'later' && !(await this.#lookup.contradicts(error, this.#range.topic)))
          throw thrown
        this.#endpoint.log.warn({ topic: part.name, err: thrown }, 'reader could not be opened')
      }
    }
  }

  /** A topic that was deleted leaves the sockets open and silent. */
  async #reopenUnlessThere(): Promise<void> {
    if (!(await this.#lookup.mayExist(this.#range.topic)))
      for (const socket of this.#sockets) socket.terminate()
  }

  #open(part: Part, receiverQueueSize: number): Promise<PulsarSocket> {
    const messageId = part.last === undefined ? 'earliest' : encodeMessageId(part.last)
    const query = new URLSearchParams({ messageId, receiverQueueSize: String(receiverQueueSize) })
    return openSocket(this.#endpoint, {
      path: `/reader${topicPath(this.#endpoint, part.name)}?${query}`,
      signal: this.#stop.signal,
      onMessage: (frame, socket) => {
        if (isOver(part)) return
        const { messageId } = frame as SocketMessage
        const { id, message } = received(this.#range.topic, frame as SocketMessage)
        part.last = id
        this.#queue.push({ message, taken: () => socket.send(JSON.stringify({ messageId })) })
        this.#wake.notify()
        if (isOver(part)) void socket.close()
      },
    })
  }
}

function isOver({ last, end }: Part): boolean {
  return end !== undefined && last !== undefined && reaches(last, end)
}

function positionGiven(
  positions: Readonly<Record<number, string>>,
  partition: number,
): MessageId | undefined {
  const position = positions[partition]
  if (position === undefined) return undefined
  const id = parsePosition(position, partition)
  if (id !== undefined) return id
  throw new GraphmillError('usage', `${JSON.stringify(position)} is no position in a Pulsar topic`)
}
