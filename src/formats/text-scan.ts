// Finds where a JSON text begins and ends, byte by byte and aware of strings. JSON.parse decides whether the text is valid. Each step
// takes constant time, and the depth limit bounds the memory.

const tab = 0x09
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** White space between JSON tokens. */
export function isWhiteSpace(byte: number): boolean {
  return byte === space || byte === lineFeed || byte === carriageReturn || byte === tab
}

/**
 * The role of a byte: `outside` any text; the `first` or a later byte `inside` one; the `last` of an object, array or string; `after` a
 * bare number or word, to be read again; or an error: `stray` outside a text, or a `mismatch` that ends the text.
 */
export type Step = 'outside' | 'first' | 'inside' | 'last' | 'after' | 'stray' | 'mismatch'

export class TextScan {
  /** The current text: none, a bare number or word, or one that needs a closer. */
  state: 'between' | 'bare' | 'open' = 'between'
  #inString = false
  #escaped = false
  #depth = 0
  readonly #closers: number[] = []
  readonly #maxDepth: number

  /** Closers are matched with their openers down to `maxDepth`, and only counted below. */
  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth
  }

  step(byte: number): Step {
    if (this.state === 'open') return this.#inString ? this.#string(byte) : this.#nested(byte)
    if (this.state === 'bare') {
      if (!isWhiteSpace(byte) && !isStructure(byte)) return 'inside'
      this.state = 'between'
      return 'after'
    }
    if (isWhiteSpace(byte)) return 'outside'
    if (byte === comma || byte === colon || byte === closeBrace || byte === closeBracket) return 'stray'
    this.state = isStructure(byte) ? 'open' : 'bare'
    if (this.state === 'open') this.#opened(byte)
    return 'first'
  }

  #string(byte: number): Step {
    if (this.#escaped) this.#escaped = false
    else if (byte === backslash) this.#escaped = true
    else if (byte === quote) {
      this.#inString = false
      if (this.#depth === 0) return this.#ended('last')
    }
    return 'inside'
  }

  #nested(byte: number): Step {
    if (byte !== closeBrace && byte !== closeBracket) {
      this.#opened(byte)
      return 'inside'
    }
    const expected = this.#depth <= this.#maxDepth ? this.#closers.pop() : byte
    this.#depth--
    if (byte !== expected) return this.#ended('mismatch')
    return this.#depth === 0 ? this.#ended('last') : 'inside'
  }

  #opened(byte: number): void {
    if (byte === quote) this.#inString = true
    if (byte !== openBrace && byte !== openBracket) return
    this.#depth++
    if (this.#depth <= this.#maxDepth) this.#closers.push(byte === openBrace ? closeBrace : closeBracket)
  }

  #ended(how: 'last' | 'mismatch'): Step {
    this.state = 'between'
    this.#depth = 0
    this.#closers.length = 0
    return how
  }
}

function isStructure(byte: number): boolean {
  return (
    byte === quote ||
    byte === comma ||
    byte === colon ||
    byte === openBrace ||
    byte === openBracket ||
    byte === closeBrace ||
    byte === closeBracket
  )
}

/** Whether `bytes` end inside an object, an array or a string. */
export function staysOpen(bytes: Uint8Array, maxDepth: number): boolean {
  const scan = new TextScan(maxDepth)
  for (const byte of bytes) if (scan.step(byte) === 'after') scan.step(byte)
  return scan.state === 'open'
}

const words = ['true', 'false', 'null']
const numberOpening = /^-?(\d+(\.\d*)?([eE][+-]?\d*)?)?$/

/** Whether more bytes could have completed these to one JSON text, at the end of an input. */
export function isCut(bytes: Uint8Array, maxDepth: number): boolean {
  if (staysOpen(bytes, maxDepth)) return true
  // The end may stand in the middle of a character.
  const begun = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true }).trimStart()
  return words.some((word) => word.startsWith(begun)) || numberOpening.test(begun)
}
