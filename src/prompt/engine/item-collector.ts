// What a run has found so far: items, each handed on once over all calls of the run, and the rejected records, with counts.
import type { ItemEvent } from '../../items/item.ts'
import { fingerprint } from '../../items/value.ts'
import type { RejectedRecord } from './reask.ts'
import type { ReplyEvent } from './reply.ts'

/** Items that are remembered, at most, to recognize repeats. */
const maxKnown = 100_000
/** Rejections that are listed, at most; the others are only counted. */
const maxListed = 10_000

export type ItemFound = Extract<ItemEvent, { type: 'item' }>

export interface ItemCollector {
  accepted: number
  repaired: number
  /** Accepted items equal to an earlier one of the same call. */
  duplicates: number
  /** Accepted items that came back valid when the model was asked again. */
  reasked: number
  /** How many were rejected. */
  readonly rejected: number
  readonly rejections: readonly RejectedRecord[]
  /** All of them, by reason. */
  counts(): Record<string, number>
  /** Call it before each call: the items so far are then items of an earlier call. */
  nextCall(): void
  /** Whether an equal item is known. From now on this one is. `print` is its fingerprint, when that is known already. */
  know(item: unknown, print?: number): 'new' | 'repeated' | 'from an earlier call'
  /** Counts the item and returns its reply event. */
  accept(item: ItemFound): Extract<ReplyEvent, { type: 'item' }>
  reject(rejection: RejectedRecord): void
  /** Takes a rejection back: the record came back valid. */
  corrected(rejection: RejectedRecord): void
  /** Takes `count` rejections back, from the one at `first`: the model has written these lines again. */
  forgetRejections(first: number, count: number): void
}

export function createItemCollector(): ItemCollector {
  /** The call that gave an item first, by the item's print. */
  const known = new Map<number, number>()
  const rejections: RejectedRecord[] = []
  const unlisted: Record<string, number> = {}
  let unlistedCount = 0
  let call = 0

  const collector: ItemCollector = {
    accepted: 0,
    repaired: 0,
    duplicates: 0,
    reasked: 0,
    rejections,
    get rejected() {
      return rejections.length + unlistedCount
    },
    counts() {
      const counts = { ...unlisted }
      for (const { reason } of rejections) counts[reason] = (counts[reason] ?? 0) + 1
      return counts
    },
    nextCall() {
      call++
    },
    know(item, print = fingerprint(item)) {
      const before = known.get(print)
      if (before === undefined) {
        if (known.size < maxKnown) known.set(print, call)
        return 'new'
      }
      return before === call ? 'repeated' : 'from an earlier call'
    },
    accept({ value, repairs }) {
      collector.accepted++
      if (repairs.length > 0) collector.repaired++
      return { type: 'item', json: JSON.stringify(value), rejected: collector.rejected }
    },
    reject({ reason, line, text, message, record }) {
      if (rejections.length < maxListed) {
        rejections.push({ reason, line, text, message, record })
        return
      }
      unlisted[reason] = (unlisted[reason] ?? 0) + 1
      unlistedCount++
    },
    corrected(rejection) {
      collector.reasked++
      const at = rejections.indexOf(rejection)
      if (at >= 0) rejections.splice(at, 1)
    },
    forgetRejections(first, count) {
      rejections.splice(first, count)
    },
  }
  return collector
}
