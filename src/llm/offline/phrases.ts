// English sentences as noun phrases and verb groups: a small grammar over the part-of-speech tags of `compromise`. What it does
// not understand is left out.
import nlp from 'compromise'
import { isProse, proseOf } from './prose.ts'
import { wordSet } from './word-set.ts'

export interface Word {
  /** Without the punctuation around it. */
  readonly text: string
  readonly lower: string
  readonly tags: ReadonlySet<string>
  /** Punctuation separates this word from the next. */
  readonly stop: boolean
  /** That punctuation is a single comma. */
  readonly comma: boolean
}

export interface Sentence {
  readonly words: readonly Word[]
}

/** Words of a sentence from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number
  readonly end: number
}

export interface NounPhrase extends Span {
  /** Without determiners. */
  readonly name: string
  /** The determiner in lower case, or ''. */
  readonly determiner: string
  /** It names something itself, unlike a pronoun or `this fact`. */
  readonly speaks: boolean
  /** A number, a date, an amount. */
  readonly isValue: boolean
  readonly isPlural: boolean
}

export interface VerbGroup extends Span {
  /** In lower case, without adverbs: `was built`, `does not move`. */
  readonly verb: string
  readonly isCopula: boolean
  readonly isNegative: boolean
}

/** Prepositions that the tagger sometimes misses. */
export const prepositions: ReadonlySet<string> = wordSet(`
  above across against along among around at behind below beneath beside between beyond by down for
  from in inside into near of off on onto over past through to toward towards under upon with within
  without
`)

interface TaggedTerm {
  readonly text: string
  readonly pre: string
  readonly post: string
  readonly tags: readonly string[]
}

/** The sentences of the English prose in a text, in order. */
export function sentences(text: string): Sentence[] {
  const prose = proseOf(text)
  const small = new Set(prose.match(/(?<![\p{L}'’-])\p{Ll}[\p{L}'’-]*/gu))
  const parsed = nlp(prose).json({ offset: false, normal: false }) as { text: string; terms: TaggedTerm[] }[]
  return parsed
    .filter(({ text }) => isProse(text))
    .map(({ terms }) => ({
      words: terms.map((term, index, all) => word(term, index, all, small)).filter(({ text }) => text !== ''),
    }))
}

function word(term: TaggedTerm, index: number, all: readonly TaggedTerm[], small: ReadonlySet<string>): Word {
  const next = all[index + 1]
  const between = `${term.post}${next?.pre ?? ''}`.trim()
  const tags = new Set(term.tags)
  const lower = term.text.toLowerCase()
  const before = all[index - 1]?.tags
  // `contain carbonate of`: the second of two verbs is a noun if `of` follows.
  const isObject =
    next?.text === 'of' &&
    tags.has('Verb') &&
    before?.includes('Verb') &&
    !before.includes('Auxiliary') &&
    !tags.has('PastTense')
  // `loathed every`: the tagger takes an unknown verb for a noun.
  const isPast =
    tags.has('Noun') && !tags.has('ProperNoun') && /[^e]ed$/.test(lower) && next?.tags.includes('Determiner')
  // The capital of a sentence's first word is not its own.
  const common =
    !tags.has('ProperNoun') && ['Plural', 'Uncountable', 'Adjective'].some((tag) => tags.has(tag))
  const isTitle = next !== undefined && /^\p{Lu}/u.test(next.text)
  const isCapitalised = /^\p{Lu}[^\p{Lu}]*$/u.test(term.text)
  const text = index === 0 && isCapitalised && !isTitle && (common || small.has(lower)) ? lower : term.text
  const isHyphen = term.post === '-'
  return {
    text: isHyphen ? `${text}-` : text,
    lower,
    tags: isPast ? new Set(['Verb', 'PastTense']) : isObject ? new Set(['Noun', 'Singular']) : tags,
    stop: between !== '' && !isHyphen,
    comma: between === ',',
  }
}

/** The text of several words. */
export function joined(words: readonly Word[]): string {
  return words
    .map(({ text, comma }, n) => (comma && n < words.length - 1 ? `${text},` : text))
    .join(' ')
    .replaceAll('- ', '-')
}

const pointing = wordSet('this that these those such no neither what which whose another other same')
const owning = wordSet("my your his her its our their whose one's")
const leading = wordSet(
  'the a an all both each every some any many several most certain few more much own various only',
)
const quantities = wordSet('most some many all much several both each one part half few')
const vague = wordSet(`
  thing things something anything everything nothing someone anyone everyone nobody one ones other
  others way ways fact facts time times case cases lot kind sort part parts it there here such same
  all half first second last rest most some many few several both each none much course means manner
  end side who which what that question reason result example point number well day days moment
`)

/** The noun phrase that begins at a word, if one does. */
export function nounPhraseAt(words: readonly Word[], start: number): NounPhrase | undefined {
  // `most of the power` is called power.
  const counted = quantities.has(words[start]?.lower ?? '') && words[start + 1]?.lower === 'of'
  const core = coreAt(words, counted ? start + 2 : start)
  if (!core) return undefined
  let { end } = core
  // `of` joins the next phrase to this one, at most twice: the tail of the horse of the king.
  for (let n = 0; n < 2 && words[end]?.lower === 'of' && !words[end - 1]!.stop; n++) {
    const next = coreAt(words, end + 1)
    if (!next || words.slice(next.start, next.end).some(isReference)) break
    end = next.end
  }
  return phrase(words, start, end, core)
}

const bodies = wordSet(`
  railway railways railroad company companies bank society university college canal museum institute association council
  party union trust office corporation agency league church orchestra theatre tramway co sons brothers partners
`)

/** Whether the `and` at a place is a part of a name: the Liverpool and Manchester Railway, Stephenson and Company. */
function joinsNames(words: readonly Word[], start: number, and: number): boolean {
  if (words[and]?.lower !== 'and' || words[and]!.stop || bodies.has(words[and - 1]!.lower)) return false
  let end = and + 1
  while (isCapital(words[end]) && !words[end]!.stop && !bodies.has(words[end]!.lower)) end += 1
  const isBody = isCapital(words[end]) && bodies.has(words[end]!.lower)
  return isBody && isCapital(words[and - 1]) && (words[start]!.lower === 'the' || end === and + 1)
}

const isCapital = (word: Word | undefined) => word !== undefined && /^\p{Lu}/u.test(word.text)

interface Core extends Span {
  readonly name: number
}

/** Determiners, then adjectives and nouns up to the last noun. */
function coreAt(words: readonly Word[], start: number): Core | undefined {
  let at = start
  while (at < words.length && isDeterminer(words[at]!, words[at + 1]) && !words[at]!.stop) at += 1
  const name = at
  let end = 0
  for (; at < words.length; at++) {
    const current = words[at]!
    if (isNominal(current)) end = at + 1
    else if (!isModifier(current, words[at + 1], at > start && end === 0) && !isInTitle(words, at)) break
    if (current.stop) break
    if (end === at + 1 && joinsNames(words, start, end)) {
      at += 1
      end = 0
    }
  }
  return end > name && !prepositions.has(words[name]!.text) ? { start, end, name } : undefined
}

function phrase(words: readonly Word[], start: number, end: number, core: Core): NounPhrase {
  const before = words.slice(start, core.name).map(({ lower }) => lower)
  const own = words.slice(core.name, end)
  const head = words[core.end - 1]!
  const isValue = own.every(
    ({ tags }) => tags.has('Value') || tags.has('Date') || tags.has('Unit') || tags.has('Duration'),
  )
  const speaks =
    !words.slice(start, core.end).some(isReference) &&
    // `the size of their beaks` names nothing itself.
    words[end]?.lower !== 'of' &&
    !vague.has(head.lower) &&
    own.length <= 8 &&
    joined(own).length <= 100 &&
    !isCode(joined(own)) &&
    /\p{L}.*\p{L}/u.test(head.text)
  return {
    start,
    end,
    name: joined(own),
    determiner: before[0] ?? '',
    speaks: speaks || isValue,
    isValue,
    isPlural: head.tags.has('Plural'),
  }
}

/** A path, an identifier, an option, a call: `src/main.ts`, `parseItems`, `--out`. */
function isCode(name: string): boolean {
  return /[{}[\]<>|=\\`_"#$@~^*/+]|::|[()]|(^|\s)-|\p{Ll}\.\p{L}|(^|\s)\p{Ll}+\p{Lu}/u.test(name)
}

/** The verb group that begins at a word, if one does: auxiliaries, adverbs, negation, verbs. */
export function verbGroupAt(words: readonly Word[], start: number): VerbGroup | undefined {
  let end = start
  let last = start
  while (end < words.length && isVerbal(words[end]!)) {
    end += 1
    if (words[end - 1]!.tags.has('Verb')) last = end
    if (words[end - 1]!.stop) break
  }
  const group = words.slice(start, last)
  if (last === start || !group.some(({ tags }) => tags.has('Verb'))) return undefined
  const kept = group.filter(({ tags }) => !tags.has('Adverb') || tags.has('Negative'))
  return {
    start,
    end: last,
    verb: kept.map(({ lower }) => lower).join(' '),
    isCopula: kept.length === 1 && kept[0]!.tags.has('Copula'),
    isNegative: group.some(({ tags }) => tags.has('Negative')),
  }
}

export function isPronoun({ tags, lower }: Word): boolean {
  return tags.has('Pronoun') || tags.has('QuestionWord') || lower === 'there'
}

/** Whether a word refers to something else. */
function isReference(word: Word): boolean {
  return isPronoun(word) || pointing.has(word.lower) || owning.has(word.lower)
}

function isDeterminer({ tags, lower }: Word, next: Word | undefined): boolean {
  if (lower === 'that' && next?.tags.has('Determiner')) return false
  if (lower === 'great' && next?.lower === 'many') return true
  return tags.has('Determiner') || leading.has(lower) || owning.has(lower) || pointing.has(lower)
}

function isNominal(current: Word): boolean {
  const { tags } = current
  return (
    (tags.has('Noun') || tags.has('Value') || tags.has('Date')) &&
    !tags.has('Determiner') &&
    !tags.has('Conjunction')
  )
}

function isModifier({ tags, lower }: Word, next: Word | undefined, leads: boolean): boolean {
  if (prepositions.has(lower)) return false
  if (tags.has('Adjective')) return true
  // An almost pure carbonate.
  if (tags.has('Adverb') && next?.tags.has('Adjective')) return leads
  // A participle before a noun: the threshing machine, a domesticated bird.
  const participle = tags.has('Gerund') || tags.has('Participle') || tags.has('PastTense')
  return participle && leads && next !== undefined && isNominal(next)
}

/** `the` in On the Origin of Species, and in William the Conqueror. */
function isInTitle(words: readonly Word[], at: number): boolean {
  const before = words[at - 1]
  if (!before || words[at]!.lower !== 'the' || !/^\p{Lu}/u.test(words[at + 1]?.text ?? '')) return false
  return (
    before.tags.has('FirstName') || (at > 1 && /^\p{Lu}/u.test(before.text) && prepositions.has(before.lower))
  )
}

function isVerbal({ tags }: Word): boolean {
  return tags.has('Verb') || tags.has('Adverb') || tags.has('Negative') || tags.has('Auxiliary')
}
