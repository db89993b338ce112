// What the `offline` model finds in a chunk, by prompt. Equal texts give equal items in the same order.
import { definitionsOf } from './definitions.ts'
import { sentences } from './phrases.ts'
import { relationshipsOf } from './relationships.ts'
import { topicsOf } from './topics.ts'

/** By the id of the prompt. */
export const extractions: Readonly<Record<string, (text: string) => readonly object[]>> = {
  'extract-definitions': (text) => distinct(sentences(text).flatMap(definitionsOf), ({ entity }) => entity),
  'extract-relationships': (text) =>
    distinct(sentences(text).flatMap(relationshipsOf), (item) => JSON.stringify(Object.values(item))),
  'extract-topics': (text) => topicsOf(sentences(text)),
}

/** The first item of each key, in order. */
function distinct<T>(items: readonly T[], key: (item: T) => string): T[] {
  const first = new Map<string, T>()
  for (const item of items) {
    const name = key(item).toLowerCase()
    if (!first.has(name)) first.set(name, item)
  }
  return [...first.values()]
}
