// What a model would extract from a chunk, without a model: items made of the chunk's own words and of a hash of it,
// so that two executions over the same chunks give the same triples, and other chunks give others.
import { createHash } from 'node:crypto'

export type ExtractionKind = 'definitions' | 'relationships' | 'topics'

const predicates = ['is part of', 'causes', 'precedes', 'was built by', 'contains', 'differs from']

/** JSON Lines of one kind for a chunk: 3 to 6 items, fewer where the chunk has fewer words; empty for a chunk without words. */
export function extractionReply(kind: ExtractionKind, text: string): string {
  const words = [...new Set(text.match(/\p{L}[\p{L}'-]{3,}/gu) ?? [])]
  const hash = createHash('sha256').update(kind).update('\0').update(text).digest()
  const count = Math.min(3 + (hash[0]! % 4), words.length)
  const word = (n: number) => words[hash.readUInt16BE(2 + (n % 14) * 2) % words.length]!
  const items = Array.from({ length: count }, (_, n) => item(kind, word(n), word(n + 7), hash[n + 16]!, text))
  return items.map((value) => `${JSON.stringify(value)}\n`).join('')
}

function item(kind: ExtractionKind, word: string, other: string, byte: number, text: string): object {
  switch (kind) {
    case 'definitions':
      return { entity: word, definition: sentence(text, word) }
    case 'topics':
      return { topic: word, definition: sentence(text, word) }
    case 'relationships':
      return {
        subject: word,
        predicate: predicates[byte % predicates.length]!,
        object: other,
        'object-entity': byte % 2 === 0,
      }
  }
}

/** The sentence that holds the word, at most 200 characters. */
function sentence(text: string, word: string): string {
  const at = text.indexOf(word)
  const start = Math.max(text.lastIndexOf('. ', at) + 1, 0)
  const end = text.indexOf('. ', at)
  return text
    .slice(start, end < 0 ? undefined : end + 1)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 200)
}

/** What a prompt asks for, from the keys that its instructions (the prompt without the chunk) name; undefined for others. */
export function guessExtraction(instructions: string): ExtractionKind | undefined {
  if (/object-entity|"predicate"/.test(instructions)) return 'relationships'
  if (/"topic"|\btopics\b/i.test(instructions)) return 'topics'
  if (/"entity"|\bdefinitions?\b/i.test(instructions)) return 'definitions'
  return undefined
}
