// A group on a topic of the memory broker: who owns which partition, and up to which mark each is settled.
// Partitions are spread evenly with as few moves as possible; a partition that moves goes on from its mark.
import type { GraphmillError } from '../../errors.ts'
import type { Subscription } from '../broker.ts'
import type { MemoryTopic, TopicGroup } from './topic.ts'

/** A member as its group sees it. */
export interface GroupMember {
  /** Whether it takes new messages. */
  readonly taking: boolean
  /** These partitions are its own from now on, and all others are lost. */
  own(partitions: readonly number[]): void
  /** Everything below is settled; undefined while it has fetched nothing of the partition. */
  mark(partition: number): number | undefined
  /** A message came that it may fetch. */
  wake(): void
  /** The topic was deleted. */
  end(error: GraphmillError): void
}

export class MemoryGroup implements TopicGroup {
  readonly topic: MemoryTopic
  readonly members = new Set<GroupMember>()
  /** By partition: who has it, and the mark at which its owner took it over. */
  readonly #owners: (GroupMember | undefined)[]
  readonly #marks: number[]

  constructor(topic: MemoryTopic, from: Subscription['from']) {
    this.topic = topic
    this.#owners = topic.partitions.map(() => undefined)
    this.#marks = topic.partitions.map((log) => (from === 'latest' ? log.end : log.begin))
  }

  mark(partition: number): number {
    return this.#owners[partition]?.mark(partition) ?? this.#marks[partition]!
  }

  behind(): number {
    let bytes = 0
    for (const [partition, log] of this.topic.partitions.entries())
      bytes += log.weightFrom(this.mark(partition))
    return bytes
  }

  get taking(): boolean {
    for (const member of this.members) if (member.taking) return true
    return false
  }

  wake(partition: number): void {
    this.#owners[partition]?.wake()
  }

  end(error: GraphmillError): void {
    for (const member of [...this.members]) member.end(error)
  }

  join(member: GroupMember): void {
    this.members.add(member)
    this.#balance()
  }

  leave(member: GroupMember): void {
    this.members.delete(member)
    this.#revokeAll(member, 0)
    this.topic.letPublishersGoOn() // they do not wait for a group that takes nothing
  }

  /** What a broker does with a member that it took for dead: the member loses what it has, and joins again. */
  evict(member: GroupMember, rewind: number): void {
    this.#revokeAll(member, rewind)
  }

  #revokeAll(member: GroupMember, rewind: number): void {
    for (const partition of this.#partitionsOf(member)) this.#revoke(partition, rewind)
    member.own([])
    this.#balance()
  }

  #revoke(partition: number, rewind: number): void {
    this.#marks[partition] = Math.max(0, this.mark(partition) - rewind)
    this.#owners[partition] = undefined
  }

  #partitionsOf(member: GroupMember): number[] {
    return [...this.#owners.keys()].filter((partition) => this.#owners[partition] === member)
  }

  /**
   * Gives free partitions to the members that have fewest, then moves one at a time until no two differ by more than one.
   * Members hear of it only at the end, since what they do then may come back here.
   */
  #balance(): void {
    const changed = new Set<GroupMember>()
    for (;;) {
      const byCount = [...this.members]
        .filter((member) => member.taking)
        .map((member) => ({ member, count: this.#partitionsOf(member).length }))
        .sort((one, other) => one.count - other.count)
      const [poorest, richest] = [byCount[0], byCount.at(-1)]
      if (poorest === undefined || richest === undefined) break
      let partition = this.#owners.indexOf(undefined)
      if (partition === -1) {
        if (richest.count - poorest.count <= 1) break
        partition = this.#owners.lastIndexOf(richest.member)
        this.#revoke(partition, 0)
        changed.add(richest.member)
      }
      this.#owners[partition] = poorest.member
      changed.add(poorest.member)
    }
    for (const member of changed) member.own(this.#partitionsOf(member))
  }
}
