// The messages that one consumer holds, over all its partitions: hands them out within the bounds of the subscription, takes
// them back when they settle, and says which partitions want more and how far each may be committed. It knows no broker
// and never waits.
import { setMaxListeners } from 'node:events'
import { longestTimerMs } from '../../wait.ts'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import { noteProgress, takeUp, toStore } from './deaths.ts'
import { settledAboveMarkOf } from './offsets.ts'
import {
  type Commit,
  createPartitionBuffer,
  freeKey,
  HeldDelivery,
  type HeldMessage,
  type IncomingMessage,
  movedAway,
  type PartitionBuffer,
  type Settler,
  takeNext,
} from './partition-buffer.ts'

/**
 * With more than this waiting the window is full, and so is every partition that has its share of it waiting; a full partition wants
 * more when half is gone. One partition may use all of it, but leaves the others their shares: its messages may all wait for one.
 * The bounds grow with maxInFlight, to at least half of it: what waits must last until more has come.
 */
const maxWaitingMessages = 500
const maxWaitingBytes = 1024 * 1024

export interface WindowOptions {
  /** Called whenever something was settled, freed or dropped. */
  changed(): void
  /** A message was settled; `moved` when the mark of its partition moved with it. Called before `changed`. */
  settled?(message: IncomingMessage, moved: boolean): void
  /** Commits at once, and rejects when that fails. Without it, no deaths are counted. */
  store?(): Promise<void>
  /** The broker stores every acknowledgement by itself: there are no marks and no commits. Default false. */
  readonly individualAcks?: boolean
}

export class InFlightWindow {
  readonly #subscription: Subscription
  readonly #options: WindowOptions
  readonly #maxBytes: number
  /** How many times the bounds of what waits count. */
  readonly #waitingFactor: number
  readonly #buffers = new Map<number, PartitionBuffer>()
  /** The same in the order of their turns; `#turn` is the index of the next one. */
  #turns: PartitionBuffer[] = []
  #turn = 0
  readonly #full = new Set<PartitionBuffer>()
  /** There was no room for their next message: fetching it again is useless before something was settled. */
  readonly #backpressured = new Set<PartitionBuffer>()
  /** Their delay is over: they come before anything new, in the slot that they kept. */
  readonly #delayed: HeldMessage[] = []
  #waiting = 0
  #waitingBytes = 0
  #inFlight = 0
  #outstanding = 0
  #heldBytes = 0
  #isDraining = false
  #isPaused = false
  #isReleased = false
  readonly #settler: Settler = {
    ack: (held) => this.#ack(held),
    delay: (held, delayMs) => this.#delay(held, delayMs),
    record: (held, deaths) => this.#record(held, deaths),
  }

  constructor(subscription: Subscription, options: WindowOptions) {
    this.#subscription = subscription
    this.#options = options
    this.#maxBytes = subscription.maxBytes ?? defaultMaxHeldBytes
    this.#waitingFactor = Math.max(1, subscription.maxInFlight / 2 / maxWaitingMessages)
  }

  /** Messages that handlers have. */
  get outstanding(): number {
    return this.#outstanding
  }

  /** It hands out nothing more. */
  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Those that are ours; when draining, those of which handlers have messages. */
  get partitions(): number[] {
    const needed = this.#turns.filter(({ inFlight }) => !this.#isDraining || inFlight.size > 0)
    return needed.map(({ partition }) => partition)
  }

  /** Whether one more message may be handed out, and no earlier message waits for bytes to be freed. */
  get hasRoom(): boolean {
    return (
      this.#inFlight < this.#subscription.maxInFlight &&
      this.#backpressured.size === 0 &&
      !this.#isDraining &&
      !this.#isPaused
    )
  }

  /**
   * Takes on the partitions that are ours now, and drops all others: their deliveries abort.
   * Returns the next offset to fetch of those that were ours before.
   */
  own(partitions: readonly number[]): Map<number, number> {
    this.#isPaused = false
    this.#isReleased = false
    const lost = this.#turns.filter(({ partition }) => !partitions.includes(partition))
    for (const buffer of lost) this.#drop(buffer)
    const kept = new Map<number, number>()
    for (const { partition, tracker } of this.#turns)
      if (tracker.next !== undefined) kept.set(partition, tracker.next)
    for (const partition of partitions) if (!this.#buffers.has(partition)) this.#add(partition)
    // Last, since a listener may change what is ours.
    for (const buffer of lost) buffer.lost.abort(movedAway())
    this.#options.changed()
    return kept
  }

  /**
   * Takes messages of a partition that is owned, in rising order, as many as there is room for, and returns how many.
   * `end` is where the partition goes on behind all of them.
   */
  offer(partition: number, messages: Iterable<IncomingMessage>, end: number): number {
    let buffer = this.#buffers.get(partition)
    if (buffer === undefined || this.#isDraining) return 0
    let taken = 0
    for (const incoming of messages) {
      if (taken === 0 && incoming.offset < (buffer.tracker.next ?? 0)) buffer = this.#startAgain(buffer)
      if (!this.#take(buffer, incoming)) break
      taken++
    }
    if (!this.#backpressured.has(buffer)) buffer.tracker.reach(end)
    const offset = buffer.tracker.mark
    if (offset !== undefined) buffer.committed ??= { offset, deaths: this.#options.store ? 0 : 1, alone: 0 }
    if (taken > 0) this.#options.changed()
    return taken
  }

  /** The next delivery, if one may be handed out now. */
  next(): Delivery | undefined {
    if (this.#isDraining || this.#isPaused) return undefined
    for (let held = this.#delayed.shift(); held !== undefined; held = this.#delayed.shift()) {
      if (held.state === 'delayed') return this.#handOut(held)
    }
    if (this.#waiting === 0 || this.#inFlight >= this.#subscription.maxInFlight) return undefined
    const turns = this.#turns
    for (let tried = 0; tried < turns.length; tried++) {
      const held = takeNext(turns[this.#turn++ % turns.length]!, this.#subscription.ordering)
      if (held !== undefined) return this.#handOut(held)
    }
    return undefined
  }

  /** Whether more of this partition should be fetched. */
  wants(partition: number): boolean {
    const buffer = this.#buffers.get(partition)
    if (buffer === undefined || this.#isDraining || this.#backpressured.has(buffer)) return false
    const part = this.#full.has(buffer) ? 0.5 : 1
    const messages = maxWaitingMessages * this.#waitingFactor * part
    const bytes = maxWaitingBytes * this.#waitingFactor * part
    const share = 1 / this.#buffers.size
    const wants =
      (this.#waiting < messages || buffer.waiting < messages * share) &&
      (this.#waitingBytes < bytes || buffer.waitingBytes < bytes * share) &&
      this.#heldBytes < this.#maxBytes * part
    if (wants) this.#full.delete(buffer)
    else this.#full.add(buffer)
    return wants
  }

  /** The lowest offset of a partition that was not seen yet; undefined when that is not known. */
  position(partition: number): number | undefined {
    return this.#buffers.get(partition)?.tracker.next
  }

  /** Everything below is settled; undefined when that is not known. */
  mark(partition: number): number | undefined {
    return this.#buffers.get(partition)?.tracker.mark
  }

  /** Where the group is in a partition of which nothing was offered yet, and what the previous owner stored there. */
  place(partition: number, stored: Commit | undefined, offset: number): void {
    const buffer = this.#buffers.get(partition)
    if (buffer === undefined || buffer.tracker.next !== undefined) return
    buffer.tracker.reach(offset)
    buffer.committed = stored
    if (buffer.state !== 'unknown') return
    buffer.state = 'placed'
    if (stored !== undefined) this.#takeUp(buffer, stored)
  }

  /**
   * The records from `first`, or from an unknown offset, to before `next` will never come. Nothing behind them is committed
   * until the function that is returned is called.
   */
  skip(partition: number, first: number | undefined, next: number): () => void {
    const buffer = this.#buffers.get(partition)
    if (buffer === undefined) return () => {}
    const gap = first ?? next - 1
    buffer.tracker.take(gap)
    buffer.tracker.reach(next)
    buffer.hasNoPosition ||= first === undefined
    if (buffer.state === 'unknown') buffer.state = 'placed'
    return () => {
      buffer.hasNoPosition = false
      buffer.tracker.settle(gap)
      this.#options.changed()
    }
  }

  /** False as long as it is not known what the previous owner stored: nothing of the partition is handed out before. */
  isKnown(partition: number): boolean {
    const state = this.#buffers.get(partition)?.state
    return state !== 'unknown' && state !== 'placed'
  }

  /** Says what the previous owner stored. It counts only if the partition continues at that offset. */
  know(partition: number, stored: Commit | undefined): void {
    const buffer = this.#buffers.get(partition)
    if (buffer === undefined || buffer.state === 'known' || buffer.state === 'open') return
    buffer.state = 'known'
    if (stored !== undefined && stored.offset === buffer.tracker.mark) this.#takeUp(buffer, stored)
  }

  /** It is stored that the partition is ours: its messages may be handed out. */
  open(partition: number): void {
    const buffer = this.#buffers.get(partition)
    if (buffer !== undefined) buffer.state = 'open'
    this.#options.changed()
  }

  /** What is to be committed and was not yet, by partition. */
  commits(): Map<number, Commit> {
    const commits = new Map<number, Commit>()
    for (const { partition, state, tracker, suspicion, committed, hasNoPosition } of this.#turns) {
      const offset = tracker.mark
      if (offset === undefined || state === 'unknown' || hasNoPosition) continue
      const commit = { offset, ...toStore(suspicion, this.#isReleased || state === 'placed') }
      if (!isSame(commit, committed)) commits.set(partition, commit)
    }
    return commits
  }

  committed(commits: ReadonlyMap<number, Commit>): void {
    for (const [partition, commit] of commits) {
      const buffer = this.#buffers.get(partition)
      if (buffer !== undefined) buffer.committed = commit
    }
  }

  /** Hands out nothing until `own` says which partitions are ours. */
  pause(): void {
    this.#isPaused = true
  }

  /** The partitions may go to others now, in order: until `own` is called, what is committed counts no death of this process. */
  release(): void {
    this.#isReleased = true
  }

  /** Hands out nothing more, and drops everything that no handler has. */
  drain(): void {
    this.#isDraining = true
    for (const buffer of this.#turns) {
      for (const held of buffer.inFlight) if (held.state === 'delayed') this.#takeBack(held)
      this.#dropWaiting(buffer)
    }
    this.#options.changed()
  }

  #add(partition: number): PartitionBuffer {
    const { individualAcks, store } = this.#options
    const maxSettled = individualAcks ? Number.POSITIVE_INFINITY : settledAboveMarkOf(this.#subscription)
    const buffer = createPartitionBuffer(partition, maxSettled)
    if (store === undefined) buffer.state = 'open'
    // Every delivery in flight may listen.
    setMaxListeners(0, buffer.lost.signal)
    this.#buffers.set(partition, buffer)
    this.#turns = [...this.#buffers.values()]
    return buffer
  }

  #drop(buffer: PartitionBuffer): void {
    this.#buffers.delete(buffer.partition)
    this.#turns = [...this.#buffers.values()]
    this.#full.delete(buffer)
    for (const held of buffer.inFlight) this.#takeBack(held)
    this.#dropWaiting(buffer)
  }

  #dropWaiting(buffer: PartitionBuffer): void {
    buffer.fetched.clear()
    buffer.ready.length = 0
    buffer.behind.clear()
    this.#waiting -= buffer.waiting
    this.#waitingBytes -= buffer.waitingBytes
    this.#heldBytes -= buffer.waitingBytes
    buffer.waiting = 0
    buffer.waitingBytes = 0
    this.#backpressured.clear()
  }

  /** The log was cut or created again: messages that are held of the old one mean nothing to the new one. */
  #startAgain(buffer: PartitionBuffer): PartitionBuffer {
    this.#drop(buffer)
    const fresh = this.#add(buffer.partition)
    buffer.lost.abort(movedAway())
    return fresh
  }

  /** False when there is no room for the message. */
  #take(buffer: PartitionBuffer, incoming: IncomingMessage): boolean {
    const bytes = incoming.message.value.byteLength + incoming.message.key.length
    if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#maxBytes) {
      this.#backpressured.add(buffer)
      return false
    }
    buffer.tracker.take(incoming.offset)
    buffer.fetched.push({ ...incoming, buffer, bytes, attempt: 0, isSuspect: false, state: 'fetched' })
    buffer.waiting++
    buffer.waitingBytes += bytes
    this.#waiting++
    this.#waitingBytes += bytes
    this.#heldBytes += bytes
    return true
  }

  #takeUp(buffer: PartitionBuffer, stored: Commit): void {
    takeUp(buffer.suspicion, stored, Math.ceil(this.#subscription.maxInFlight / this.#buffers.size))
  }

  #handOut(held: HeldMessage): Delivery {
    if (held.state === 'fetched') {
      this.#inFlight++
      held.isSuspect = held.buffer.suspicion.suspects > 0
      held.buffer.inFlight.add(held)
      held.buffer.waiting--
      held.buffer.waitingBytes -= held.bytes
      this.#waiting--
      this.#waitingBytes -= held.bytes
    }
    this.#outstanding++
    held.state = 'out'
    held.attempt++
    return new HeldDelivery(held, this.#settler)
  }

  #ack(held: HeldMessage): void {
    const { tracker, suspicion } = held.buffer
    const before = tracker.mark
    this.#takeBack(held)
    tracker.settle(held.offset)
    if (held.isSuspect) suspicion.suspects--
    const moved = tracker.mark !== before
    if (moved) noteProgress(suspicion)
    freeKey(held, this.#subscription.ordering)
    this.#options.settled?.(held, moved)
    this.#options.changed()
  }

  #delay(held: HeldMessage, delayMs: number): void {
    if (this.#isDraining) this.#takeBack(held)
    else {
      this.#outstanding--
      held.state = 'delayed'
      const wake = () => {
        this.#delayed.push(held)
        this.#options.changed()
      }
      held.timer = setTimeout(wake, Math.min(Math.max(delayMs, 0), longestTimerMs))
    }
    this.#options.changed()
  }

  async #record(held: HeldMessage, deaths: number): Promise<void> {
    if (held.state === 'gone') return
    held.buffer.suspicion.aloneIfDead = deaths
    await this.#options.store?.()
  }

  /** A message that was in flight is held no longer. */
  #takeBack(held: HeldMessage): void {
    if (held.state === 'out') this.#outstanding--
    clearTimeout(held.timer)
    held.state = 'gone'
    held.buffer.inFlight.delete(held)
    this.#heldBytes -= held.bytes
    this.#inFlight--
    this.#backpressured.clear()
  }
}

const isSame = (one: Commit, other: Commit | undefined) =>
  one.offset === other?.offset && one.deaths === other.deaths && one.alone === other.alone
