// The low-water mark of one partition: how far a group may commit while its messages settle in any order.
// The mark never passes an unsettled message, so a crash repeats the messages above it and skips none.

import type { Subscription } from '../broker.ts'

/** With this many offsets settled above the mark, nothing more of a partition is handed out until the mark has moved. */
export const maxSettledAboveMark = 1000

/** The same for a subscription: at least `maxInFlight` when the messages that a member has of a key settle together. */
export function settledAboveMarkOf({ ordering, maxInFlight }: Subscription): number {
  return ordering === 'member' ? Math.max(maxSettledAboveMark, maxInFlight) : maxSettledAboveMark
}

/** Offsets are plain numbers: exact up to 2^53, which no partition reaches. */
export interface OffsetTracker {
  /**
   * Notes a message that the broker handed over, in rising order; gaps (compaction, control records) are fine.
   * False when this offset was passed before: the message is in flight or settled, and must not be delivered again.
   */
  take(offset: number): boolean
  /** The message is settled. An offset that is not in flight changes nothing. */
  settle(offset: number): void
  /** Nothing below `next` is still to come: lets the mark pass offsets at the end that held no message. */
  reach(next: number): void
  /** The next offset to commit: everything below is settled. Undefined until something was taken or reached. */
  readonly mark: number | undefined
  /** The lowest offset that was not seen yet, where fetching goes on. Undefined like `mark`. */
  readonly next: number | undefined
  readonly settledAboveMark: number
}

export interface CountingTracker extends OffsetTracker {
  /** Messages that were taken and are not settled. */
  readonly inFlight: number
}

/** `maxBehindMark`: offsets that its list may keep behind the mark before they are removed. */
export function createOffsetTracker(maxBehindMark: number = maxSettledAboveMark): CountingTracker {
  const unsettled = new Set<number>()
  // Offsets from the mark on, as they were taken; those before `head` are behind the mark.
  let taken: number[] = []
  let head = 0
  let next: number | undefined

  return {
    take(offset) {
      if (next !== undefined && offset < next) return false
      next = offset + 1
      taken.push(offset)
      unsettled.add(offset)
      return true
    },
    settle(offset) {
      if (!unsettled.delete(offset)) return
      while (head < taken.length && !unsettled.has(taken[head]!)) head++
      if (head === taken.length || head > maxBehindMark) {
        taken = taken.slice(head)
        head = 0
      }
    },
    reach(offset) {
      if (next === undefined || offset > next) next = offset
    },
    get mark() {
      return taken[head] ?? next
    },
    get next() {
      return next
    },
    get inFlight() {
      return unsettled.size
    },
    get settledAboveMark() {
      return taken.length - head - unsettled.size
    },
  }
}

/** For a broker that stores every acknowledgement by itself: there is no mark, and nothing is above it. */
export function createUnorderedTracker(): OffsetTracker {
  return {
    take: () => true,
    settle() {},
    reach() {},
    mark: undefined,
    next: undefined,
    settledAboveMark: 0,
  }
}
