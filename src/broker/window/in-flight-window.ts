// What one consumer holds of all its partitions: hands messages out within its bounds, takes back what settles, and says
// which partitions want more and how far each may be committed. It knows no broker and never waits.
import { setMaxListeners } from 'node:events'
import { longestTimerMs } from '../../wait.ts'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import { noteProgress, takeUp, toStore } from './deaths.ts'
import { settledAboveMarkOf } from './offsets.ts'
import {
  type Commit,
  createPartitionBuffer,
  freeKey,
  type Held,
  HeldDelivery,
  type Incoming,
  movedAway,
  type PartitionBuffer,
  takeNext,
} from './partition-buffer.ts'

/**
 * A partition with more than this in wait is full; it wants more when half of it is gone. It is half of what may be in flight
 * where that is more: while a partition is full kafkajs waits for the others, and what waits must last for as long.
 */
const maxWaitingMessages = 2000
const maxWaitingBytes = 2 * 1024 * 1024
export interface InFlightWindow {
  /**
   * Takes on the partitions that are ours now, and lets go of all others: their deliveries abort.
   * Returns where fetching goes on in those that were ours before.
   */
  own(partitions: readonly number[]): Map<number, number>
  /**
   * Takes messages of a partition that is owned, in rising order, as many as there is room for, and returns how many.
   * `end` is where the partition goes on behind all of them.
   */
  offer(partition: number, messages: Iterable<Incoming>, end: number): number
  /** Where the group is in a partition of which nothing was offered yet, and what the owner before has stored there. */
  place(partition: number, stored: Commit | undefined, offset: number): void
  /**
   * What lies from `first`, or from an unknown offset, to before `next` will never come. Nothing behind it is committed
   * until the function that is returned is called.
   */
  skip(partition: number, first: number | undefined, next: number): () => void
  /** The lowest offset of a partition that was not seen yet; undefined when that is not known. */
  position(partition: number): number | undefined
  /** The next delivery, if one may be handed out now. */
  next(): Delivery | undefined
  /** Whether more of this partition should be fetched. */
  wants(partition: number): boolean
  /** Hands out nothing until `own` says which partitions are ours. */
  pause(): void
  /** Where it is not known yet what the owner before stored: nothing of the partition is handed out before. */
  isKnown(partition: number): boolean
  /** That is known now; it counts where it was stored for the offset at which the partition goes on. To be stored next. */
  know(partition: number, stored: Commit | undefined): void
  /** It is stored that the partition is ours: its messages may be handed out. */
  open(partition: number): void
  /** What is to be committed and was not yet, by partition. */
  commits(): Map<number, Commit>
  committed(commits: ReadonlyMap<number, Commit>): void
  /** The partitions may go to others now, in order: until `own` is called, what is committed counts no death of this process. */
  release(): void
  /** Hands out nothing more, and lets go of all that no handler has. */
  drain(): void
  readonly partitions: readonly number[]
  /** Messages that handlers have. */
  readonly outstanding: number
}

/**
 * `onChange` is called whenever something was settled, freed or let go. `store` commits at once, and rejects where it can't:
 * without it no deaths are counted.
 */
export function createInFlightWindow(
  subscription: Subscription,
  onChange: () => void,
  store?: () => Promise<void>,
): InFlightWindow {
  const { maxInFlight, ordering, maxBytes = defaultMaxHeldBytes } = subscription
  const room = Math.max(1, maxInFlight / 2 / maxWaitingMessages)
  const buffers = new Map<number, PartitionBuffer>()
  const full = new Set<PartitionBuffer>()
  /** There was no room for their next message: no use to fetch it again before something was settled. */
  const backpressured = new Set<PartitionBuffer>()
  /** Their delay is over: they come before anything new, in the slot that they kept. */
  const delayed: Held[] = []
  let inFlight = 0
  let outstanding = 0
  let heldBytes = 0
  let draining = false
  let paused = false
  let isReleased = false
  /** The partition whose turn it is, as an index. */
  let turn = 0

  const settler = {
    ack(held: Held) {
      const { tracker, suspicion } = held.buffer
      const before = tracker.mark
      takeBack(held)
      tracker.settle(held.offset)
      if (held.isSuspect) suspicion.suspects--
      if (tracker.mark !== before) noteProgress(suspicion)
      freeKey(held, ordering)
      onChange()
    },
    rest(held: Held, delayMs: number) {
      if (draining) takeBack(held)
      else {
        outstanding--
        held.state = 'resting'
        held.timer = setTimeout(wake, Math.min(Math.max(delayMs, 0), longestTimerMs), held)
      }
      onChange()
    },
    async record(held: Held, deaths: number) {
      if (held.state === 'gone') return
      held.buffer.suspicion.aloneIfDead = deaths
      await store?.()
    },
  }

  function wake(held: Held): void {
    delayed.push(held)
    onChange()
  }

  /** A message that was in hand is held no longer. */
  function takeBack(held: Held): void {
    if (held.state === 'out') outstanding--
    clearTimeout(held.timer)
    held.state = 'gone'
    held.buffer.inFlight.delete(held)
    heldBytes -= held.bytes
    inFlight--
    backpressured.clear()
  }

  function handOut(held: Held): Delivery {
    if (held.state === 'fetched') {
      inFlight++
      held.isSuspect = held.buffer.suspicion.suspects > 0
      held.buffer.inFlight.add(held)
      held.buffer.waitingBytes -= held.bytes
    }
    outstanding++
    held.state = 'out'
    held.attempt++
    return new HeldDelivery(held, settler)
  }

  function take(partition: number): PartitionBuffer {
    const buffer = createPartitionBuffer(partition, settledAboveMarkOf(subscription))
    if (store === undefined) buffer.state = 'open'
    // One listener for each delivery in hand.
    setMaxListeners(0, buffer.lost.signal)
    buffers.set(partition, buffer)
    return buffer
  }

  function release(buffer: PartitionBuffer): void {
    buffers.delete(buffer.partition)
    full.delete(buffer)
    for (const held of buffer.inFlight) takeBack(held)
    dropWaiting(buffer)
    buffer.lost.abort(movedAway())
  }

  function dropWaiting(buffer: PartitionBuffer): void {
    buffer.fetched.clear()
    buffer.ready.length = 0
    buffer.behind.clear()
    heldBytes -= buffer.waitingBytes
    buffer.waitingBytes = 0
    backpressured.clear()
  }

  return {
    own(partitions) {
      paused = false
      for (const buffer of [...buffers.values()]) if (!partitions.includes(buffer.partition)) release(buffer)
      const kept = new Map<number, number>()
      for (const { partition, tracker } of buffers.values()) {
        if (tracker.next !== undefined) kept.set(partition, tracker.next)
      }
      for (const partition of partitions) if (!buffers.has(partition)) take(partition)
      isReleased = false
      onChange()
      return kept
    },
    offer(partition, messages, end) {
      let buffer = buffers.get(partition)
      if (buffer === undefined || draining) return 0
      let taken = 0
      for (const incoming of messages) {
        if (taken === 0 && incoming.offset < (buffer.tracker.next ?? 0)) {
          // The log was cut or made anew: what was held of the old one is nothing to this one.
          release(buffer)
          buffer = take(partition)
        }
        const bytes = incoming.message.value.byteLength + incoming.message.key.length
        if (heldBytes > 0 && heldBytes + bytes > maxBytes) {
          backpressured.add(buffer)
          break
        }
        buffer.tracker.take(incoming.offset)
        buffer.fetched.push({ ...incoming, buffer, bytes, attempt: 0, isSuspect: false, state: 'fetched' })
        buffer.waitingBytes += bytes
        heldBytes += bytes
        taken++
      }
      if (!backpressured.has(buffer)) buffer.tracker.reach(end)
      const offset = buffer.tracker.mark
      if (offset !== undefined) buffer.committed ??= { offset, deaths: store ? 0 : 1, alone: 0 }
      if (taken > 0) onChange()
      return taken
    },
    place(partition, stored, offset) {
      const buffer = buffers.get(partition)
      if (buffer === undefined || buffer.tracker.next !== undefined) return
      buffer.tracker.reach(offset)
      buffer.committed = stored
      if (buffer.state !== 'unknown') return
      buffer.state = 'placed'
      if (stored !== undefined) takeUp(buffer.suspicion, stored, Math.ceil(maxInFlight / buffers.size))
    },
    skip(partition, first, next) {
      const buffer = buffers.get(partition)
      if (buffer === undefined) return () => {}
      const gap = first ?? next - 1
      buffer.tracker.take(gap)
      buffer.tracker.reach(next)
      buffer.hasNoPosition ||= first === undefined
      if (buffer.state === 'unknown') buffer.state = 'placed'
      return () => {
        buffer.hasNoPosition = false
        buffer.tracker.settle(gap)
        onChange()
      }
    },
    position: (partition) => buffers.get(partition)?.tracker.next,
    next() {
      if (draining || paused) return undefined
      for (let held = delayed.shift(); held !== undefined; held = delayed.shift()) {
        if (held.state === 'resting') return handOut(held)
      }
      if (inFlight >= maxInFlight) return undefined
      const all = [...buffers.values()]
      for (let tried = 0; tried < all.length; tried++) {
        const held = takeNext(all[turn++ % all.length]!, ordering)
        if (held !== undefined) return handOut(held)
      }
      return undefined
    },
    wants(partition) {
      const buffer = buffers.get(partition)
      if (buffer === undefined || draining || backpressured.has(buffer)) return false
      const share = full.has(buffer) ? 0.5 : 1
      const waiting = buffer.tracker.inFlight - buffer.inFlight.size
      const wants =
        waiting < maxWaitingMessages * room * share &&
        buffer.waitingBytes < maxWaitingBytes * room * share &&
        heldBytes < maxBytes * share
      if (wants) full.delete(buffer)
      else full.add(buffer)
      return wants
    },
    isKnown(partition) {
      const state = buffers.get(partition)?.state
      return state !== 'unknown' && state !== 'placed'
    },
    know(partition, stored) {
      const buffer = buffers.get(partition)
      if (buffer === undefined || buffer.state === 'known' || buffer.state === 'open') return
      buffer.state = 'known'
      if (stored !== undefined && stored.offset === buffer.tracker.mark)
        takeUp(buffer.suspicion, stored, Math.ceil(maxInFlight / buffers.size))
    },
    open(partition) {
      const buffer = buffers.get(partition)
      if (buffer !== undefined) buffer.state = 'open'
      onChange()
    },
    commits() {
      const commits = new Map<number, Commit>()
      for (const { partition, state, tracker, suspicion, committed, hasNoPosition } of buffers.values()) {
        const offset = tracker.mark
        if (offset === undefined || state === 'unknown' || hasNoPosition) continue
        const commit = { offset, ...toStore(suspicion, isReleased || state === 'placed') }
        if (!isSame(commit, committed)) commits.set(partition, commit)
      }
      return commits
    },
    committed(commits) {
      for (const [partition, commit] of commits) {
        const buffer = buffers.get(partition)
        if (buffer !== undefined) buffer.committed = commit
      }
    },
    release() {
      isReleased = true
    },
    pause() {
      paused = true
    },
    drain() {
      draining = true
      for (const buffer of buffers.values()) {
        for (const held of buffer.inFlight) if (held.state === 'resting') takeBack(held)
        dropWaiting(buffer)
      }
      onChange()
    },
    get partitions() {
      return [...buffers.keys()]
    },
    get outstanding() {
      return outstanding
    },
  }
}

const isSame = (one: Commit, other: Commit | undefined) =>
  one.offset === other?.offset && one.deaths === other.deaths && one.alone === other.alone
