// A text, prepared once so that many values can be looked for in it. Building it and each search are linear in the text.
import { countBelow } from '../code-points.ts'
import { type DateValue, dateOf, isOtherDate } from './dates.ts'
import { isStopWord, type Word, wordsOf } from './words.ts'

/** A place in the text, in UTF-16 code units. */
export interface Place {
  readonly start: number
  readonly end: number
}

export type Match = 'exact' | 'normalized' | 'fuzzy'

/** Where a value stands: at least one place, in the order of the text. */
export interface Finding {
  readonly match: Match
  readonly places: readonly Place[]
}

/** Places of one value that are looked at, at most. */
const maxPlaces = 64
/** Values whose places are kept, at most. */
const maxFindings = 200
/** Letters of a value that is compared without its spaces, at most. */
const maxJoined = 200
/** Words of a value that is compared word by word, at most. */
const maxFuzzyWords = 64
const scales = [
  ['hundred', 1e2],
  ['thousand', 1e3],
  ['million', 1e6],
  ['billion', 1e9],
  ['trillion', 1e12],
] as const
/** The share of a statement's words that its sentence must have. */
const minSentenceShare = 0.5

/**
 * Finds values in one text: exactly, in another writing, or in similar words. Offsets count UTF-16 code units.
 * @example new TextIndex('Two mills stand here.').find('mill') // { match: 'normalized', places: [{ start: 4, end: 9 }] }
 */
export class TextIndex {
  readonly text: string
  readonly #words: readonly Word[]
  /** The keys of the words as numbers. */
  readonly #ids: Int32Array
  readonly #idOf = new Map<string, number>()
  /** The words by number, in the order of the text. */
  readonly #wordsOf: number[][] = []
  /** The latest values that were looked for: units and facts of a chunk have the same ones. */
  readonly #findings = new Map<string, Finding | undefined>()
  #joined: Joined | undefined
  #sentenceOf: Int32Array | undefined

  constructor(text: string) {
    this.text = text
    this.#words = wordsOf(text)
    this.#ids = new Int32Array(this.#words.length)
    for (const [at, { key }] of this.#words.entries()) {
      const known = this.#idOf.get(key)
      const id = known ?? this.#wordsOf.push([at]) - 1
      if (known === undefined) this.#idOf.set(key, id)
      else this.#wordsOf[id]!.push(at)
      this.#ids[at] = id
    }
  }

  /** Where the value stands; undefined when it does not. */
  find(value: string): Finding | undefined {
    if (this.#findings.has(value)) return this.#findings.get(value)
    const finding = this.#search(value)
    if (this.#findings.size === maxFindings) this.#findings.clear()
    if (value.length <= maxJoined) this.#findings.set(value, finding)
    return finding
  }

  #search(value: string): Finding | undefined {
    const words = wordsOf(value)
    if (words.length === 0) return this.#findSigns(value.trim())
    const ids = words.map(({ key }) => this.#idOf.get(key))
    const withoutArticle = words.length > 1 && /^(?:the|an?)$/.test(words[0]!.key) ? 1 : 0
    return (
      this.#findPhrase(ids, value.trim()) ??
      (withoutArticle ? this.#findPhrase(ids.slice(1), '') : undefined) ??
      this.#findJoined(words.map(({ letters }) => letters).join('')) ??
      this.#findSimilar(words.slice(withoutArticle)) ??
      this.#findShared(ids.slice(withoutArticle)) ??
      this.#findNumber(words) ??
      this.#findDate(dateOf(value))
    )
  }

  /** The sentence that has most words of the statement, if it has at least half of them. */
  findSentence(statement: string): Finding | undefined {
    const keys = new Set(contentKeys(statement))
    const wanted: number[] = []
    for (const key of keys) {
      const id = this.#idOf.get(key)
      if (id !== undefined) wanted.push(id)
    }
    const least = Math.ceil(minSentenceShare * keys.size)
    if (keys.size === 0 || wanted.length < least) return undefined
    this.#sentenceOf ??= this.#findSentences()
    const sentenceOf = this.#sentenceOf
    const counts = new Int32Array(sentenceOf.at(-1)! + 1)
    for (const id of wanted) {
      let before = -1
      for (const at of this.#wordsOf[id]!) {
        const sentence = sentenceOf[at]!
        if (sentence !== before) counts[sentence]!++
        before = sentence
      }
    }
    const most = counts.reduce((max, count) => Math.max(max, count), 0)
    if (most < least) return undefined
    const sentence = counts.indexOf(most)
    const place = this.#place(sentenceOf.indexOf(sentence), sentenceOf.lastIndexOf(sentence))
    const isWhole = this.text.slice(place.start, place.end) === statement.trim().replace(/[.!?。！？]$/u, '')
    return { match: isWhole ? 'exact' : 'fuzzy', places: [place] }
  }

  /** How many of the words of the values occur, and how many there are; words such as "the" only count when there are no others. */
  coverage(values: readonly string[]): { readonly found: number; readonly all: number } {
    const keys = new Set(values.flatMap(contentKeys))
    return { found: [...keys].filter((key) => this.#idOf.has(key)).length, all: keys.size }
  }

  #place(first: number, last: number): Place {
    return { start: this.#words[first]!.start, end: this.#words[last]!.end }
  }

  /** A value without a word, such as an arrow. */
  #findSigns(value: string): Finding | undefined {
    const places: Place[] = []
    for (let at = 0; value !== '' && places.length < maxPlaces; at = places.at(-1)!.end) {
      const start = this.text.indexOf(value, at)
      if (start < 0) break
      places.push({ start, end: start + value.length })
    }
    return places.length > 0 ? { match: 'exact', places } : undefined
  }

  /** These words in succession. If `exact` stands somewhere letter by letter, only those places count. */
  #findPhrase(ids: readonly (number | undefined)[], exact: string): Finding | undefined {
    if (!isKnown(ids)) return undefined
    let rarest = 0
    for (const [at, id] of ids.entries())
      if (this.#wordsOf[id]!.length < this.#wordsOf[ids[rarest]!]!.length) rarest = at
    // Only texts that repeat themselves need more comparisons than this.
    let budget = 4 * this.#ids.length + ids.length
    const same: Place[] = []
    const similar: Place[] = []
    for (const at of this.#wordsOf[ids[rarest]!]!) {
      const first = at - rarest
      let count = 0
      while (count < ids.length && this.#ids[first + count] === ids[count]) count++
      budget -= count + 1
      if (count === ids.length) {
        const place = this.#place(first, first + count - 1)
        const isSame =
          exact.length >= place.end - place.start &&
          this.text.slice(place.start, place.start + exact.length) === exact
        if (isSame) same.push({ start: place.start, end: place.start + exact.length })
        else similar.push(place)
      }
      if (budget < 0 || same.length === maxPlaces) break
    }
    if (same.length > 0) return { match: 'exact', places: same }
    return similar.length > 0 ? { match: 'normalized', places: similar.slice(0, maxPlaces) } : undefined
  }

  /** The same letters with other spaces and hyphens, from the beginning of a word to the end of a word. */
  #findJoined(letters: string): Finding | undefined {
    this.#joined ??= join(this.#words)
    const { text, starts } = this.#joined
    const places: Place[] = []
    if (letters.length < 3 || letters.length > maxJoined) return undefined
    for (let at = text.indexOf(letters); at >= 0; at = text.indexOf(letters, at + letters.length)) {
      const first = countBelow(starts, at)
      const next = countBelow(starts, at + letters.length)
      const isWhole = starts[first] === at && starts[next] === at + letters.length
      if (isWhole) places.push(this.#place(first, next - 1))
      if (places.length === maxPlaces) break
    }
    return places.length > 0 ? { match: 'normalized', places } : undefined
  }

  /**
   * The passage that is most similar to these words, the first of equal ones. A passage has a score of 8 for each of the words that
   * it has in their order, less 3 for each word of its own. A score of 3 for each of the words is LangExtract's limit: a ratio of 0.75
   * by Python's difflib.
   */
  #findSimilar(words: readonly Word[]): Finding | undefined {
    const known = words.flatMap(({ key }) => this.#idOf.get(key) ?? [])
    const least = 3 * words.length
    if (words.length < 2 || words.length > maxFuzzyWords || 5 * known.length < least) return undefined
    if (!this.#isContent(words, (id) => id !== undefined)) return undefined
    const wanted = new Set(known)
    const last = known.length
    // For the passages that end with the current word: the best score of those with the first words of `known`, and where it begins.
    const scores = new Int32Array(last + 1)
    const begins = new Int32Array(last + 1)
    let best = { score: least - 1, first: 0, last: -1 }
    for (let at = 0; at < this.#ids.length; at++) {
      const word = this.#ids[at]!
      if (scores[last]! <= 0 && !wanted.has(word)) continue
      let scoreBefore = 0
      let beginBefore = at
      for (let count = 1; count <= last; count++) {
        const score = scores[count]!
        const begin = begins[count]!
        if (known[count - 1] === word) {
          scores[count] = Math.max(scoreBefore, 0) + 5
          begins[count] = scoreBefore > 0 ? beginBefore : at
        } else scores[count] = Math.max(score - 3, 0)
        if (scores[count - 1]! > scores[count]!) {
          scores[count] = scores[count - 1]!
          begins[count] = begins[count - 1]!
        }
        scoreBefore = score
        beginBefore = begin
      }
      if (scores[last]! <= best.score) continue
      const passage = new Set(this.#ids.subarray(begins[last], at + 1))
      if (this.#isContent(words, (id) => passage.has(id ?? -1)))
        best = { score: scores[last]!, first: begins[last]!, last: at }
    }
    return best.last < 0 ? undefined : { match: 'fuzzy', places: [this.#place(best.first, best.last)] }
  }

  /** Whether the words that distinguish a value are there: all its numbers, and three quarters of its words besides "of" and the like. */
  #isContent(words: readonly Word[], has: (id: number | undefined) => boolean): boolean {
    const content = words.filter(({ key }) => !isStopWord(key))
    const missing = content.filter(({ key }) => !has(this.#idOf.get(key)))
    return 4 * missing.length <= content.length && !missing.some(({ key }) => /^\p{N}/u.test(key))
  }

  /** "Ann Smith" in "Ann and Bob Smith": words before "and" that share the last word with those behind it. */
  #findShared(ids: readonly (number | undefined)[]): Finding | undefined {
    if (ids.length < 2 || ids.length > maxFuzzyWords || !isKnown(ids)) return undefined
    const isAnd = new Set(['and', 'or', 'und', 'et', 'y'].flatMap((word) => this.#idOf.get(word) ?? []))
    const places: Place[] = []
    for (const last of this.#wordsOf[ids.at(-1)!]!) {
      const and = [last - 2, last - 3].find((at) => at >= 0 && isAnd.has(this.#ids[at]!))
      if (and === undefined) continue
      const first: number = and - ids.length + 1
      const isSame = ids.every((id, at) => at === ids.length - 1 || this.#ids[first + at] === id)
      if (isSame) places.push(this.#place(first, last))
      if (places.length === maxPlaces) break
    }
    return places.length > 0 ? { match: 'fuzzy', places } : undefined
  }

  /** 1500 where the text has 1.500, as in German, and 1500000 where it has "1.5 million". */
  #findNumber(words: readonly Word[]): Finding | undefined {
    const number = words.length === 1 ? words[0]!.key : ''
    if (!/^\d{4,15}$/.test(number)) return undefined
    const grouped = number.replace(/\B(?=(?:\d{3})+$)/g, '.')
    const written = this.#findPhrase([this.#idOf.get(wordsOf(grouped)[0]!.key)], grouped)
    if (written?.match === 'exact') return { match: 'normalized', places: written.places }
    for (const [word, unit] of scales) {
      const found = this.#findPhrase(
        [String(Number(number) / unit), word].map((key) => this.#idOf.get(key)),
        '',
      )
      if (found) return found
    }
    return undefined
  }

  /** A date in another writing. Its year counts, unless a day or a month beside it is another one. */
  #findDate(date: DateValue | undefined): Finding | undefined {
    if (!date) return undefined
    const { year, month, day } = date
    for (const key of [`${day}.${month}.${year}`, `${day}.${String(month).padStart(2, '0')}.${year}`]) {
      const found = this.#findPhrase([this.#idOf.get(key)], '')
      if (found) return { match: 'fuzzy', places: found.places }
    }
    const id = this.#idOf.get(String(year))
    const at = id === undefined ? [] : this.#wordsOf[id]!
    const beside = (word: number) => this.#words.slice(Math.max(word - 2, 0), word + 3).map(({ key }) => key)
    const same = at.filter((word) => !isOtherDate(beside(word), date)).slice(0, maxPlaces)
    return same.length > 0
      ? { match: 'fuzzy', places: same.map((word) => this.#place(word, word)) }
      : undefined
  }

  /** The number of the sentence of each word. */
  #findSentences(): Int32Array {
    const sentences = new Int32Array(this.#words.length)
    for (let at = 1; at < sentences.length; at++) {
      const { start } = this.#words[at]!
      const between = this.text.slice(this.#words[at - 1]!.end, start)
      const isEnd =
        between !== ' ' &&
        (/[。！？]|\n\s*\n/u.test(between) ||
          (/[.!?…][^\s\p{L}]*\s/u.test(between) && !/^\p{Ll}/u.test(this.text.slice(start, start + 2))))
      sentences[at] = sentences[at - 1]! + (isEnd ? 1 : 0)
    }
    return sentences
  }
}

/** The letters of all words behind each other, and where each word begins, with the end of all. */
interface Joined {
  readonly text: string
  readonly starts: Int32Array
}

function join(words: readonly Word[]): Joined {
  const starts = new Int32Array(words.length + 1)
  for (const [at, { letters }] of words.entries()) starts[at + 1] = starts[at]! + letters.length
  return { text: words.map(({ letters }) => letters).join(''), starts }
}

function contentKeys(text: string): string[] {
  const words = wordsOf(text)
  const content: string[] = []
  for (const { key } of words) if (!isStopWord(key)) content.push(key)
  return content.length > 0 ? content : words.map(({ key }) => key)
}

function isKnown(ids: readonly (number | undefined)[]): ids is readonly number[] {
  return !ids.includes(undefined)
}
