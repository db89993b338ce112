// What one consumer holds of all its partitions: hands messages out within its bounds, takes back what settles, and says
// which partitions want more and how far each may be committed. It knows no broker and never waits.
import { setMaxListeners } from 'node:events'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import { noteProgress, takeUp, toStore } from './deaths.ts'
import { settledAboveMarkOf } from './offsets.ts'
import {
  type Commit,
  createHold,
  freeKey,
  type Held,
  HeldDelivery,
  type Incoming,
  movedAway,
  type PartitionHold,
  takeNext,
} from './partition-buffer.ts'

/**
 * A partition with more than this in wait is full; it wants more when half of it is gone. It is half of what may be in flight
 * where that is more: while a partition is full kafkajs waits for the others, and what waits must last for as long.
 */
const maxWaitingMessages = 2000
const maxWaitingBytes = 2 * 1024 * 1024
/** What setTimeout takes. */
const longestDelayMs = 2 ** 31 - 1

export interface ConsumeWindow {
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
export function createWindow(
  subscription: Subscription,
  onChange: () => void,
  store?: () => Promise<void>,
): ConsumeWindow {
  const { maxInFlight, ordering, maxBytes = defaultMaxHeldBytes } = subscription
  const room = Math.max(1, maxInFlight / 2 / maxWaitingMessages)
  const holds = new Map<number, PartitionHold>()
  const sated = new Set<PartitionHold>()
  /** There was no room for their next message: no use to fetch it again before something was settled. */
  const choked = new Set<PartitionHold>()
  /** Their delay is over: they come before anything new, in the slot that they kept. */
  const rested: Held[] = []
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
      const { tracker, suspicion } = held.hold
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
        held.timer = setTimeout(wake, Math.min(Math.max(delayMs, 0), longestDelayMs), held)
      }
      onChange()
    },
    async record(held: Held, deaths: number) {
      if (held.state === 'gone') return
      held.hold.suspicion.aloneIfDead = deaths
      await store?.()
    },
  }

  function wake(held: Held): void {
    rested.push(held)
    onChange()
  }

  /** A message that was in hand is held no longer. */
  function takeBack(held: Held): void {
    if (held.state === 'out') outstanding--
    clearTimeout(held.timer)
    held.state = 'gone'
    held.hold.inHand.delete(held)
    heldBytes -= held.bytes
    inFlight--
    choked.clear()
  }

  function handOut(held: Held): Delivery {
    if (held.state === 'fetched') {
      inFlight++
      held.isSuspect = held.hold.suspicion.suspects > 0
      held.hold.inHand.add(held)
      held.hold.waitingBytes -= held.bytes
    }
    outstanding++
    held.state = 'out'
    held.attempt++
    return new HeldDelivery(held, settler)
  }

  function take(partition: number): PartitionHold {
    const hold = createHold(partition, settledAboveMarkOf(subscription))
    if (store === undefined) hold.state = 'open'
    // One listener for each delivery in hand.
    setMaxListeners(0, hold.lost.signal)
    holds.set(partition, hold)
    return hold
  }

  function letGo(hold: PartitionHold): void {
    holds.delete(hold.partition)
    sated.delete(hold)
    for (const held of hold.inHand) takeBack(held)
    dropWaiting(hold)
    hold.lost.abort(movedAway())
  }

  function dropWaiting(hold: PartitionHold): void {
    hold.fetched.clear()
    hold.ready.length = 0
    hold.behind.clear()
    heldBytes -= hold.waitingBytes
    hold.waitingBytes = 0
    choked.clear()
  }

  return {
    own(partitions) {
      paused = false
      for (const hold of [...holds.values()]) if (!partitions.includes(hold.partition)) letGo(hold)
      const kept = new Map<number, number>()
      for (const { partition, tracker } of holds.values()) {
        if (tracker.next !== undefined) kept.set(partition, tracker.next)
      }
      for (const partition of partitions) if (!holds.has(partition)) take(partition)
      isReleased = false
      onChange()
      return kept
    },
    offer(partition, messages, end) {
      let hold = holds.get(partition)
      if (hold === undefined || draining) return 0
      let taken = 0
      for (const incoming of messages) {
        if (taken === 0 && incoming.offset < (hold.tracker.next ?? 0)) {
          // The log was cut or made anew: what was held of the old one is nothing to this one.
          letGo(hold)
          hold = take(partition)
        }
        const bytes = incoming.message.value.byteLength + incoming.message.key.length
        if (heldBytes > 0 && heldBytes + bytes > maxBytes) {
          choked.add(hold)
          break
        }
        hold.tracker.take(incoming.offset)
        hold.fetched.push({ ...incoming, hold, bytes, attempt: 0, isSuspect: false, state: 'fetched' })
        hold.waitingBytes += bytes
        heldBytes += bytes
        taken++
      }
      if (!choked.has(hold)) hold.tracker.reach(end)
      const offset = hold.tracker.mark
      if (offset !== undefined) hold.committed ??= { offset, deaths: store ? 0 : 1, alone: 0 }
      if (taken > 0) onChange()
      return taken
    },
    place(partition, stored, offset) {
      const hold = holds.get(partition)
      if (hold === undefined || hold.tracker.next !== undefined) return
      hold.tracker.reach(offset)
      hold.committed = stored
      if (hold.state !== 'unknown') return
      hold.state = 'placed'
      if (stored !== undefined) takeUp(hold.suspicion, stored, Math.ceil(maxInFlight / holds.size))
    },
    skip(partition, first, next) {
      const hold = holds.get(partition)
      if (hold === undefined) return () => {}
      const gap = first ?? next - 1
      hold.tracker.take(gap)
      hold.tracker.reach(next)
      hold.hasNoPosition ||= first === undefined
      if (hold.state === 'unknown') hold.state = 'placed'
      return () => {
        hold.hasNoPosition = false
        hold.tracker.settle(gap)
        onChange()
      }
    },
    position: (partition) => holds.get(partition)?.tracker.next,
    next() {
      if (draining || paused) return undefined
      for (let held = rested.shift(); held !== undefined; held = rested.shift()) {
        if (held.state === 'resting') return handOut(held)
      }
      if (inFlight >= maxInFlight) return undefined
      const all = [...holds.values()]
      for (let tried = 0; tried < all.length; tried++) {
        const held = takeNext(all[turn++ % all.length]!, ordering)
        if (held !== undefined) return handOut(held)
      }
      return undefined
    },
    wants(partition) {
      const hold = holds.get(partition)
      if (hold === undefined || draining || choked.has(hold)) return false
      const share = sated.has(hold) ? 0.5 : 1
      const waiting = hold.tracker.inFlight - hold.inHand.size
      const wants =
        waiting < maxWaitingMessages * room * share &&
        hold.waitingBytes < maxWaitingBytes * room * share &&
        heldBytes < maxBytes * share
      if (wants) sated.delete(hold)
      else sated.add(hold)
      return wants
    },
    isKnown(partition) {
      const state = holds.get(partition)?.state
      return state !== 'unknown' && state !== 'placed'
    },
    know(partition, stored) {
      const hold = holds.get(partition)
      if (hold === undefined || hold.state === 'known' || hold.state === 'open') return
      hold.state = 'known'
      if (stored !== undefined && stored.offset === hold.tracker.mark)
        takeUp(hold.suspicion, stored, Math.ceil(maxInFlight / holds.size))
    },
    open(partition) {
      const hold = holds.get(partition)
      if (hold !== undefined) hold.state = 'open'
      onChange()
    },
    commits() {
      const commits = new Map<number, Commit>()
      for (const { partition, state, tracker, suspicion, committed, hasNoPosition } of holds.values()) {
        const offset = tracker.mark
        if (offset === undefined || state === 'unknown' || hasNoPosition) continue
        const commit = { offset, ...toStore(suspicion, isReleased || state === 'placed') }
        if (!isSame(commit, committed)) commits.set(partition, commit)
      }
      return commits
    },
    committed(commits) {
      for (const [partition, commit] of commits) {
        const hold = holds.get(partition)
        if (hold !== undefined) hold.committed = commit
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
      for (const hold of holds.values()) {
        for (const held of hold.inHand) if (held.state === 'resting') takeBack(held)
        dropWaiting(hold)
      }
      onChange()
    },
    get partitions() {
      return [...holds.keys()]
    },
    get outstanding() {
      return outstanding
    },
  }
}

const isSame = (one: Commit, other: Commit | undefined) =>
  one.offset === other?.offset && one.deaths === other.deaths && one.alone === other.alone
