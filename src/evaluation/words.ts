// How texts are compared: by a normal form for equality, and by the words of grounding for what stands in a text.
import { wordsOf } from '../grounding/words.ts'

/** What may end a text without changing what it says. */
const closing = new Set('.,;:!?…。、，；：！？')

/** Unicode NFKC, lower case, single blanks, without punctuation at the end: equal for texts that count as equal. */
export function normalText(text: string): string {
  const plain = text.normalize('NFKC').toLowerCase().replaceAll(/\s+/g, ' ').trim()
  let end = plain.length
  while (end > 0 && (closing.has(plain[end - 1]!) || plain[end - 1] === ' ')) end--
  // A text of nothing but punctuation stays what it is.
  return end === 0 ? plain : plain.slice(0, end)
}

const keysOf = (text: string) => wordsOf(text).map(({ key }) => key)

/** Whether the words of a name stand in the text, next to each other and in their order. A name without words always does. */
export function createWordSearch(text: string): (name: string) => boolean {
  const all = ` ${keysOf(text).join(' ')} `
  return (name) => {
    const words = keysOf(name)
    return words.length === 0 || all.includes(` ${words.join(' ')} `)
  }
}

/** The F1 of the words of two texts, from 0 to 1; order does not count. */
export function wordOverlap(one: string, other: string): number {
  const [left, right] = [keysOf(one), keysOf(other)]
  if (left.length === 0 || right.length === 0) return normalText(one) === normalText(other) ? 1 : 0
  const counts = new Map<string, number>()
  for (const each of left) counts.set(each, (counts.get(each) ?? 0) + 1)
  let shared = 0
  for (const each of right) {
    const left = counts.get(each) ?? 0
    if (left > 0) shared++
    counts.set(each, left - 1)
  }
  return (2 * shared) / (left.length + right.length)
}
