// Definitions, by "X is a Y" and by "X, a Y,".
import { articles, beginsClause, clausesOf, phraseEndingAt, relatives, subordinators } from './clauses.ts'
import {
  isPronoun,
  joined,
  nounPhraseAt,
  prepositions,
  type Sentence,
  type VerbGroup,
  type Word,
} from './phrases.ts'

export interface DefinitionItem {
  readonly entity: string
  readonly definition: string
}

/** The definitions of a sentence, in order. */
export function definitionsOf({ words }: Sentence): DefinitionItem[] {
  const items = clausesOf(words).flatMap(({ subjects, verb }) => {
    const complement = nounPhraseAt(words, verb.end)
    if (!verb.isCopula || verb.isNegative || subjects.length !== 1 || !complement || complement.isValue)
      return []
    if (!articles.has(complement.determiner) && !(complement.determiner === '' && complement.isPlural))
      return []
    // `a block that is a file` defines no block; `Water, which is a compound, ...` defines water.
    if (relatives.has(words[verb.start - 1]?.lower ?? '') && !words[verb.start - 2]?.comma) return []
    const definition = restOf(words, verb)
    return prepositions.has(/\S+$/.exec(definition)![0]) ? [] : [{ entity: subjects[0]!.name, definition }]
  })
  return [...items, ...appositions(words)]
}

/** Andrew Meikle, a Scottish engineer, ... */
function appositions(words: readonly Word[]): DefinitionItem[] {
  return words.flatMap(({ comma, tags }, at) => {
    if (!comma || !tags.has('ProperNoun') || !articles.has(words[at + 1]?.lower ?? '')) return []
    const entity = phraseEndingAt(words, at + 1)
    const closing = words.findIndex(({ stop }, n) => n > at && stop)
    const end = closing < 0 ? words.length : closing + 1
    const closed = end === words.length || words[end - 1]!.comma
    if (!entity?.speaks || entity.isValue || !/^\p{Lu}/u.test(entity.name)) return []
    if (!closed || nextIsAnd(words, end) || isClause(words, at + 1, end)) return []
    return [{ entity: entity.name, definition: joined(words.slice(at + 1, end)) }]
  })
}

/** Whether a noun phrase has a verb of its own, without a relative pronoun. */
function isClause(words: readonly Word[], start: number, end: number): boolean {
  const phrase = nounPhraseAt(words, start)
  return !phrase || (phrase.end < end && beginsClause(words, phrase.end))
}

/** Whether what looks like an aside is a part of a list: `and` follows its comma. */
function nextIsAnd(words: readonly Word[], at: number): boolean {
  return words[at]?.lower === 'and' || words[at]?.lower === 'or'
}

/** The words up to the end of the sentence, or of the verb's clause. */
function restOf(words: readonly Word[], { start, end }: VerbGroup): string {
  const isRelative = relatives.has(words[start - 1]?.lower ?? '')
  const last = words.findIndex(
    ({ stop, comma }, at) => at >= end && stop && (isRelative || !comma || beginsNextClause(words, at + 1)),
  )
  return joined(words.slice(end, last < 0 ? undefined : last + 1))
}

const conjunctions = new Set(['and', 'but', 'or', 'so', 'yet', 'while', 'whereas', 'for'])

/** Whether another clause begins, such as `and when you …` or `but every stone is …`, and not the next item of a list. */
function beginsNextClause(words: readonly Word[], at: number): boolean {
  const next = words[at + 1]
  if (!next || !conjunctions.has(words[at]?.lower ?? '')) return false
  if (isPronoun(next) || subordinators.has(next.lower)) return true
  const stop = words.findIndex((word, n) => n > at && word.stop)
  const clause = words.slice(at + 1, stop < 0 ? undefined : stop + 1)
  return !next.tags.has('Verb') && clause.some(({ tags }) => tags.has('Verb') && !tags.has('Gerund'))
}
