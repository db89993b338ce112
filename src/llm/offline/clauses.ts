// Clauses: which subject a verb of a sentence has. A subject that only refers to something else (it, this fact, my brother) gives
// no clause.
import {
  isPronoun,
  type NounPhrase,
  nounPhraseAt,
  prepositions,
  type VerbGroup,
  verbGroupAt,
  type Word,
} from './phrases.ts'
import { wordSet } from './word-set.ts'

/** Subjects and what they do, with their places in the sentence. */
export interface Clause {
  readonly subjects: readonly NounPhrase[]
  readonly verb: VerbGroup
}

/** The clauses of a sentence, except those whose subject is a reference. */
export function clausesOf(words: readonly Word[]): Clause[] {
  const clauses: Clause[] = []
  for (let at = 0; at < words.length; at++) {
    const verb = startsVerb(words, at) ? verbGroupAt(words, at) : undefined
    if (!verb) continue
    const subjects = subjectsBefore(words, verb.start, clauses)
    if (subjects.length > 0) clauses.push({ subjects, verb })
    at = verb.end - 1
  }
  return clauses
}

function startsVerb(words: readonly Word[], at: number): boolean {
  const { tags } = words[at]!
  return tags.has('Verb') || tags.has('Adverb') || tags.has('Auxiliary')
}

export const relatives = new Set(['that', 'which', 'who'])

/** Words that begin another clause. */
export const subordinators = wordSet(`
  that because since while when where if although though so until unless whereas after before as
  than and but or yet once
`)

function subjectsBefore(
  words: readonly Word[],
  at: number,
  earlier: readonly Clause[],
): readonly NounPhrase[] {
  const previous = words[at - 1]
  if (!previous) return []
  if (relatives.has(previous.lower) && at >= 2) return antecedents(words, at - 1, earlier)
  if (previous.stop && !previous.comma) return []
  // An aside between commas: Andrew Meikle, a Scottish engineer, invented ...
  const whole = previous.comma ? asideBefore(words, at) : phraseEndingAt(words, at)
  if (!whole) return []
  const first = wholeSubject(words, whole)
  if (!first) return []
  const before = words[first.start - 1]
  const other = before?.lower === 'and' ? phraseEndingAt(words, first.start - 1) : undefined
  const both = other && standsFree(words, other.start) ? [other, first] : [first]
  if (!other && before && !standsFree(words, first.start)) return []
  return both.filter(({ speaks, isValue }) => speaks && !isValue)
}

/** The subjects of a relative clause: the phrase before `that`, or the subject of which that phrase is the complement. */
function antecedents(
  words: readonly Word[],
  relative: number,
  earlier: readonly Clause[],
): readonly NounPhrase[] {
  const antecedent = phraseEndingAt(words, relative)
  if (!antecedent) return []
  const copula = earlier.find(
    ({ verb }) => verb.isCopula && !verb.isNegative && verb.end === antecedent.start,
  )
  if (copula) return copula.subjects
  return antecedent.speaks && !antecedent.isValue ? [antecedent] : []
}

/** The longest noun phrase that ends just before `end`. */
export function phraseEndingAt(words: readonly Word[], end: number): NounPhrase | undefined {
  let found: NounPhrase | undefined
  for (let start = end - 1; start >= Math.max(0, end - 12); start--) {
    if (start < end - 1 && words[start]!.stop) break
    const candidate = nounPhraseAt(words, start)
    if (candidate?.end === end) found = candidate
  }
  return found
}

/** Words. */
const longestAside = 25

function asideBefore(words: readonly Word[], end: number): NounPhrase | undefined {
  for (let at = end - 2; at >= Math.max(0, end - longestAside); at--) {
    if (!words[at]!.stop) continue
    if (!words[at]!.comma) return undefined
    const aside = words.slice(at + 1, end)
    const begins =
      relatives.has(aside[0]!.lower) ||
      isPreposition(aside[0]!) ||
      articles.has(aside[0]!.lower) ||
      nounPhraseAt(words, at + 1)?.end === end
    return begins ? phraseEndingAt(words, at + 1) : undefined
  }
  return undefined
}

const placing = wordSet('at in on from near with for between under above')

/** The phrase with its place, as in `the mill at Outwood`; undefined if it only follows a preposition. */
function wholeSubject(words: readonly Word[], last: NounPhrase): NounPhrase | undefined {
  const preposition = words[last.start - 1]
  if (!preposition?.tags.has('Preposition') || subordinators.has(preposition.lower)) return last
  if (!placing.has(preposition.lower) || preposition.stop) return undefined
  const head = phraseEndingAt(words, last.start - 1)
  if (!head || words[head.end - 1]!.stop) return undefined
  const outer = wholeSubject(words, head)
  if (!outer) return undefined
  const isName = words[last.end - 1]!.tags.has('ProperNoun')
  return isName && outer === head ? { ...head, name: `${head.name} ${preposition.text} ${last.name}` } : outer
}

/** Whether a phrase is no object of what precedes it: it begins the sentence or a clause, or follows a comma. */
function standsFree(words: readonly Word[], start: number): boolean {
  const before = words[start - 1]
  if (!before || before.stop || subordinators.has(before.lower)) return true
  return before.tags.has('Adverb') || before.tags.has('Conjunction') || isNounBefore(before)
}

/** Whether two phrases stand side by side: In a tower mill | the cap turns. */
function isNounBefore(word: Word): boolean {
  return word.tags.has('Noun') && !isPronoun(word)
}

export const articles = new Set(['a', 'an', 'the'])

export function isPreposition({ tags, lower, text }: Word): boolean {
  return text === lower && (prepositions.has(lower) || (tags.has('Preposition') && !subordinators.has(lower)))
}

/** Whether a noun phrase that ends at `end` is the subject of the next clause: a verb follows it. */
export function beginsClause(words: readonly Word[], end: number): boolean {
  return words[end] !== undefined && !words[end - 1]!.stop && startsVerb(words, end)
}
