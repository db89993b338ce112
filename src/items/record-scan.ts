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
  hash,
  isQuote,
  isSpace,
  newline,
  openBrace,
  openBracket,
  recordSeparator,
  slash,
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
  /** Where a value ended last while only lists were open in the record, and how many. */
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
      const code = chunk.charCodeAt(index)
      switch (code) {
        case 0x20:
          continue
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
          continue
        case colon:
          if (this.#expect !== Expect.colon) this.#bad = true
          this.#expect = Expect.value
          continue
        case slash:
          this.#token = RecordToken.slash
          return index + 1
        case hash:
          this.#token = RecordToken.line
          return index + 1
        default:
          if (isSpace(code)) continue
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
        if (!isSpace(code) && !isDelimiter(code)) return true
        this.#tokenEnd = position
        this.#endToken()
        return false
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
    this.#token = RecordToken.string
    return false
  }

  /** A string or a bare word is complete. */
  #endToken(): void {
    this.#token = RecordToken.none
    const object = this.#top() === inObject
    const key = object && (this.#expect === Expect.key || this.#expect === Expect.comma)
    if (key) {
      if (this.depth === 1 && !this.skipped) this.keys.push(this.#tokenStart, this.#tokenEnd)
      this.#expect = Expect.colon
    } else if (this.#expect === Expect.colon) this.#bad = true
    else this.#expect = Expect.comma
  }

  #open(kind: number, position: number): void {
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
function endsString(code: number): boolean {
  return (
    code === comma ||
    code === colon ||
    code === closeBrace ||
    code === closeBracket ||
    code === newline ||
    code === recordSeparator
  )
}

function isDelimiter(code: number): boolean {
  return (
    code === comma ||
    code === colon ||
    code === openBrace ||
    code === closeBrace ||
    code === openBracket ||
    code === closeBracket ||
    code === slash ||
    code === 0x22
  )
}
