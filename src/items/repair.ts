// Rewrites the text of one record that JSON.parse refused as JSON, with named changes that lose nothing. Ambiguous or cut text stays
// unreadable; nothing is completed or guessed.
import { closes, isQuote, isSpace, quoteMarks, structural } from './characters.ts'
import type { RepairName } from './item.ts'
import { stringText } from './string-text.ts'

export interface RepairedText {
  readonly json: string
  readonly repairs: readonly RepairName[]
  /** A number in it is NaN or infinite (`null` stands in its place). */
  readonly notFinite: boolean
}

/** The record as JSON text; undefined when no lossless repair makes it readable. */
export function repairText(text: string, maxDepth: number): RepairedText | undefined {
  try {
    if (!doubledQuotes.test(text)) return new Repair(text, maxDepth).run()
    const { repairs, ...repaired } = new Repair(text.replaceAll('""', '"'), maxDepth).run()
    return { ...repaired, repairs: [...new Set<RepairName>(['quotes', ...repairs])] }
  } catch (thrown) {
    if (thrown === unreadable) return undefined
    throw thrown
  }
}

const unreadable = Symbol('unreadable')

const word = '[\\p{L}_$](?:[\\p{L}\\p{M}\\p{N}_$.-]|\\\\_)*'
const keyEnd = '\\s*(?:[:\uff1a]|=)'
const quotedKey = `[${quoteMarks}](?:[^${quoteMarks}\\\\\\n]|\\\\.)*[${quoteMarks}]`
const bareKey = new RegExp(word, 'uy')
const quotedKeyAhead = new RegExp(`${quotedKey}${keyEnd}`, 'uy')
/** A key may also lack its first quote, be a symbol of Ruby, or stand in the brackets of Lua or behind a prefix of Python. */
const keyAhead = new RegExp(`(?:[uU]?${quotedKey}|:?${word}["']?|\\[\\s*${quotedKey}\\s*\\])${keyEnd}`, 'uy')
/** `"entity: "windmill"`. */
const halfQuotedKey = new RegExp(`"(${word})\\s*:\\s*(?="(?!\\s*[:\uff1a]))`, 'uy')
const colon = /[:\uff1a]|=>?/uy
const bareWord = /[^\s,;:{}[\]"'/#\u060c\uff0c\uff1a\uff1b\uff5d\uff3d\u3001]+/uy
/** `"entity": windmill", "definition": …`. */
const unopenedText = /\p{L}[^"'`\\:{}[\]\n]*(?=")/uy
/** `"entity": "windmill, "definition": "…`. */
const unclosedText =
  /"[^"\\\n]*[^"\\\s,](?=\s*,\s*"[\p{L}_][\p{L}\p{N}_-]*"\s*:\s*(?:["[{\d-]|true|false|null))/uy
/** Every quote is written twice, as in CSV: `{""entity"": ""windmill""}`. */
const doubledQuotes = /^\{\s*""[^"\s]+""\s*:/
const stringPrefix = /[uUbBfFrR]{1,2}(?=["'])/y
const ellipsis = /(?:\.{3}|\u2026)/y
const joint = new RegExp(`\\s*\\+\\s*(?=[${quoteMarks}])`, 'uy')
const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const looseNumber = /^([+-]?)(0|[1-9]\d*)?(?:\.(\d*))?([eE][+-]?\d+)?$/
const words: Readonly<Record<string, string>> = {
  true: 'true',
  false: 'false',
  null: 'null',
  none: 'null',
  nil: 'null',
  undefined: 'null',
}
const notFiniteWord = /^[+-]?(?:nan|inf|infinity)$/i

type RepairContext = 'key' | 'member' | 'element'

class Repair {
  readonly #text: string
  readonly #maxDepth: number
  readonly #repairs = new Set<RepairName>()
  #index = 0
  #out = ''
  #notFinite = false
  /** A string ended without its last quote, before a comma and a key. */
  #unclosed = false

  constructor(text: string, maxDepth: number) {
    this.#text = text
    this.#maxDepth = maxDepth
  }

  run(): RepairedText {
    this.#skipSpace()
    this.#value('element', 1)
    this.#skipSpace()
    if (this.#index < this.#text.length) throw unreadable
    // The text of a member may hold a key and a quote: `"A pair, "k": "v""`.
    if (this.#unclosed && this.#repairs.has('inner_quotes')) throw unreadable
    return { json: this.#out, repairs: [...this.#repairs], notFinite: this.#notFinite }
  }

  #value(context: RepairContext, depth: number): void {
    const code = structural(this.#text.charCodeAt(this.#index))
    if (code === 0x7b || code === 0x5b) {
      if (depth > this.#maxDepth) throw unreadable
      this.#container(code === 0x7b, depth)
      return
    }
    const prefix = match(stringPrefix, this.#text, this.#index)
    if (prefix !== undefined) this.#index += prefix.length
    if (isQuote(this.#text.charCodeAt(this.#index))) this.#string(context)
    else if (context !== 'member' || !this.#unopened()) this.#word()
  }

  /** A member's text without its first quote. */
  #unopened(): boolean {
    const text = match(unopenedText, this.#text, this.#index)
    const end = this.#index + (text?.length ?? 0)
    if (text === undefined || this.#endAt(end + 1, 'member') !== 'end') return false
    this.#repairs.add('quotes')
    this.#out += JSON.stringify(text)
    this.#index = end + 1
    return true
  }

  #container(object: boolean, depth: number): void {
    const closer = object ? 0x7d : 0x5d
    this.#out += object ? '{' : '['
    this.#take()
    this.#skipSpace()
    let isFirst = true
    while (this.#next() !== closer) {
      if (this.#ellipsis()) continue
      if (!isFirst) this.#out += ','
      isFirst = false
      if (object) this.#key()
      this.#value(object ? 'member' : 'element', depth + 1)
      this.#skipSpace()
      if (this.#next() === closer) break
      const isSemicolon = this.#next() === 0x3b
      if (isSemicolon || this.#next() === 0x2c) {
        if (isSemicolon) this.#repairs.add('separators')
        this.#take()
        this.#skipSpace()
        while (object && this.#next() === 0x2c) {
          this.#repairs.add('trailing_comma')
          this.#take()
          this.#skipSpace()
        }
        if (this.#next() === closer) this.#repairs.add('trailing_comma')
      } else {
        if (this.#index >= this.#text.length || (object && !matches(keyAhead, this.#text, this.#index)))
          throw unreadable
        this.#repairs.add('missing_comma')
      }
    }
    this.#take()
    this.#out += object ? '}' : ']'
  }

  /** Passes `...`, which stands for members or elements that the model left out. */
  #ellipsis(): boolean {
    const dots = match(ellipsis, this.#text, this.#index)
    if (dots === undefined) return false
    this.#repairs.add('comment')
    this.#index += dots.length
    this.#skipSpace()
    if (this.#next() === 0x2c) this.#take()
    this.#skipSpace()
    return true
  }

  /** The bracket, colon or comma at the index, as JSON writes it, or another character. */
  #next(): number {
    return structural(this.#text.charCodeAt(this.#index))
  }

  /** Passes the bracket or comma at the index. */
  #take(): void {
    if (this.#text.charCodeAt(this.#index) > 0x7f) this.#repairs.add('separators')
    this.#index++
  }

  #key(): void {
    if (matches(halfQuotedKey, this.#text, this.#index)) {
      this.#repairs.add('keys')
      this.#index++
    }
    const bracket = this.#next() === 0x5b
    const prefix = match(stringPrefix, this.#text, this.#index)
    if (bracket || (this.#next() === 0x3a && matches(keyAhead, this.#text, this.#index))) {
      this.#repairs.add('keys')
      this.#index++
      this.#skipSpace()
    } else if (prefix !== undefined && matches(keyAhead, this.#text, this.#index))
      this.#index += prefix.length
    const isQuoted = isQuote(this.#text.charCodeAt(this.#index))
    if (isQuoted) this.#string('key')
    else {
      const name = bracket ? undefined : match(bareKey, this.#text, this.#index)
      if (name === undefined) throw unreadable
      this.#repairs.add('keys')
      this.#out += JSON.stringify(name.replaceAll('\\_', '_'))
      this.#index += name.length
      if (/["']/.test(this.#text[this.#index] ?? '')) this.#index++
    }
    const end = this.#index
    this.#skipSpace()
    if (bracket) {
      if (this.#next() !== 0x5d) throw unreadable
      this.#index++
      this.#skipSpace()
    }
    // Between two strings it may be missing.
    const isMissing = isQuoted && this.#index > end && isQuote(this.#text.charCodeAt(this.#index))
    const written = match(colon, this.#text, this.#index) ?? (isMissing ? '' : undefined)
    if (written === undefined) throw unreadable
    if (written !== ':') this.#repairs.add('separators')
    this.#out += ':'
    this.#index += written.length
    this.#skipSpace()
  }

  #word(): void {
    const word = match(bareWord, this.#text, this.#index)
    if (word === undefined) throw unreadable
    this.#index += word.length
    if (jsonNumber.test(word) || word === 'true' || word === 'false' || word === 'null') {
      this.#out += word
      return
    }
    if (notFiniteWord.test(word)) {
      this.#notFinite = true
      this.#out += 'null'
      return
    }
    const lower = word.toLowerCase()
    const literal = (Object.hasOwn(words, lower) ? words[lower] : undefined) ?? plainNumber(word)
    if (literal === undefined) throw unreadable
    this.#repairs.add('literals')
    this.#out += literal
  }

  /** One string, or several that are joined. */
  #string(context: RepairContext): void {
    let text = ''
    for (;;) {
      text += this.#literal(context)
      const plus = context === 'key' ? undefined : match(joint, this.#text, this.#index)
      if (plus === undefined && !(context === 'member' && this.#goesOn())) break
      this.#repairs.add('joined')
      this.#index += plus?.length ?? 0
      if (plus === undefined) this.#skipSpace()
    }
    this.#out += JSON.stringify(text)
  }

  /** Whether a member's string goes on in a string on the next line, as in Python. */
  #goesOn(): boolean {
    const between = match(/\s*\n\s*/y, this.#text, this.#index)
    if (between === undefined) return false
    const next = this.#index + between.length
    return isQuote(this.#text.charCodeAt(next)) && !matches(quotedKeyAhead, this.#text, next)
  }

  /** The text of the literal at the index. */
  #literal(context: RepairContext): string {
    const start = this.#index
    const quote = this.#text.charCodeAt(start)
    if (quote !== 0x22) this.#repairs.add('quotes')
    const isTriple = this.#text.startsWith(this.#text[start]!.repeat(3), start) && quote < 0x80
    const written = isTriple ? this.#tripleLiteral(start) : this.#plainLiteral(start, context)
    const literal = quote === 0x22 && !isTriple ? withoutStrayQuotes(written) : written
    const { text, repairs } = stringText(literal, quote)
    for (const repair of repairs) this.#repairs.add(repair)
    // French puts spaces inside its quotes.
    return quote === 0xab && /^\s.*\s$/s.test(text) ? text.slice(1, -1) : text
  }

  /** The characters between three quotes on each side, without the line breaks next to them. */
  #tripleLiteral(start: number): string {
    const text = this.#text
    const quote = text[start]!
    let end = text.indexOf(quote.repeat(3), start + 3)
    if (end < 0) throw unreadable
    while (text[end + 3] === quote) end++
    this.#repairs.add('quotes')
    this.#index = end + 3
    return text
      .slice(start + 3, end)
      .replace(/^\r?\n/, '')
      .replace(/\r?\n[ \t]*$/, '')
  }

  #plainLiteral(start: number, context: RepairContext): string {
    const text = this.#text
    const quote = text.charCodeAt(start)
    const unclosed = context === 'member' ? match(unclosedText, text, start) : undefined
    if (unclosed !== undefined) {
      this.#unclosed = true
      this.#repairs.add('quotes')
      this.#index = start + unclosed.length
      return unclosed.slice(1)
    }
    const inner = new InnerQuotes(text, start)
    for (let index = start + 1; index < text.length; index++) {
      const code = text.charCodeAt(index)
      if (code === 0x5c) index++
      else if (closes(quote, code)) {
        const end = this.#endAt(index + 1, context)
        if (end !== 'none' && end !== 'doubtful') {
          if (inner.mayEnd) throw unreadable
          if (code !== 0x22) this.#repairs.add('quotes')
          this.#index = index + 1
          return text.slice(start + 1, index)
        }
        this.#repairs.add('inner_quotes')
        inner.add(index, end === 'doubtful')
      }
    }
    throw unreadable
  }

  /**
   * What a quote before `from` is: the `end` of its string (`:` `}` `]`, a new line, a comment or the next key follow, or a comma that a key
   * follows), or part of the string (`none`), which is `doubtful` before a comma or another quote.
   */
  #endAt(from: number, context: RepairContext): 'end' | 'doubtful' | 'none' {
    let index = from
    let lines = false
    while (index < this.#text.length && isSpace(this.#text.charCodeAt(index))) {
      if (this.#text[index] === '\n') lines = true
      index++
    }
    const next = this.#text[index]
    if (next === undefined || lines) return 'end'
    const code = structural(next.charCodeAt(0))
    if (code === 0x2c) return context === 'member' && !this.#memberFollows(index + 1) ? 'doubtful' : 'end'
    if (code === 0x3a || code === 0x7d || code === 0x5d) return 'end'
    if (context === 'key' && (code === 0x3d || (index > from && isQuote(code)))) return 'end'
    if (next === '/') return '/*'.includes(this.#text[index + 1] ?? ' ') ? 'end' : 'none'
    if (next === '#') return index > from ? 'end' : 'none'
    if (next === '\\') return /[nrt{}[\],]/.test(this.#text[index + 1] ?? '') ? 'end' : 'none'
    const isSpaced = index > from
    if (next === '+')
      return (isSpaced || this.#text[index + 1] === ' ') && matches(joint, this.#text, from) ? 'end' : 'none'
    if (context === 'member') {
      const rest = code === 0x3b ? index + 1 + (match(/\s*/y, this.#text, index + 1)?.length ?? 0) : index
      if (matches(code === 0x3b ? keyAhead : quotedKeyAhead, this.#text, rest)) return 'end'
      // A string beside it may belong to it.
      return isQuote(next.charCodeAt(0)) && isSpaced ? 'doubtful' : 'none'
    }
    // Two adjacent strings in an array: a missing comma or an unescaped quote; nobody can tell.
    if (context === 'element' && isQuote(next.charCodeAt(0)) && isSpaced) throw unreadable
    return 'none'
  }

  /** Whether another member, or the end of its object, follows a comma. */
  #memberFollows(from: number): boolean {
    const space = match(/(?:[^\S\n]|,|\\[nrt])*/y, this.#text, from)?.length ?? 0
    const next = this.#text[from + space]
    return (
      next === undefined ||
      /[\n}/#.\u2026\uff5d]/.test(next) ||
      matches(keyAhead, this.#text, from + space) ||
      matches(halfQuotedKey, this.#text, from + space)
    )
  }

  #skipSpace(): void {
    const text = this.#text
    for (;;) {
      const code = text.charCodeAt(this.#index)
      if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) this.#index++
      else if (isSpace(code)) {
        this.#repairs.add('space')
        this.#index++
      } else if (code === 0x5c && /[nrt{}[\],"']/.test(text[this.#index + 1] ?? '')) {
        // White space as an escape, or a bracket that was escaped for Markdown.
        this.#repairs.add('space')
        this.#index += /[nrt]/.test(text[this.#index + 1]!) ? 2 : 1
      } else if (code === 0x23 || (code === 0x2f && '/*'.includes(text[this.#index + 1] ?? ' ')))
        this.#comment()
      else return
    }
  }

  #comment(): void {
    this.#repairs.add('comment')
    const block = this.#text[this.#index] === '/' && this.#text[this.#index + 1] === '*'
    const end = this.#text.indexOf(block ? '*/' : '\n', this.#index + (block ? 2 : 1))
    if (end < 0) throw unreadable
    this.#index = end + (block ? 2 : 1)
  }
}

/** The quotes inside a string, of which one is doubtful: they are quotes if each one that opens is followed by one that closes. */
class InnerQuotes {
  readonly #text: string
  readonly #start: number
  #open = false
  #odd = false
  #isDoubtful = false

  constructor(text: string, start: number) {
    this.#text = text
    this.#start = start
  }

  /** Whether the doubtful one may be the end of the string. */
  get mayEnd(): boolean {
    return this.#isDoubtful && (this.#open || this.#odd)
  }

  add(index: number, isDoubtful: boolean): void {
    this.#isDoubtful ||= isDoubtful
    const before = this.#text[index - 1] ?? ''
    const opens = index - 1 === this.#start || /[\s([{\u2014\u2013/-]/.test(before)
    if (this.#open) {
      this.#odd ||= opens
      this.#open = false
    } else if ((opens || unspaced.test(before)) && !isDoubtful) this.#open = true
    // A digit and a quote are inches.
    else if (!/\d/.test(before)) this.#odd = true
  }
}

/** A literal without the quotes that were only doubled: `""old""` in it, all of it, or one at an end, which is no sign of inches. */
function withoutStrayQuotes(literal: string): string {
  return literal.replace(/""([^"]+)""/g, '"$1"').replace(/^"([^"\\]+)"?$|^([^"]*[^"\d\\])"$/, '$1$2')
}

/** Scripts without spaces between words. */
const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u

/** A number that JSON writes differently: `+1`, `.5`, `5.`; not `007`, which may be a name. */
export function plainNumber(word: string): string | undefined {
  const parts = looseNumber.exec(word)
  if (parts === null) return undefined
  const [, sign, whole, fraction, exponent] = parts
  if (whole === undefined && !fraction) return undefined
  return `${sign === '-' ? '-' : ''}${whole ?? '0'}${fraction ? `.${fraction}` : ''}${exponent ?? ''}`
}

function match(pattern: RegExp, text: string, index: number): string | undefined {
  pattern.lastIndex = index
  return pattern.exec(text)?.[0]
}

function matches(pattern: RegExp, text: string, index: number): boolean {
  pattern.lastIndex = index
  return pattern.test(text)
}
