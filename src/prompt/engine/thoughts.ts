// Items that left before the model marked them as thoughts, by a lone `</think>`. What has left cannot be called back: what the
// answer repeats is confirmed, and the rest is reported.
import { excerptOf } from '../../items/excerpt.ts'
import type { ItemEvent, ItemsParser } from '../../items/item.ts'
import { fingerprint } from '../../items/value.ts'
import type { Refused } from './reask.ts'

type ItemFound = Extract<ItemEvent, { type: 'item' }>

/** Items of a call that are remembered, at most, in case they turn out to be thoughts. */
const mostGiven = 10_000

export interface ThoughtWatch {
  /** Whether the item at `place` of the call is an answer that repeats a thought. */
  confirms(item: ItemFound, place: number): boolean
  /** The item at `place` of the call has left as `json`. */
  leave(item: ItemFound, place: number, json: string): void
  /** The thoughts that left and that the answer did not repeat. */
  unconfirmed(): Refused[]
}

export function watchThoughts(parser: Pick<ItemsParser, 'thoughts'>): ThoughtWatch {
  /** By the item's print; `place` is that of its latest occurrence. */
  const given = new Map<number, { readonly place: number; readonly line: number; readonly text: string }>()
  const isThought = (place: number) => place < parser.thoughts.items

  return {
    confirms({ value }, place) {
      if (parser.thoughts.items === 0 || isThought(place)) return false
      const earlier = given.get(fingerprint(value))
      return earlier !== undefined && isThought(earlier.place)
    },
    leave({ value, line }, place, json) {
      const print = fingerprint(value)
      if (given.size < mostGiven || given.has(print)) given.set(print, { place, line, text: excerptOf(json) })
    },
    unconfirmed() {
      const message = 'It had left as an item before the model marked it as a thought.'
      return [...given.values()]
        .filter(({ place }) => isThought(place))
        .map(({ line, text }) => ({ reason: 'thought', line, text, message }))
    },
  }
}
