// Rewrites the text of one record that JSON.parse refused as JSON, with named changes that lose nothing. Ambiguous or cut text stays
// unreadable; nothing is completed or guessed.
import { closes, isQuote, isSpace } from './characters.ts'
import type { RepairName } from './item.ts'

export interface RepairedText {
  readonly json: string
  readonly repairs: readonly RepairName[]
  /** A number in it is NaN or infinite (`null` stands in its place). */
  readonly notFinite: boolean
}

/** The record as JSON text; undefined when no lossless repair makes it readable. */
export function repairText(text: string, maxDepth: number): RepairedText | undefined {
  try {
    return new Repair(text, maxDepth).run()
  } catch (thrown) {
    if (thrown === unreadable) return undefined
    throw thrown
  }
}

const unreadable = Symbol('unreadable')

const bareKey = /[\p{L}_$][\p{L}\p{M}\p{N}_$.-]*/uy
const keyAhead = /(?:(["'])(?:[^"'\\\n]|\\.)*\1|[\p{L}_$][\p{L}\p{M}\p{N}_$.-]*)\s*:/uy
const quotedKeyAhead = /(["'\u201c\u201d\u2018\u2019])(?:[^"'\u2018-\u201f\\\n]|\\.)*["'\u2018-\u201f]\s*:/uy
const bareWord = /[^\s,:{}[\]"'/#]+/uy
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
const escapes = '"\\/bfnrt'

type RepairContext = 'key' | 'member' | 'element'

class Repair {
  readonly #text: string
  readonly #maxDepth: number
  readonly #repairs = new Set<RepairName>()
  #index = 0
  #out = ''
  #notFinite = false

  constructor(text: string, maxDepth: number) {
    this.#text = text
    this.#maxDepth = maxDepth
  }

  run(): RepairedText {
    this.#skipSpace()
    this.#value('element', 1)
    this.#skipSpace()
    if (this.#index < this.#text.length) throw unreadable
    return { json: this.#out, repairs: [...this.#repairs], notFinite: this.#notFinite }
  }

  #value(context: RepairContext, depth: number): void {
    const code = this.#text.charCodeAt(this.#index)
    if (code === 0x7b || code === 0x5b) {
      if (depth > this.#maxDepth) throw unreadable
      this.#container(code === 0x7b, depth)
    } else if (isQuote(code)) this.#string(context)
    else this.#word()
  }

  #container(object: boolean, depth: number): void {
    const closer = object ? '}' : ']'
    this.#out += object ? '{' : '['
    this.#index++
    this.#skipSpace()
    while (this.#text[this.#index] !== closer) {
      if (object) this.#key()
      this.#value(object ? 'member' : 'element', depth + 1)
      this.#skipSpace()
      const next = this.#text[this.#index]
      if (next === closer) break
      if (next === ',') {
        this.#index++
        this.#skipSpace()
        if (this.#text[this.#index] === closer) {
          this.#repairs.add('trailing_comma')
          break
        }
      } else {
        if (next === undefined || (object && !matches(keyAhead, this.#text, this.#index))) throw unreadable
        this.#repairs.add('missing_comma')
      }
      this.#out += ','
    }
    this.#index++
    this.#out += closer
  }

  #key(): void {
    if (isQuote(this.#text.charCodeAt(this.#index))) this.#string('key')
    else {
      const word = match(bareKey, this.#text, this.#index)
      if (word === undefined) throw unreadable
      this.#repairs.add('keys')
      this.#out += JSON.stringify(word)
      this.#index += word.length
    }
    this.#skipSpace()
    if (this.#text[this.#index] !== ':') throw unreadable
    this.#out += ':'
    this.#index++
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

  #string(context: RepairContext): void {
    const text = this.#text
    const quote = text.charCodeAt(this.#index)
    if (quote !== 0x22) this.#repairs.add('quotes')
    this.#index++
    this.#out += '"'
    let plain = this.#index
    const flush = (upTo: number) => {
      this.#out += text.slice(plain, upTo)
    }
    for (let index = this.#index; index < text.length; index++) {
      const code = text.charCodeAt(index)
      if (closes(quote, code)) {
        if (this.#ends(index + 1, context)) {
          flush(index)
          this.#out += '"'
          if (code !== 0x22) this.#repairs.add('quotes')
          this.#index = index + 1
          return
        }
        this.#repairs.add('inner_quotes')
        if (code === 0x22) {
          flush(index)
          this.#out += '\\"'
          plain = index + 1
        }
      } else if (code === 0x22) {
        flush(index)
        this.#out += '\\"'
        plain = index + 1
      } else if (code === 0x5c) {
        flush(index)
        index += this.#escape(index, quote)
        plain = index + 1
      } else if (code < 0x20) {
        flush(index)
        this.#repairs.add('control')
        this.#out += JSON.stringify(text[index]).slice(1, -1)
        plain = index + 1
      }
    }
    throw unreadable
  }

  /** Writes the escape at `index`; returns the number of its characters after the backslash. */
  #escape(index: number, quote: number): number {
    const next = this.#text[index + 1]
    if (next === 'u' && /^[0-9a-fA-F]{4}$/.test(this.#text.slice(index + 2, index + 6))) {
      this.#out += this.#text.slice(index, index + 6)
      return 5
    }
    if (next !== undefined && escapes.includes(next)) {
      this.#out += `\\${next}`
      return 1
    }
    if (next !== undefined && quote !== 0x22 && closes(quote, next.charCodeAt(0))) {
      this.#out += next
      return 1
    }
    this.#repairs.add('escape')
    this.#out += '\\\\'
    return 0
  }

  /** Whether a quote before `from` ends its string: `,` `:` `}` `]`, a new line, a comment or the next key must follow. */
  #ends(from: number, context: RepairContext): boolean {
    let index = from
    let lines = false
    while (index < this.#text.length && isSpace(this.#text.charCodeAt(index))) {
      if (this.#text[index] === '\n') lines = true
      index++
    }
    const next = this.#text[index]
    if (next === undefined || lines || ',:}]'.includes(next)) return true
    if (next === '/') return this.#text[index + 1] === '/' || this.#text[index + 1] === '*'
    if (next === '#') return index > from
    if (context === 'member') return matches(quotedKeyAhead, this.#text, index)
    // Two adjacent strings in an array: a missing comma or an unescaped quote; nobody can tell.
    if (context === 'element' && isQuote(next.charCodeAt(0)) && index > from) throw unreadable
    return false
  }

  #skipSpace(): void {
    const text = this.#text
    for (;;) {
      const code = text.charCodeAt(this.#index)
      if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) this.#index++
      else if (isSpace(code)) {
        this.#repairs.add('space')
        this.#index++
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
