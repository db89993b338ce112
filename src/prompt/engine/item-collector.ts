// What a run has found so far: items, each handed on once over all calls of the run, and what was rejected, with counts.
import type { ItemEvent } from '../../items/item.ts'
import { fingerprint } from '../../items/value.ts'
import type { Refused } from './reask.ts'
import type { ReplyEvent } from './reply.ts'

/** Items that are remembered, at most, to know them again. */
const mostKnown = 100_000
/** Rejections that are told one by one, at most; the others are only counted. */
const mostTold = 10_000

type ItemFound = Extract<ItemEvent, { type: 'item' }>

export interface ItemCollector {
  accepted: number
  repaired: number
  /** Accepted items equal to an earlier one of the same call. */
  duplicates: number
  /** Accepted items that came back valid. */
  reasked: number
  /** How many were rejected. */
  readonly rejected: number
  readonly rejections: readonly Refused[]
  /** All of them, by reason. */
  counts(): Record<string, number>
  /** A further call begins: from now on the items of those before are known ones. */
  nextCall(): void
  /** Whether an equal item is known; and from now on this one is. `print` is its fingerprint, where that is known already. */
  know(item: unknown, print?: number): 'new' | 'repeated' | 'from an earlier call'
  /** Counts an item in, and gives the piece of the reply that it is. */
  accept(item: ItemFound): Extract<ReplyEvent, { type: 'item' }>
  reject(rejection: Refused): void
  /** Takes a rejection back: its item came back valid. */
  mended(rejection: Refused): void
  /** Takes `count` rejections back, from the one at `first`: their lines were written anew. */
  forgetRejections(first: number, count: number): void
}

export function createItemCollector(): ItemCollector {
  /** The call that gave an item first, by the item's print. */
  const known = new Map<number, number>()
  const rejections: Refused[] = []
  const untold: Record<string, number> = {}
  let untoldCount = 0
  let call = 0

  const collector: ItemCollector = {
    accepted: 0,
    repaired: 0,
    duplicates: 0,
    reasked: 0,
    rejections,
    get rejected() {
      return rejections.length + untoldCount
    },
    counts() {
      const counts = { ...untold }
      for (const { reason } of rejections) counts[reason] = (counts[reason] ?? 0) + 1
      return counts
    },
    nextCall() {
      call++
    },
    know(item, print = fingerprint(item)) {
      const before = known.get(print)
      if (before === undefined) {
        if (known.size < mostKnown) known.set(print, call)
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
      if (rejections.length < mostTold) {
        rejections.push({ reason, line, text, message, record })
        return
      }
      untold[reason] = (untold[reason] ?? 0) + 1
      untoldCount++
    },
    mended(rejection) {
      const at = rejections.indexOf(rejection)
      if (at >= 0) rejections.splice(at, 1)
    },
    forgetRejections(first, count) {
      rejections.splice(first, count)
    },
  }
  return collector
}
