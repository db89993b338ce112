// JSON as Python writes and reads it: with NaN, Infinity, integers of any length, and keys in their order. JSON.parse loses the
// difference between 1 and 1.0, the digits of large integers, and the order of keys such as "2" and "10".

/** An integer is a bigint, and a float is a number. */
export type PythonJson = null | boolean | bigint | number | string | PythonJson[] | Map<string, PythonJson>

/** Python reads no deeper. */
export const maxDepth = 1000
/** Longer integers are not read by Python. They are numbers here, mostly Infinity. */
const maxDigits = 4300

/** Throws SyntaxError when the text is not JSON, even by Python's rules. */
export function parsePythonJson(text: string): PythonJson {
  return new Reader(text).document()
}

/**
 * What JSON.parse gives for a text that Python has written: NaN and Infinity are null. Takes little more than the text and the value.
 * Throws SyntaxError.
 */
export function parseLenient(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error
    return JSON.parse(withNulls(Buffer.from(text)).toString())
  }
}

const [quote, backslash] = ['"', '\\'].map((character) => character.charCodeAt(0)) as [number, number]
const words = ['NaN', 'Infinity', '-Infinity'].map((word) => Buffer.from(word))

/** The text with null in place of those words outside of strings. */
function withNulls(text: Buffer): Buffer {
  // "null" is at most a third longer than the word.
  const strict = Buffer.allocUnsafe(Math.ceil((text.length * 4) / 3))
  let length = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const byte = text[at]!
    const isWordStart = !inString && (byte === 0x4e || byte === 0x49 || byte === 0x2d)
    const word = isWordStart
      ? words.find((each) => text.subarray(at, at + each.length).equals(each))
      : undefined
    if (word) {
      length += strict.write('null', length)
      at += word.length - 1
      continue
    }
    strict[length++] = byte
    if (byte === quote) inString = !inString
    else if (inString && byte === backslash && at + 1 < text.length) strict[length++] = text[++at]!
  }
  return strict.subarray(0, length)
}

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  document(): PythonJson {
    const value = this.#value(0)
    this.#skipBlanks()
    if (this.#at < this.#text.length) throw this.#unexpected()
    return value
  }

  #value(depth: number): PythonJson {
    this.#skipBlanks()
    if (depth > maxDepth) throw new SyntaxError('nested too deeply')
    const first = this.#text[this.#at]
    if (first === '"') return this.#string()
    if (first === '[') return this.#list(depth)
    return first === '{' ? this.#object(depth) : this.#plain()
  }

  #list(depth: number): PythonJson[] {
    const list: PythonJson[] = []
    this.#elements(']', () => list.push(this.#value(depth + 1)))
    return list
  }

  #object(depth: number): Map<string, PythonJson> {
    const object = new Map<string, PythonJson>()
    this.#elements('}', () => {
      this.#skipBlanks()
      const key = this.#string()
      this.#skipBlanks()
      if (!this.#take(':')) throw this.#unexpected()
      object.set(key, this.#value(depth + 1))
    })
    return object
  }

  /** From the opening bracket to `end`, with a comma between elements. */
  #elements(end: string, readOne: () => void): void {
    this.#at++
    this.#skipBlanks()
    if (this.#take(end)) return
    do {
      readOne()
      this.#skipBlanks()
    } while (this.#take(','))
    if (!this.#take(end)) throw this.#unexpected()
  }

  #string(): string {
    const start = this.#at
    if (!this.#take('"')) throw this.#unexpected()
    for (;;) {
      const quote = this.#text.indexOf('"', this.#at)
      if (quote === -1) throw this.#unexpected()
      let backslashes = 0
      while (this.#text[quote - 1 - backslashes] === '\\') backslashes++
      this.#at = quote + 1
      if (backslashes % 2 === 0) return JSON.parse(this.#text.slice(start, this.#at)) as string
    }
  }

  #plain(): PythonJson {
    const pattern = /true|false|null|NaN|-?Infinity|(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?/y
    pattern.lastIndex = this.#at
    const match = pattern.exec(this.#text)
    if (match === null) throw this.#unexpected()
    this.#at = pattern.lastIndex
    const [word, integer, fraction, exponent] = match
    if (word === 'null') return null
    if (word === 'true' || word === 'false') return word === 'true'
    const isInteger = integer !== undefined && fraction === undefined && exponent === undefined
    return isInteger && word.length <= maxDigits ? BigInt(word) : Number(word)
  }

  #skipBlanks(): void {
    while (this.#at < this.#text.length && ' \t\n\r'.includes(this.#text[this.#at]!)) this.#at++
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false
    this.#at++
    return true
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(`unexpected ${this.#text[this.#at] ?? 'end'} at position ${this.#at}`)
  }
}
