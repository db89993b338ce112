// A group on a topic of the memory broker: who owns which partition, and up to which mark each is settled.
// Partitions are spread evenly with as few moves as possible; a partition that moves goes on from its mark.
import { MemoryClaim } from './assignment.ts'
import type { MemoryMember } from './member.ts'
import type { MemoryTopic } from './topic.ts'

export class MemoryGroup {
  readonly topic: MemoryTopic
  readonly members = new Set<MemoryMember>()
  /** By partition: who has it, and the mark at which the last owner lost it. */
  readonly #claims: (MemoryClaim | undefined)[]
  readonly #marks: number[]

  constructor(topic: MemoryTopic) {
    this.topic = topic
    this.#claims = topic.partitions.map(() => undefined)
    this.#marks = topic.partitions.map((log) => log.begin)
  }

  /** Everything below is settled. */
  mark(partition: number): number {
    return this.#claims[partition]?.mark ?? this.#marks[partition]!
  }

  /** Bytes that are not settled. */
  behind(): number {
    let bytes = 0
    for (let partition = 0; partition < this.topic.partitions.length; partition++) {
      bytes += this.topic.partitions[partition]!.weightFrom(this.mark(partition))
    }
    return bytes
  }

  /** Whether somebody is there who takes new messages. */
  get taking(): boolean {
    for (const member of this.members) if (member.taking) return true
    return false
  }

  /** A message was appended to a partition. */
  wake(partition: number): void {
    this.#claims[partition]?.member.pump()
  }

  join(member: MemoryMember): void {
    this.members.add(member)
    this.#balance([])
  }

  leave(member: MemoryMember): void {
    this.members.delete(member)
    this.#balance(this.#revokeAll(member, 0))
    this.topic.letPublishersGoOn() // they do not wait for a group that takes nothing
  }

  /** What a broker does with a member that it took for dead: it loses what it has, and joins again. */
  evict(member: MemoryMember, rewind: number): void {
    this.#balance(this.#revokeAll(member, rewind))
  }

  #revokeAll(member: MemoryMember, rewind: number): MemoryClaim[] {
    const claims = this.#claims.filter((claim) => claim?.member === member) as MemoryClaim[]
    for (const claim of claims) this.#revoke(claim, rewind)
    return claims
  }

  #revoke(claim: MemoryClaim, rewind: number): void {
    this.#marks[claim.partition] = Math.max(0, claim.mark - rewind)
    this.#claims[claim.partition] = undefined
  }

  /**
   * Gives free partitions to those who have fewest, then moves one at a time until no two differ by more than one.
   * Only then the members hear of it, those that lost something first: what they do about it may come back here.
   */
  #balance(lost: MemoryClaim[]): void {
    const given: MemoryClaim[] = []
    for (;;) {
      const byCount = [...this.members]
        .filter((member) => member.taking)
        .map((member) => ({
          member,
          count: this.#claims.filter((claim) => claim?.member === member).length,
        }))
        .sort((one, other) => one.count - other.count)
      const [poorest, richest] = [byCount[0], byCount.at(-1)]
      if (poorest === undefined || richest === undefined) break
      let partition = this.#claims.indexOf(undefined)
      if (partition === -1) {
        if (richest.count - poorest.count <= 1) break
        partition = this.#claims.findLastIndex((claim) => claim?.member === richest.member)
        lost.push(this.#claims[partition]!)
        this.#revoke(this.#claims[partition]!, 0)
      }
      const claim = new MemoryClaim(this.topic, partition, poorest.member, this.#marks[partition]!)
      this.#claims[partition] = claim
      given.push(claim)
    }
    for (const claim of lost) claim.lose()
    for (const claim of given) if (this.#claims[claim.partition] === claim) claim.member.own(claim)
  }
}
