// The messages that this member holds of one partition: fetched, with handlers, and waiting for a retry. It keeps the order
// by key. It knows no broker; the window over all partitions decides when something is handed out.
import { GraphmillError } from '../../errors.ts'
import type { Delivery, ReadMessage, Subscription, Suspect } from '../broker.ts'
import { createSuspicion, type Deaths, type Suspicion } from './deaths.ts'
import { createOffsetTracker, createUnorderedTracker, type OffsetTracker } from './offsets.ts'
import { createQueue, type Queue } from './queue.ts'

/** A message from the broker. */
export interface IncomingMessage {
  /** The offset as a number; ignored when the broker stores every acknowledgement by itself. */
  readonly offset: number
  readonly message: ReadMessage
  /** False for a message without a key: it waits for no other. */
  readonly keyed: boolean
  /** The broker's name for the message, when that is not its offset. */
  readonly id?: string
  /** Set by a broker that counts deaths itself. */
  readonly suspect?: Suspect | undefined
}

/** A message that is held, from being fetched to being settled. */
export interface HeldMessage extends IncomingMessage {
  readonly buffer: PartitionBuffer
  readonly bytes: number
  attempt: number
  /** It is handed out alone of its partition. */
  isSuspect: boolean
  /** `out`: with a handler. `delayed`: between retryLater and the next attempt. `gone`: settled or dropped. */
  state: 'fetched' | 'out' | 'delayed' | 'gone'
  timer?: NodeJS.Timeout
}

export interface PartitionBuffer {
  readonly partition: number
  /**
   * `unknown`: what the previous owner stored is not known yet. `placed`: it is known, and nothing was fetched. `known`:
   * messages were fetched. `open`: it is stored that this member owns the partition, and messages may be handed out.
   */
  state: 'unknown' | 'placed' | 'known' | 'open'
  /** The group has no position, and records deleted before it came are not reported yet: there is nothing to commit. */
  hasNoPosition: boolean
  readonly suspicion: Suspicion
  readonly maxSettledAboveMark: number
  readonly tracker: OffsetTracker
  /** Aborts when the partition goes to another member. */
  readonly lost: AbortController
  /** In the order of the partition; messages whose key is in flight are moved to `behind`. */
  readonly fetched: Queue<HeldMessage>
  /** Messages that wait for an earlier one of their key, by key. A key is present while one of its messages is in flight. */
  readonly behind: Map<string, HeldMessage[]>
  /** Their key was freed: they are the next to be handed out. */
  readonly ready: HeldMessage[]
  /** With handlers or delayed. */
  readonly inFlight: Set<HeldMessage>
  /** Messages that no handler has had yet, and their bytes. */
  waiting: number
  waitingBytes: number
  committed: Commit | undefined
}

/** What is committed of a partition: where its next owner goes on, and what is known of deaths there. */
export interface Commit extends Deaths {
  readonly offset: number
}

/** At most `maxSettledAboveMark` offsets may be settled above the mark; infinitely many when there is no mark. */
export function createPartitionBuffer(partition: number, maxSettledAboveMark: number): PartitionBuffer {
  const hasMark = maxSettledAboveMark < Number.POSITIVE_INFINITY
  return {
    partition,
    state: 'unknown',
    hasNoPosition: false,
    suspicion: createSuspicion(),
    maxSettledAboveMark,
    tracker: hasMark ? createOffsetTracker(maxSettledAboveMark) : createUnorderedTracker(),
    lost: new AbortController(),
    fetched: createQueue(),
    behind: new Map(),
    ready: [],
    inFlight: new Set(),
    waiting: 0,
    waitingBytes: 0,
    committed: undefined,
  }
}

/** The next message that may be handed out, or undefined. It is removed from the queues. */
export function takeNext(
  buffer: PartitionBuffer,
  ordering: Subscription['ordering'],
): HeldMessage | undefined {
  if (buffer.waiting === 0 || buffer.state !== 'open') return undefined
  if (buffer.suspicion.suspects > 0 && buffer.inFlight.size > 0) return undefined
  // All in flight but the lowest may settle before the mark moves: together they must not exceed the limit.
  if (buffer.tracker.settledAboveMark + buffer.inFlight.size > buffer.maxSettledAboveMark) return undefined
  const freed = buffer.ready.shift()
  if (freed !== undefined) return freed
  for (;;) {
    const held = buffer.fetched.shift()
    if (held === undefined || ordering !== 'key' || !held.keyed) return held
    const before = buffer.behind.get(held.message.key)
    if (before === undefined) {
      buffer.behind.set(held.message.key, [])
      return held
    }
    before.push(held)
  }
}

/** A message was settled: the next one of its key may go on. */
export function freeKey(held: HeldMessage, ordering: Subscription['ordering']): void {
  if (ordering !== 'key' || !held.keyed) return
  const { behind, ready } = held.buffer
  const next = behind.get(held.message.key)?.shift()
  if (next === undefined) behind.delete(held.message.key)
  else ready.push(next)
}

/** What a delivery may do to the window it came from. */
export interface Settler {
  ack(held: HeldMessage): void
  delay(held: HeldMessage, delayMs: number): void
  /** Stores the number of processes that died with a suspect alone, in case this process dies now. */
  record(held: HeldMessage, deaths: number): Promise<void>
}

/** A held message as the handler sees it. Only the delivery of the current attempt settles it, once. */
export class HeldDelivery implements Delivery {
  readonly attempt: number
  readonly #held: HeldMessage
  readonly #settler: Settler

  constructor(held: HeldMessage, settler: Settler) {
    this.attempt = held.attempt
    this.#held = held
    this.#settler = settler
  }

  get topic() {
    return this.#held.message.topic
  }
  get partition() {
    return this.#held.message.partition
  }
  get position() {
    return this.#held.message.position
  }
  get key() {
    return this.#held.message.key
  }
  get value() {
    return this.#held.message.value
  }
  get headers() {
    return this.#held.message.headers
  }
  get timestamp() {
    return this.#held.message.timestamp
  }
  get signal(): AbortSignal {
    return this.#held.buffer.lost.signal
  }

  get suspect(): Suspect | undefined {
    const held = this.#held
    if (!held.isSuspect) return held.suspect
    const { alone, aloneIfDead = alone } = held.buffer.suspicion
    return {
      deaths: async () => aloneIfDead,
      record: (deaths) => this.#settler.record(held, deaths),
    }
  }

  async ack(): Promise<void> {
    if (this.#isCurrent()) this.#settler.ack(this.#held)
  }

  async retryLater(delayMs: number): Promise<void> {
    if (this.#isCurrent()) this.#settler.delay(this.#held, delayMs)
  }

  #isCurrent(): boolean {
    return this.#held.state === 'out' && this.#held.attempt === this.attempt
  }
}

/** Why a delivery is no longer this member's. */
export const movedAway = () =>
  new GraphmillError('aborted', 'the message belongs to another member of the group now')
