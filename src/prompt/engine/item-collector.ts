// What a run has found so far: items, each handed on once over all calls of the run, and the rejected records, with counts.
import type { ItemEvent } from '../../items/item.ts'
import { fingerprint } from '../../items/value.ts'
import type { GroundingInit } from '../../messages/generated.ts'
import type { RejectedRecord } from './reask.ts'
import type { ReplyEvent } from './reply.ts'

/** Items that are remembered, at most, to recognize repeats. */
const maxKnown = 100_000
/** Rejections that are listed, at most; the others are only counted. */
const maxListed = 10_000

export type ItemFound = Extract<ItemEvent, { type: 'item' }>

export class ItemCollector {
  accepted = 0
  repaired = 0
  /** Accepted items equal to an earlier one of the same call. */
  duplicates = 0
  /** Accepted items that came back valid when the model was asked again. */
  reasked = 0
  readonly rejections: RejectedRecord[] = []
  /** The counts of the rejections that are not listed, by reason. */
  readonly #unlisted: Record<string, number> = {}
  #unlistedCount = 0
  /** The call that gave an item first, by the item's fingerprint. */
  readonly #known = new Map<number, number>()
  #call = 0

  get rejected(): number {
    return this.rejections.length + this.#unlistedCount
  }

  /** All rejections, by reason. */
  counts(): Record<string, number> {
    const counts = { ...this.#unlisted }
    for (const { reason } of this.rejections) counts[reason] = (counts[reason] ?? 0) + 1
    return counts
  }

  /** Call it before each call: the items so far are then items of an earlier call. */
  nextCall(): void {
    this.#call++
  }

  /** Whether an equal item is known. From now on this one is. `print` is its fingerprint, when that is known already. */
  know(item: unknown, print = fingerprint(item)): 'new' | 'repeated' | 'from an earlier call' {
    const before = this.#known.get(print)
    if (before !== undefined) return before === this.#call ? 'repeated' : 'from an earlier call'
    if (this.#known.size < maxKnown) this.#known.set(print, this.#call)
    return 'new'
  }

  /** Counts the item and returns its reply event. */
  accept({ value, repairs }: ItemFound, grounding?: GroundingInit): Extract<ReplyEvent, { type: 'item' }> {
    this.accepted++
    if (repairs.length > 0) this.repaired++
    const item = { type: 'item', json: JSON.stringify(value), rejected: this.rejected } as const
    return grounding ? { ...item, grounding } : item
  }

  reject({ reason, line, text, message, record }: RejectedRecord): void {
    if (this.rejections.length < maxListed) {
      this.rejections.push({ reason, line, text, message, record })
      return
    }
    this.#unlisted[reason] = (this.#unlisted[reason] ?? 0) + 1
    this.#unlistedCount++
  }

  /** Takes a rejection back: the record came back valid. */
  corrected(rejection: RejectedRecord): void {
    this.reasked++
    const at = this.rejections.indexOf(rejection)
    if (at >= 0) this.rejections.splice(at, 1)
  }

  /** Takes `count` rejections back, from the one at `first`: the model has written these lines again. */
  forgetRejections(first: number, count: number): void {
    this.rejections.splice(first, count)
  }
}
