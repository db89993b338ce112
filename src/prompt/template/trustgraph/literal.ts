// Python literals, as `ast.literal_eval` reads them: texts, numbers, True, False, None, and tuples, lists and dicts of them.
import { PythonFault, Tuple, type Value } from './value.ts'

const maxDepth = 100
const maxDigits = 4300

/**
 * The value, or undefined when the text is no literal.
 *
 * Throws PythonFault for bytes, complex numbers, sets, and dicts with keys that are not texts: no template needs them.
 */
export function readLiteral(text: string): { readonly value: Value } | undefined {
  const reader = new Reader(text)
  try {
    return { value: reader.whole() }
  } catch (error) {
    if (error instanceof NoLiteral) return undefined
    throw error
  }
}

class NoLiteral extends Error {}

const number =
  /(?:0[xX](?:_?[\da-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|(?:(?:\d(?:_?\d)*)?\.\d(?:_?\d)*|\d(?:_?\d)*\.?)(?:[eE][+-]?\d(?:_?\d)*)?)([jJ]?)(?![\p{L}\p{N}_])/uy
const simpleEscapes: Readonly<Record<string, string>> = {
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
}

class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  /** A value, or a tuple without parentheses. */
  whole(): Value {
    this.#skipBlanks()
    const first = this.#value()
    this.#skipBlanks()
    if (this.#at === this.#text.length) return first
    const items = [first]
    while (this.#take(',')) {
      if (this.#at === this.#text.length) break
      items.push(this.#value())
      this.#skipBlanks()
    }
    if (this.#at < this.#text.length) throw new NoLiteral()
    return new Tuple(items)
  }

  #value(): Value {
    this.#skipBlanks()
    const word = this.#match(/(?:True|False|None)(?![\p{L}\p{N}_])/uy)
    if (word !== undefined) return word === 'None' ? null : word === 'True'
    if (this.#match(/(?:[bB][rR]?|[rR][bB])(?=["'])/y)) throw new PythonFault('bytes are not supported')
    if (this.#isTextNext()) return this.#texts()
    switch (this.#text[this.#at]) {
      case '(':
        return this.#parenthesised()
      case '[':
        return this.#elements(']').items
      case '{':
        return this.#dict()
      default:
        return this.#number()
    }
  }

  #number(): Value {
    const sign = this.#match(/[+-]/y)
    this.#skipBlanks()
    number.lastIndex = this.#at
    const match = number.exec(this.#text)
    if (match === null) throw new NoLiteral()
    if (match[1] !== '') throw new PythonFault('complex numbers are not supported')
    this.#at = number.lastIndex
    const digits = match[0].replaceAll('_', '')
    const isInteger = /^(?:0[xXoObB]|\d+$)/.test(digits)
    // 007 is no number in Python, and 00 is one.
    if (isInteger && (/^0+[1-9]/.test(digits) || digits.length > maxDigits)) throw new NoLiteral()
    const value = isInteger ? BigInt(digits) : Number(digits)
    return sign === '-' ? -value : value
  }

  #parenthesised(): Value {
    const { items, comma } = this.#elements(')')
    return items.length === 1 && !comma ? items[0] : new Tuple(items)
  }

  /** From the opening bracket to `end`; `comma` tells whether there was one. */
  #elements(end: string): { items: Value[]; comma: boolean } {
    const items: Value[] = []
    const comma = this.#bracketed(end, () => items.push(this.#value()))
    return { items, comma }
  }

  #dict(): ReadonlyMap<string, Value> {
    const dict = new Map<string, Value>()
    this.#bracketed('}', () => {
      const key = this.#value()
      this.#skipBlanks()
      if (!this.#take(':')) throw new PythonFault('sets are not supported')
      if (typeof key !== 'string') throw new PythonFault('keys that are not texts are not supported')
      dict.set(key, this.#value())
    })
    return dict
  }

  #bracketed(end: string, readOne: () => void): boolean {
    if (++this.#depth > maxDepth) throw new NoLiteral()
    this.#at++
    let comma = false
    for (;;) {
      this.#skipBlanks()
      if (this.#take(end)) break
      readOne()
      this.#skipBlanks()
      if (this.#take(',')) comma = true
      else if (this.#text[this.#at] !== end) throw new NoLiteral()
    }
    this.#depth--
    return comma
  }

  #isTextNext(): boolean {
    return /[uUrR]?["']/y.exec(this.#text.slice(this.#at, this.#at + 2)) !== null
  }

  /** Adjacent texts are one. */
  #texts(): string {
    let text = ''
    do {
      const raw = /r/i.test(this.#match(/[uUrR]/y) ?? '')
      text += this.#oneText(raw)
      this.#skipBlanks()
    } while (this.#isTextNext())
    return text
  }

  #oneText(raw: boolean): string {
    const quote = this.#match(/"""|'''|"|'/y)!
    const [parts, start]: [string[], number] = [[], this.#at]
    let from = start
    while (!this.#text.startsWith(quote, this.#at)) {
      const character = this.#text[this.#at]
      if (character === undefined || (character === '\n' && quote.length === 1)) throw new NoLiteral()
      if (character === '\\' && raw) this.#at += 2
      else if (character === '\\') {
        parts.push(this.#text.slice(from, this.#at), this.#escape())
        from = this.#at
      } else this.#at++
      if (this.#at > this.#text.length) throw new NoLiteral()
    }
    parts.push(this.#text.slice(from, this.#at))
    this.#at += quote.length
    return parts.join('')
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1]
    if (letter === undefined) throw new NoLiteral()
    if (letter === 'N') throw new PythonFault('\\N{…} is not supported')
    const code = this.#match(/\\(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3})/y)
    if (code !== undefined) {
      const value = Number.parseInt(code.replace(/^\\[xuU]?/, ''), /^\\\d/.test(code) ? 8 : 16)
      if (value > 0x10ffff) throw new NoLiteral()
      return String.fromCodePoint(value)
    }
    if ('xuU'.includes(letter)) throw new NoLiteral()
    const simple = Object.hasOwn(simpleEscapes, letter) ? simpleEscapes[letter] : undefined
    this.#at += simple === undefined ? 1 : 2
    return simple ?? '\\'
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false
    this.#at++
    return true
  }

  /** Lines may end inside brackets only. */
  #skipBlanks(): void {
    const pattern = this.#depth > 0 ? ' \t\f\n\r' : ' \t\f'
    while (this.#at < this.#text.length && pattern.includes(this.#text[this.#at]!)) this.#at++
  }
}
