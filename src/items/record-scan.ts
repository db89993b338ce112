// Follows one record after another from `{` to its end, one character at a time: braces, strings, comments, and what may come next. It never
// looks back or ahead, so it may stop and continue between any two characters.
import {
  asterisk,
  backslash,
  closeBrace,
  closeBracket,
  closes,
  colon,
  comma,
  doubleQuote,
  equals,
  greater,
  hash,
  isQuote,
  isSpace,
  newline,
  openBrace,
  openBracket,
  recordSeparator,
  slash,
  structural,
} from './characters.ts'

/** Why `scan` stopped: out of text, before a `{` that begins a line, after an array's element or the record, or too deep. */
export type Stop = 'text' | 'head' | 'element' | 'closed' | 'deep'

/**
 * The effect on this record of a record that begins on this line: it `closes` this one (only its last brace is missing), `breaks` it, or is
 * `legal` (a value is expected here).
 */
export type LineState = 'closes' | 'breaks' | 'legal'

/** Arrays up to this depth may belong to a wrapper; the record itself is 1: three keys down, as in `{"a":{"b":{"items":[`. */
export const wrapperDepth = 4

const RecordToken = {
  none: 0,
  string: 1,
  quoted: 2,
  quotedSlash: 3,
  bare: 4,
  slash: 5,
  line: 6,
  block: 7,
  star: 8,
  /** A string between three quotes on each side. */
  triple: 9,
  /** A backslash between strings. */
  escape: 10,
} as const
type RecordToken = (typeof RecordToken)[keyof typeof RecordToken]

const Expect = { key: 0, colon: 1, value: 2, comma: 3 } as const
type Expect = (typeof Expect)[keyof typeof Expect]

const inObject = 1
const inArray = 2

export class RecordScan {
  /** Positions: of the record's first character, and of the element that ended at the last stop `element`. */
  start = 0
  elementStart = -1
  /** The line reached, 1-based. */
  line = 1
  /** The keys read so far at depth 1, as pairs of positions. */
  readonly keys: number[] = []
  depth = 0
  /** The end of the last value that ended while only lists were open in the record, and the number of those lists. */
  readonly complete = { end: -1, lists: 0 }
  /** Only its end is still searched for: it was already rejected. */
  skipped = false
  stop: Stop = 'text'

  readonly #maxDepth: number
  /** The kind of each open brace or bracket, by depth. */
  readonly #kinds: Uint8Array
  #token: RecordToken = RecordToken.none
  #expect: Expect = Expect.value
  #quote = 0
  #escaped = false
  /** White space was between a quote and what follows it. */
  #spaced = false
  #tokenStart = 0
  #tokenEnd = 0
  /** The quotes in succession at the end of what was read of a triple string. */
  #run = 0
  /** The quote of the member's string that just ended, or 0. */
  #valueQuote = 0
  /**
   * A quote and a comma seemed to end a member's string that this quote began; they did not if no key with a colon follows. 0 when nothing
   * is uncertain.
   */
  #uncertain = 0
  #elementDepth = 0
  /** A newline or a record separator was read, and only white space since. */
  #head = false
  #separated = false
  /** Something is in a place where JSON, even with repairs, does not allow it. */
  #bad = false

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth
    this.#kinds = new Uint8Array(maxDepth + 2)
  }

  /** Forgets the last record and begins one at `start`. */
  begin(start: number, line: number): void {
    this.start = start
    this.line = line
    this.elementStart = -1
    this.keys.length = 0
    this.depth = 0
    this.complete.end = -1
    this.skipped = false
    this.#token = RecordToken.none
    this.#expect = Expect.value
    this.#elementDepth = 0
    this.#head = false
    this.#bad = false
    this.#valueQuote = 0
    this.#uncertain = 0
  }

  /** Only the end of a value that is already `depth` deep is searched for. */
  beginSkipping(start: number, line: number, depth: number): void {
    this.begin(start, line)
    this.depth = depth
    this.skip()
  }

  skip(): void {
    this.skipped = true
    this.keys.length = 0
  }

  /** Valid at a stop `head`; a record separator never occurs inside a record. */
  get lineState(): LineState {
    if (this.skipped || this.#bad || this.#token !== RecordToken.none) return 'breaks'
    if (this.#expect === Expect.value) return this.#separated ? 'breaks' : 'legal'
    return this.#expect === Expect.comma && this.depth === 1 ? 'closes' : 'breaks'
  }

  /** Reads `chunk`, whose first character is at the position `base`, between two indices; returns the index that it reached. */
  scan(chunk: string, base: number, from: number, upTo: number): number {
    let index = from
    this.stop = 'text'
    while (index < upTo && this.stop === 'text') {
      if (this.#head) index = this.#readHead(chunk, index, upTo)
      else if (this.#token === RecordToken.none) index = this.#readStructure(chunk, base, index, upTo)
      else if (this.#token === RecordToken.string) index = this.#readString(chunk, base, index, upTo)
      else if (this.#readToken(chunk.charCodeAt(index), base + index)) index++
    }
    return index
  }

  #beginLine(code: number): void {
    if (code === newline) this.line++
    this.#separated = code === recordSeparator
    this.#head = true
    this.#uncertain = 0
  }

  /** The white space at the beginning of a line. */
  #readHead(chunk: string, from: number, upTo: number): number {
    for (let index = from; index < upTo; index++) {
      const code = chunk.charCodeAt(index)
      if (code === newline) this.line++
      else if (code === recordSeparator) this.#separated = true
      else if (!isSpace(code)) {
        this.#head = false
        if (code === openBrace) this.stop = 'head'
        return index
      }
    }
    return upTo
  }

  /** Between strings, words and comments. */
  #readStructure(chunk: string, base: number, from: number, upTo: number): number {
    for (let index = from; index < upTo; index++) {
      const character = chunk.charCodeAt(index)
      if (character === 0x20) continue
      const code = structural(character)
      if (this.#uncertain !== 0 && this.#expect === Expect.colon && this.#resumeString(code)) return index
      switch (code) {
        case newline:
        case recordSeparator:
          this.#beginLine(code)
          return index + 1
        case openBrace:
          this.#open(inObject, base + index)
          break
        case openBracket:
          this.#open(inArray, base + index)
          break
        case closeBrace:
          this.#close(inObject, base + index)
          break
        case closeBracket:
          this.#close(inArray, base + index)
          break
        case comma:
          if (this.#expect !== Expect.comma) this.#bad = true
          this.#expect = this.#top() === inObject ? Expect.key : Expect.value
          this.#uncertain = this.#valueQuote
          continue
        case equals:
        case colon:
          // After the brackets of a key in Lua, a comma is expected.
          if (this.#expect !== Expect.colon && !(code === equals && this.#expect === Expect.comma))
            this.#bad = true
          this.#expect = Expect.value
          this.#uncertain = 0
          continue
        case slash:
          this.#token = RecordToken.slash
          return index + 1
        case hash:
          this.#token = RecordToken.line
          return index + 1
        case backslash:
          this.#token = RecordToken.escape
          return index + 1
        default:
          if (isSpace(code) || (code === greater && this.#expect === Expect.value)) continue
          this.#tokenStart = base + index
          this.#token = isQuote(code) ? RecordToken.string : RecordToken.bare
          this.#quote = code
          this.#escaped = false
          return index + 1
      }
      if (this.stop !== 'text') return index + 1
    }
    return upTo
  }

  /** When a colon is due after an uncertain key, and another character comes, continues the string before it. True: read it again. */
  #resumeString(code: number): boolean {
    const quote = this.#uncertain
    const isQuoted = isQuote(this.#quote)
    if (code === colon || code === equals || isSpace(code)) return false
    this.#uncertain = 0
    if (!isQuoted && (code === closeBrace || code === closeBracket)) return false
    if (this.depth === 1 && !this.skipped) this.keys.length -= 2
    if (isQuoted) {
      this.#expect = Expect.comma
      this.#valueQuote = quote
    } else {
      this.#expect = Expect.value
      this.#token = RecordToken.string
      this.#quote = quote
      this.#escaped = false
    }
    return true
  }

  /** Reads one character after a quote, in a bare word or in a comment; false when it has to be read again. */
  #readToken(code: number, position: number): boolean {
    switch (this.#token) {
      case RecordToken.quoted:
        return this.#afterQuote(code, position)
      case RecordToken.quotedSlash:
        if (code !== slash && code !== asterisk) {
          this.#token = RecordToken.string
          return false
        }
        this.#endToken()
        this.#token = code === slash ? RecordToken.line : RecordToken.block
        return true
      case RecordToken.bare:
        return this.#inBareWord(code, position)
      case RecordToken.triple:
        return this.#inTriple(code, position)
      case RecordToken.escape:
        // It may write white space, or escape a bracket or quote.
        this.#token = RecordToken.none
        return code === 0x6e || code === 0x72 || code === 0x74
      case RecordToken.slash:
        if (code === slash) this.#token = RecordToken.line
        else if (code === asterisk) this.#token = RecordToken.block
        else {
          this.#bad = true
          this.#token = RecordToken.bare
          return false
        }
        return true
      case RecordToken.line:
        if (code !== newline) return true
        this.#token = RecordToken.none
        return false
      default:
        if (code === newline) this.#beginLine(code)
        if (code === asterisk) this.#token = RecordToken.star
        else
          this.#token =
            this.#token === RecordToken.star && code === slash ? RecordToken.none : RecordToken.block
        return true
    }
  }

  #inBareWord(code: number, position: number): boolean {
    const isKey = this.#expectsKey()
    if (isQuote(code)) {
      if (isPrefix(this.#quote) && position - this.#tokenStart <= 2) {
        this.#token = RecordToken.string
        this.#quote = code
        this.#escaped = false
        return true
      }
      // A key without its first quote.
      this.#tokenEnd = position
      if (isKey) this.#endToken()
      if (isKey) return true
    }
    if (!isSpace(code) && !isDelimiter(code) && !(code === equals && isKey)) return true
    this.#tokenEnd = position
    this.#endToken()
    return false
  }

  #inTriple(code: number, position: number): boolean {
    if (this.#run >= 3 && code !== this.#quote) {
      this.#tokenEnd = position
      this.#endToken()
      return false
    }
    this.#run = code === this.#quote && !this.#escaped ? this.#run + 1 : 0
    this.#escaped = code === backslash && !this.#escaped
    if (code === newline || code === recordSeparator) this.#beginLine(code)
    return true
  }

  #expectsKey(): boolean {
    return this.#top() === inObject && (this.#expect === Expect.key || this.#expect === Expect.comma)
  }

  #top(): number {
    return this.#kinds[this.depth] ?? inObject
  }

  #readString(chunk: string, base: number, from: number, upTo: number): number {
    const quote = this.#quote
    const straight = quote === doubleQuote
    let escaped = this.#escaped
    for (let index = from; index < upTo; index++) {
      const code = chunk.charCodeAt(index)
      // Most characters are plain by far.
      if (code > doubleQuote && code < 0x80 && code !== backslash && straight) {
        escaped = false
        continue
      }
      if (code === newline || code === recordSeparator) {
        this.#escaped = false
        this.#beginLine(code)
        return index + 1
      }
      if (escaped) escaped = false
      else if (code === backslash) escaped = true
      else if (code === quote || closes(quote, code)) {
        this.#tokenEnd = base + index + 1
        this.#escaped = false
        if (index + 1 < upTo && endsString(chunk.charCodeAt(index + 1))) this.#endToken()
        else {
          this.#token = RecordToken.quoted
          this.#spaced = false
        }
        return index + 1
      }
    }
    this.#escaped = escaped
    return upTo
  }

  /** A quote ends its string when `,` `:` `}` `]`, a new line or a comment follows; otherwise it is content. */
  #afterQuote(code: number, position: number): boolean {
    if (endsString(code)) {
      this.#endToken()
      return false
    }
    if (isSpace(code)) {
      this.#spaced = true
      return true
    }
    if (closes(this.#quote, code)) {
      if (position - this.#tokenStart === 2 && !this.#spaced && code === this.#quote) {
        this.#token = RecordToken.triple
        this.#run = 0
        return true
      }
      this.#spaced = false
      this.#tokenEnd = position + 1
      return true
    }
    if (code === slash) {
      this.#token = RecordToken.quotedSlash
      return true
    }
    if (code === hash && this.#spaced) {
      this.#endToken()
      this.#token = RecordToken.line
      return true
    }
    if (code === backslash) {
      this.#endToken()
      this.#token = RecordToken.escape
      return true
    }
    if (code === equals && this.#expectsKey()) {
      this.#endToken()
      return false
    }
    this.#token = RecordToken.string
    return false
  }

  /** A string or a bare word is complete. */
  #endToken(): void {
    const isString = this.#token !== RecordToken.bare
    this.#token = RecordToken.none
    this.#valueQuote = 0
    if (this.#expectsKey()) {
      if (this.depth === 1 && !this.skipped) this.keys.push(this.#tokenStart, this.#tokenEnd)
      this.#expect = Expect.colon
    } else if (this.#expect === Expect.colon) this.#bad = true
    else {
      this.#expect = Expect.comma
      if (isString && this.#top() === inObject) this.#valueQuote = this.#quote
    }
  }

  #open(kind: number, position: number): void {
    this.#valueQuote = 0
    this.#uncertain = 0
    const array = this.#top() === inArray
    if (this.#expect !== Expect.value && !(array && this.#expect === Expect.comma)) this.#bad = true
    if (kind === inObject && array && this.depth <= wrapperDepth && !this.skipped) {
      this.elementStart = position
      this.#elementDepth = this.depth + 1
    }
    this.depth++
    this.#expect = kind === inObject ? Expect.key : Expect.value
    if (this.skipped) return
    this.#kinds[this.depth] = kind
    if (this.depth > this.#maxDepth) this.stop = 'deep'
  }

  #close(kind: number, position: number): void {
    this.#valueQuote = 0
    this.#uncertain = 0
    if (!this.skipped && this.#top() !== kind) {
      this.#bad = true
      return
    }
    this.depth--
    this.#expect = Expect.comma
    if (this.depth <= 0) this.stop = 'closed'
    else if (!this.skipped) {
      this.#completeAt(position)
      if (this.depth + 1 !== this.#elementDepth) return
      this.#elementDepth = 0
      this.stop = 'element'
    }
  }

  #completeAt(position: number): void {
    if (this.depth > wrapperDepth) return
    for (let depth = 2; depth <= this.depth; depth++) if (this.#kinds[depth] !== inArray) return
    this.complete.end = position + 1
    this.complete.lists = this.depth - 1
  }
}

/** What may come right after a quote that ends its string. */
function endsString(character: number): boolean {
  const code = structural(character)
  return (
    code === comma ||
    code === colon ||
    code === closeBrace ||
    code === closeBracket ||
    code === newline ||
    code === recordSeparator
  )
}

function isDelimiter(character: number): boolean {
  const code = structural(character)
  return (
    code === comma ||
    code === colon ||
    code === openBrace ||
    code === closeBrace ||
    code === openBracket ||
    code === closeBracket ||
    code === slash ||
    code === doubleQuote
  )
}

/** The first letter of what Python may write before a string. */
function isPrefix(code: number): boolean {
  return 'ubrfUBRF'.includes(String.fromCharCode(code))
}
