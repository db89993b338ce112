// A partition in the hands of a member of a group, until the member leaves or loses it: what it took from the log and
// has not settled, and which messages wait for one before them with the same key.
import { GraphmillError } from '../../errors.ts'
import { createOffsetTracker, type OffsetTracker } from '../window/offsets.ts'
import type { StoredMessage } from './log.ts'
import type { MemoryMember } from './member.ts'
import type { MemoryTopic } from './topic.ts'

export class MemoryClaim {
  readonly partition: number
  readonly member: MemoryMember
  readonly #topic: MemoryTopic
  readonly #tracker: OffsetTracker
  readonly #maxSettled: number
  readonly #lost = new AbortController()
  /** With order by key: each key that is in hand, with the messages behind it, oldest first. */
  readonly #keys = new Map<string, StoredMessage[]>()
  /** Messages that waited for their key, and come next. */
  readonly #freed: StoredMessage[] = []
  /** Deliveries in hand, and their bytes. The member counts with them. */
  held = 0
  heldBytes = 0

  constructor(topic: MemoryTopic, partition: number, member: MemoryMember, from: number) {
    this.#topic = topic
    this.partition = partition
    this.member = member
    this.#maxSettled = member.maxSettled
    this.#tracker = createOffsetTracker(this.#maxSettled)
    this.#tracker.reach(from)
  }

  /** Aborts when the claim is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  get mark(): number {
    return this.#tracker.mark!
  }

  /** The next message that may be delivered. It stays the next one until it is taken. */
  peek(byKey: boolean): StoredMessage | undefined {
    if (this.#freed.length > 0) return this.#freed[0]
    const log = this.#topic.partitions[this.partition]!
    while (!this.#tracker.full) {
      const message = log.from(this.#tracker.next!)
      if (message === undefined) return undefined
      const behind = byKey ? this.#keys.get(message.key) : undefined
      if (behind === undefined) return message
      if (this.#tracker.inFlight >= this.#maxSettled) return undefined
      this.#tracker.take(message.offset)
      behind.push(message)
    }
    return undefined
  }

  /** Takes what `peek` gave. */
  take(message: StoredMessage, byKey: boolean): void {
    this.held++
    this.heldBytes += message.value.byteLength
    if (this.#freed[0] === message) {
      this.#freed.shift()
      return
    }
    this.#tracker.take(message.offset)
    if (byKey) this.#keys.set(message.key, [])
  }

  /** The message is no longer in hand, but not settled: the next owner gets it. */
  letGo(message: StoredMessage): void {
    this.held--
    this.heldBytes -= message.value.byteLength
  }

  settle(message: StoredMessage): void {
    this.letGo(message)
    const behind = this.#keys.get(message.key)
    const next = behind?.shift()
    if (next !== undefined) this.#freed.push(next)
    else this.#keys.delete(message.key)
    const before = this.mark
    this.#tracker.settle(message.offset)
    if (this.mark !== before) this.#topic.moved(this.partition)
  }

  lose(): void {
    this.#lost.abort(new GraphmillError('aborted', 'the partition was given to another member of the group'))
    this.member.lost(this)
  }
}
