// What one consumer holds of all its partitions: hands messages out within its bounds, takes back what settles, and says
// which partitions want more and how far each may be committed. It knows no broker and never waits.
import { setMaxListeners } from 'node:events'
import { type Delivery, defaultMaxHeldBytes, type Subscription } from '../broker.ts'
import { settledAboveMarkOf } from './offsets.ts'
import {
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
  /** The next delivery, if one may be handed out now. */
  next(): Delivery | undefined
  /** Whether more of this partition should be fetched. */
  wants(partition: number): boolean
  /** Offsets that may be committed and were not yet, by partition. */
  marks(): Map<number, number>
  committed(marks: ReadonlyMap<number, number>): void
  /** Hands out nothing until `own` says which partitions are ours. */
  pause(): void
  /** Hands out nothing more, and lets go of all that no handler has. */
  drain(): void
  readonly partitions: readonly number[]
  /** Messages that handlers have. */
  readonly outstanding: number
}

/** `onChange` is called whenever something was settled, freed or let go. */
export function createWindow(subscription: Subscription, onChange: () => void): ConsumeWindow {
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
  /** The partition whose turn it is, as an index. */
  let turn = 0

  const settler = {
    ack(held: Held) {
      takeBack(held)
      held.hold.tracker.settle(held.offset)
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
        hold.fetched.push({ ...incoming, hold, bytes, attempt: 0, state: 'fetched' })
        hold.waitingBytes += bytes
        heldBytes += bytes
        taken++
      }
      if (!choked.has(hold)) hold.tracker.reach(end)
      hold.committed ??= hold.tracker.mark
      if (taken > 0) onChange()
      return taken
    },
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
    marks() {
      const marks = new Map<number, number>()
      for (const { partition, tracker, committed } of holds.values()) {
        const mark = tracker.mark
        if (mark !== undefined && mark !== committed) marks.set(partition, mark)
      }
      return marks
    },
    committed(marks) {
      for (const [partition, mark] of marks) {
        const hold = holds.get(partition)
        if (hold !== undefined) hold.committed = mark
      }
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
