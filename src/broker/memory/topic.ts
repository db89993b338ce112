// A topic of the memory broker: its partitions, the groups and readers on it, and the publishers that wait for room.
import type { GraphmillError } from '../../errors.ts'
import type { OutgoingBytes, TopicSpec } from '../broker.ts'
import { PartitionLog } from './log.ts'

/** A group or a reader on a topic. */
export interface TopicFollower {
  /** What lies below may be dropped. Infinity for a partition that it does not follow. */
  mark(partition: number): number
  /** A message was appended to the partition. */
  wake(partition: number): void
  /** The topic was deleted. */
  end(error: GraphmillError): void
}

export interface TopicGroup extends TopicFollower {
  /** Whether a member takes new messages. */
  readonly taking: boolean
  /** Bytes that are not settled. */
  behind(): number
}

export interface TopicLimits {
  /** Drop what all groups have settled and all readers have passed. */
  readonly dropSettled: boolean
  /** Drop it even while there is no group. */
  readonly discard: boolean
  /** Publishers wait while a group that is taking is behind by this many bytes. */
  readonly maxBytes: number
}

interface WaitingPublisher {
  readonly message: OutgoingBytes
  readonly timestamp: number
  /** The client that publishes. */
  readonly owner: object
  readonly stored: () => void
  readonly failed: (error: GraphmillError) => void
}

export class MemoryTopic<Group extends TopicGroup = TopicGroup> {
  readonly spec: TopicSpec
  readonly partitions: readonly PartitionLog[]
  readonly groups = new Map<string, Group>()
  readonly readers = new Set<TopicFollower>()
  readonly #limits: TopicLimits
  /** A compacted topic keeps the newest message of every key, whether or not it was read. */
  readonly #dropping: boolean
  #waiting: WaitingPublisher[] = []

  constructor(spec: TopicSpec, limits: TopicLimits) {
    this.spec = spec
    this.#limits = limits
    this.#dropping = limits.dropSettled && spec.compacted !== true
    this.partitions = Array.from({ length: spec.partitions }, () => new PartitionLog(spec.compacted === true))
  }

  /** Stores a message: at once, or when there is room and those that wait already are stored. */
  publish(message: OutgoingBytes, timestamp: number, owner: object): Promise<void> {
    if (this.#waiting.length === 0 && !this.#isCrowded()) {
      this.#append(message, timestamp)
      return Promise.resolve()
    }
    return new Promise((stored, failed) => {
      this.#waiting.push({ message, timestamp, owner, stored, failed })
    })
  }

  /** A mark moved in a partition: drops what nobody needs, and lets publishers go on. */
  moved(partition: number): void {
    if (this.#dropping && (this.groups.size > 0 || this.#limits.discard)) {
      const log = this.partitions[partition]!
      let floor = log.end
      for (const group of this.groups.values()) floor = Math.min(floor, group.mark(partition))
      for (const reader of this.readers) floor = Math.min(floor, reader.mark(partition))
      log.drop(floor)
    }
    this.letPublishersGoOn()
  }

  letPublishersGoOn(): void {
    while (this.#waiting.length > 0 && !this.#isCrowded()) {
      const next = this.#waiting.shift()!
      this.#append(next.message, next.timestamp)
      next.stored()
    }
  }

  /** Rejects the publishers that wait: those of one client, or all. */
  failPublishers(error: GraphmillError, owner?: object): void {
    const waiting = this.#waiting
    this.#waiting = waiting.filter((one) => owner !== undefined && one.owner !== owner)
    for (const one of waiting) if (owner === undefined || one.owner === owner) one.failed(error)
  }

  /** The topic was deleted. */
  end(error: GraphmillError): void {
    this.failPublishers(error)
    for (const follower of [...this.readers, ...this.groups.values()]) follower.end(error)
  }

  #append({ key, value, headers }: OutgoingBytes, timestamp: number): void {
    const partition = partitionOf(key, this.partitions.length)
    this.partitions[partition]!.append({
      key,
      value: new Uint8Array(value),
      headers: { ...headers },
      timestamp,
    })
    for (const group of this.groups.values()) group.wake(partition)
    for (const reader of this.readers) reader.wake(partition)
    if (this.#limits.discard) this.moved(partition)
  }

  #isCrowded(): boolean {
    const { maxBytes } = this.#limits
    if (maxBytes === Number.POSITIVE_INFINITY) return false
    // No group can be behind by more than what is stored, which costs less to know.
    let stored = 0
    for (const log of this.partitions) stored += log.weightFrom(log.begin)
    if (stored < maxBytes) return false
    for (const group of this.groups.values()) if (group.taking && group.behind() >= maxBytes) return true
    return false
  }
}

/** FNV-1a over the UTF-16 units of the key: equal keys meet, others spread. */
function partitionOf(key: string, partitions: number): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index++) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  return (hash >>> 0) % partitions
}
