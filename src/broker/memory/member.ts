// One member of a group of the memory broker: fetches from the logs of its partitions into a window when the window has
// nothing more to hand out.
import type { GraphmillError } from '../../errors.ts'
import type { Delivery, Subscription } from '../broker.ts'
import type { Member } from '../window/consume-loop.ts'
import { InFlightWindow } from '../window/in-flight-window.ts'
import type { IncomingMessage } from '../window/partition-buffer.ts'
import type { GroupMember, MemoryGroup } from './group.ts'
import type { PartitionLog } from './log.ts'

/** Messages of one partition that are fetched at a time. */
const batchMessages = 16

export class MemoryMember implements Member, GroupMember {
  readonly #group: MemoryGroup
  readonly #signal: AbortSignal
  readonly #window: InFlightWindow
  #partitions: readonly number[] = []
  /** Whose turn it is among the partitions. */
  #turn = 0
  #hasLeft = false
  failure: GraphmillError | undefined
  readonly wake: () => void

  /** `signal` is that of the consumer; `wake` is called whenever something has changed. */
  constructor(group: MemoryGroup, subscription: Subscription, signal: AbortSignal, wake: () => void) {
    this.#group = group
    this.#signal = signal
    this.wake = wake
    this.#window = new InFlightWindow(subscription, {
      changed: () => this.#changed(),
      settled({ message }, moved) {
        if (moved) group.topic.moved(message.partition)
      },
    })
    group.join(this)
  }

  get taking(): boolean {
    return !this.#hasLeft && !this.#signal.aborted
  }

  get outstanding(): number {
    return this.#window.outstanding
  }

  mark(partition: number): number | undefined {
    return this.#window.mark(partition)
  }

  own(partitions: readonly number[]): void {
    this.#partitions = partitions
    this.#window.own(partitions)
  }

  next(): Delivery | undefined {
    let delivery = this.#window.next()
    // All that a round brought may wait behind messages of the same keys.
    while (delivery === undefined && this.#fetch()) delivery = this.#window.next()
    return delivery
  }

  drain(): void {
    this.#window.drain()
    this.#group.topic.letPublishersGoOn() // they do not wait for a group that takes nothing
  }

  async leave(): Promise<void> {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#group.leave(this)
    this.#window.drain()
  }

  end(error: GraphmillError): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.failure = error
    this.#window.drain()
  }

  #changed(): void {
    if (this.#signal.aborted && this.#window.outstanding === 0) void this.leave()
    this.wake()
  }

  /** Fetches a batch of the next partition that has messages; false when none came. */
  #fetch(): boolean {
    const { topic } = this.#group
    for (let left = this.#partitions.length; left > 0 && this.#window.hasRoom; left--) {
      const partition = this.#partitions[this.#turn % this.#partitions.length]!
      const fetched = this.#fetchFrom(partition, topic.partitions[partition]!)
      // A message that has no room keeps its turn: others would fill every gap that is too small for a large one.
      if (this.#window.hasRoom) this.#turn++
      if (fetched > 0) return true
    }
    return false
  }

  #fetchFrom(partition: number, log: PartitionLog): number {
    const start = this.#window.position(partition) ?? this.#group.mark(partition)
    if (log.from(start) === undefined || !this.#window.wants(partition)) return 0
    return this.#window.offer(partition, this.#batch(partition, log, start), start)
  }

  *#batch(partition: number, log: PartitionLog, start: number): Generator<IncomingMessage> {
    const topic = this.#group.topic.spec.name
    let stored = log.from(start)
    for (let left = batchMessages; left > 0 && stored !== undefined; left--) {
      const { offset, key, value, headers, timestamp } = stored
      const message = { topic, partition, position: String(offset), key, value, headers, timestamp }
      yield { offset, message, keyed: true }
      stored = log.from(offset + 1)
    }
  }
}
