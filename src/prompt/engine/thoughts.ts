// Items that left before the model marked them as thoughts, by a lone `</think>`. What has left cannot be called back: what the
// answer repeats is confirmed, and the rest is reported.
import { excerptOf } from '../../items/excerpt.ts'
import type { ItemsParser } from '../../items/item.ts'
import type { Refused } from './reask.ts'

/** Items of a call that are remembered, at most, in case they turn out to be thoughts. */
const mostGiven = 10_000

/** An item that has left. */
interface Given {
  /** Its place among the items of the call. */
  readonly place: number
  readonly line: number
  readonly text: string
}

export interface ThoughtWatch {
  /** Whether the item with this fingerprint, at `place` of the call, is an answer that repeats a thought. */
  confirms(print: number, place: number): boolean
  /** An item has left. */
  leave(print: number, item: Given): void
  /** The thoughts that left and that the answer did not repeat. */
  unconfirmed(): Refused[]
}

export function watchThoughts(parser: Pick<ItemsParser, 'thoughts'>): ThoughtWatch {
  /** The latest of equal items. */
  const given = new Map<number, Given>()
  const isThought = (place: number) => place < parser.thoughts.items

  return {
    confirms(print, place) {
      const earlier = isThought(place) ? undefined : given.get(print)
      return earlier !== undefined && isThought(earlier.place)
    },
    leave(print, item) {
      if (given.size < mostGiven || given.has(print)) given.set(print, item)
    },
    unconfirmed() {
      const message = 'It had left as an item before the model marked it as a thought.'
      return [...given.values()]
        .filter(({ place }) => isThought(place))
        .map(({ line, text }) => ({ reason: 'thought', line, text: excerptOf(text), message }))
    },
  }
}
