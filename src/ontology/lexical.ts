// Ranks elements by the words that they share with a text (BM25), for flows without embeddings.
import MiniSearch from 'minisearch'
import { compare } from './builder.ts'
import type { ListedElement } from './element-list.ts'

/** Elements of a ranking, at most. */
export const maxRanked = 1000

/** Names weigh more than comments. */
const boost = { name: 3, comment: 1 }

/** Matches that one search visits, approximately: this keeps it to a few milliseconds. */
const maxMatches = 6000

/** Ranks elements for a text: their indices, best first; ties in the order of the list. */
export type Ranking = (text: string) => readonly number[]

export function createLexicalRanking(elements: readonly ListedElement[]): Ranking {
  /** By word, the number of elements that have it. */
  const spread = new Map<string, number>()
  const index = new MiniSearch<{ id: number; name: string; comment: string }>({
    fields: ['name', 'comment'],
    tokenize: (text) => text.split(' '),
    processTerm: (word) => word,
  })
  for (const [id, { element }] of elements.entries()) {
    const name = words([element.name, element.label ?? '', ...element.synonyms].join(' '))
    const comment = words(element.comment ?? '')
    for (const word of new Set([...name, ...comment])) spread.set(word, (spread.get(word) ?? 0) + 1)
    index.add({ id, name: name.join(' '), comment: comment.join(' ') })
  }

  /** The words of a text that the ontology has, the rarest first; common ones only as long as they are few. */
  function tellingWords(text: string): string[] {
    const known = [...new Set(words(text))].filter((word) => spread.has(word))
    known.sort((a, b) => spread.get(a)! - spread.get(b)! || compare(a, b))
    let matches = 0
    return known.filter((word) => {
      const fits = matches === 0 || matches + spread.get(word)! <= maxMatches
      if (fits) matches += spread.get(word)!
      return fits
    })
  }

  return (text) =>
    index
      .search(tellingWords(text).join(' '), { boost, combineWith: 'OR' })
      .map(({ id, score }) => ({ id: id as number, score }))
      .sort((a, b) => b.score - a.score || a.id - b.id)
      .slice(0, maxRanked)
      .map(({ id }) => id)
}

/** English words that say nothing about the subject of a text. */
const stopWords = new Set(
  'a an and any are as at be been but by can each for from had has have he her his how if in into is it its may more no not of on one or other our she so some such than that the their them then there these they this to was we were what when which who will with would you'.split(
    ' ',
  ),
)

/** The words of a text or a name: `designedBy` is two. Lower case, without accents and English plurals. */
export function words(text: string): string[] {
  const parts =
    text
      .replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
      .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
      .match(/[\p{L}\p{N}\p{M}]+/gu) ?? []
  return parts
    .map((word) => singular(word.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()))
    .filter((word) => word !== '' && !stopWords.has(word) && (word.length > 1 || /[^a-z0-9]/.test(word)))
}

function singular(word: string): string {
  if (word.length < 4 || !/[^su]s$/.test(word)) return word
  if (word.endsWith('ies')) return `${word.slice(0, -3)}y`
  return /(?:ch|sh|x|z|ss)es$/.test(word) ? word.slice(0, -2) : word.slice(0, -1)
}
