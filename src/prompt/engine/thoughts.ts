// Thoughts inside the text of a reply. Items may have left before a lone `</think>` marks them as thoughts: they cannot be
// taken back, so those that the answer repeats are confirmed, and the others are reported.
import { excerptOf } from '../../items/excerpt.ts'
import type { ItemsParser } from '../../items/item.ts'
import type { RejectedRecord } from './reask.ts'

/** Items of a call that are remembered, at most, in case they turn out to be thoughts. */
const maxLeft = 10_000

/** An item that has left. */
interface LeftItem {
  /** Its place among the items of the call. */
  readonly place: number
  readonly line: number
  readonly text: string
}

/** Watches which of the items that left were thoughts. */
export function watchThoughts(parser: Pick<ItemsParser, 'thoughts'>) {
  /** The latest of equal items. */
  const left = new Map<number, LeftItem>()
  const isThought = (place: number) => place < parser.thoughts.items

  return {
    /** Whether the item with this fingerprint, at `place` of the call, is an answer that repeats a thought. */
    confirms(print: number, place: number): boolean {
      const earlier = isThought(place) ? undefined : left.get(print)
      return earlier !== undefined && isThought(earlier.place)
    },
    /** Call it for every item that leaves. */
    leave(print: number, item: LeftItem): void {
      if (left.size < maxLeft || left.has(print)) left.set(print, item)
    },
    /** The thoughts that left and that the answer did not repeat. */
    unconfirmed(): RejectedRecord[] {
      const message = 'It had left as an item before the model marked it as a thought.'
      return [...left.values()]
        .filter(({ place }) => isThought(place))
        .map(({ line, text }) => ({ reason: 'thought', line, text: excerptOf(text), message }))
    },
  }
}
