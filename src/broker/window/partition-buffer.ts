// What this member holds of one partition: messages fetched, handed out and set aside, and how far it may commit.
// Nothing here knows a broker; the window over all partitions decides when something is handed out.
import { GraphmillError } from '../../errors.ts'
import type { Delivery, ReadMessage, Subscription, Suspect } from '../broker.ts'
import { createSuspicion, type Deaths, type Suspicion } from './deaths.ts'
import { createOffsetTracker, type OffsetTracker } from './offsets.ts'
import { createQueue, type Queue } from './queue.ts'

/** A message from the broker, with its offset as a number. */
export interface Incoming {
  readonly offset: number
  readonly message: ReadMessage
  /** False for a message without a key: it waits for no other. */
  readonly keyed: boolean
}

/** A message that is held, from being fetched to being settled. */
export interface Held extends Incoming {
  readonly buffer: PartitionBuffer
  readonly bytes: number
  attempt: number
  /** It is handed out alone of its partition. */
  isSuspect: boolean
  /** `out`: with a handler. `resting`: between retryLater and the next attempt. */
  state: 'fetched' | 'out' | 'resting' | 'gone'
  timer?: NodeJS.Timeout
}

export interface PartitionBuffer {
  readonly partition: number
  /**
   * `unknown`: what the owner before stored is not known yet; `placed`: it is, and nothing was fetched; `known`: something was;
   * `open`: and that this one has it is stored.
   */
  state: 'unknown' | 'placed' | 'known' | 'open'
  /** The group has none, and what was deleted before it came is not reported yet: there is nothing to commit. */
  hasNoPosition: boolean
  readonly suspicion: Suspicion
  readonly maxSettled: number
  readonly tracker: OffsetTracker
  /** Aborts when the partition goes to another member. */
  readonly lost: AbortController
  /** In the order of the partition; those whose key is busy are moved to `behind`. */
  readonly fetched: Queue<Held>
  /** What waits for the message of its key before it, by key. A key is in here while one of its messages is in hand. */
  readonly behind: Map<string, Held[]>
  /** Freed by the message of their key before them: next to be handed out. */
  readonly ready: Held[]
  /** With handlers or resting. */
  readonly inFlight: Set<Held>
  /** Bytes of what no handler had yet. */
  waitingBytes: number
  committed: Commit | undefined
}

/** What is committed of a partition: where its owner would go on, and what is known of deaths there. */
export interface Commit extends Deaths {
  readonly offset: number
}

/** With so many offsets settled above the mark at most. */
export function createPartitionBuffer(partition: number, maxSettled: number): PartitionBuffer {
  return {
    partition,
    state: 'unknown',
    hasNoPosition: false,
    suspicion: createSuspicion(),
    maxSettled,
    tracker: createOffsetTracker(maxSettled),
    lost: new AbortController(),
    fetched: createQueue(),
    behind: new Map(),
    ready: [],
    inFlight: new Set(),
    waitingBytes: 0,
    committed: undefined,
  }
}

/** The next message that may be handed out, or undefined. It is taken out of the queues. */
export function takeNext(buffer: PartitionBuffer, ordering: Subscription['ordering']): Held | undefined {
  if (buffer.state !== 'open') return undefined
  if (buffer.suspicion.suspects > 0 && buffer.inFlight.size > 0) return undefined
  // All in hand but the lowest may settle before the mark moves: together they must not pass the cap.
  if (buffer.tracker.settledAboveMark + buffer.inFlight.size > buffer.maxSettled) return undefined
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

/** Lets the next message of its key go on. */
export function freeKey(held: Held, ordering: Subscription['ordering']): void {
  if (ordering !== 'key' || !held.keyed) return
  const { behind, ready } = held.buffer
  const next = behind.get(held.message.key)?.shift()
  if (next === undefined) behind.delete(held.message.key)
  else ready.push(next)
}

/** What a delivery may do to the window it came from. */
export interface Settler {
  ack(held: Held): void
  rest(held: Held, delayMs: number): void
  /** Stores what a suspect's deaths alone are to be if this process dies now. */
  record(held: Held, deaths: number): Promise<void>
}

/** A held message as the handler sees it. Only the delivery of the current attempt settles it, once. */
export class HeldDelivery implements Delivery {
  readonly attempt: number
  readonly #held: Held
  readonly #settler: Settler

  constructor(held: Held, settler: Settler) {
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
    if (!held.isSuspect) return undefined
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
    if (this.#isCurrent()) this.#settler.rest(this.#held, delayMs)
  }

  #isCurrent(): boolean {
    return this.#held.state === 'out' && this.#held.attempt === this.attempt
  }
}

/** Why a delivery is no longer this member's. */
export const movedAway = () =>
  new GraphmillError('aborted', 'the message belongs to another member of the group now')
