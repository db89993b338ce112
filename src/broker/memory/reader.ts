// Reads a topic of the memory broker without a group: from where it was told to, to the end of that moment or for ever.
import type { GraphmillError } from '../../errors.ts'
import type { ReadMessage, TopicRange } from '../broker.ts'
import type { MemoryTopic, TopicReader } from './topic.ts'

interface Cursor {
  readonly partition: number
  next: number
  /** Where to stop. */
  readonly end: number
}

/** The client that reads. */
interface Client {
  /** Called at the first `next`; throws what `next` rejects with. */
  beginning(reader: MemoryReader): MemoryTopic
  ended(reader: MemoryReader): void
}

interface Waiter {
  readonly resolve: (result: IteratorResult<ReadMessage>) => void
  readonly reject: (error: unknown) => void
}

export class MemoryReader implements AsyncIterableIterator<ReadMessage>, TopicReader {
  readonly #client: Client
  readonly #range: TopicRange
  readonly #signal: AbortSignal
  readonly #stop = () => this.end()
  #topic: MemoryTopic | undefined
  #cursors: Cursor[] = []
  #turn = 0
  #waiters: Waiter[] = []
  #over = false

  constructor(client: Client, range: TopicRange, signal: AbortSignal) {
    this.#client = client
    this.#range = range
    this.#signal = signal
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<ReadMessage>> {
    if (this.#topic === undefined && !this.#over) this.#begin()
    const message = this.#takeNext()
    if (message !== undefined) return { value: message, done: false }
    if (this.#over || this.#cursors.every((cursor) => cursor.next >= cursor.end)) this.end()
    if (this.#over) return { value: undefined, done: true }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject })
    })
  }

  async return(): Promise<IteratorResult<ReadMessage>> {
    this.end()
    return { value: undefined, done: true }
  }

  cursor(partition: number): number {
    return this.#cursors.find((cursor) => cursor.partition === partition)?.next ?? Number.POSITIVE_INFINITY
  }

  wake(): void {
    while (this.#waiters.length > 0) {
      const message = this.#takeNext()
      if (message === undefined) return
      this.#waiters.shift()!.resolve({ value: message, done: false })
    }
  }

  end(error?: GraphmillError): void {
    if (this.#over) return
    this.#over = true
    this.#signal.removeEventListener('abort', this.#stop)
    this.#topic?.readers.delete(this)
    this.#client.ended(this)
    for (const { partition } of this.#cursors) this.#topic?.moved(partition)
    const waiters = this.#waiters
    this.#waiters = []
    if (error !== undefined) waiters.shift()?.reject(error)
    for (const waiter of waiters) waiter.resolve({ value: undefined, done: true })
  }

  #begin(): void {
    if (this.#signal.aborted) {
      this.#over = true
      return
    }
    try {
      this.#topic = this.#client.beginning(this)
    } catch (error) {
      this.#over = true
      throw error
    }
    this.#cursors = this.#topic.partitions
      .map((log, partition) => ({
        partition,
        next: this.#start(partition, log.end),
        end: this.#range.until === 'end' ? log.end : Number.POSITIVE_INFINITY,
      }))
      .filter((cursor) => this.#range.partition === undefined || cursor.partition === this.#range.partition)
    this.#topic.readers.add(this)
    this.#signal.addEventListener('abort', this.#stop, { once: true })
  }

  #start(partition: number, end: number): number {
    const { from } = this.#range
    if (from === 'latest') return end
    const position = from === 'earliest' ? undefined : from[partition]
    return position === undefined ? 0 : Number(position) + 1
  }

  #takeNext(): ReadMessage | undefined {
    if (this.#over || this.#topic === undefined) return undefined
    for (let step = 0; step < this.#cursors.length; step++) {
      const turn = (this.#turn + step) % this.#cursors.length
      const cursor = this.#cursors[turn]!
      const log = this.#topic.partitions[cursor.partition]!
      const message = cursor.next < cursor.end ? log.from(cursor.next) : undefined
      if (message === undefined || message.offset >= cursor.end) {
        cursor.next = Math.max(cursor.next, Math.min(cursor.end, log.end)) // nothing more before the end
        continue
      }
      cursor.next = message.offset + 1
      this.#turn = turn + 1
      this.#topic.moved(cursor.partition)
      const { offset, key, value, headers, timestamp } = message
      return {
        topic: this.#range.topic,
        partition: cursor.partition,
        position: String(offset),
        key,
        value,
        headers,
        timestamp,
      }
    }
    return undefined
  }
}
