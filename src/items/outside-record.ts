// Reads what is between records. Prose, fences, list marks, comments, stop tokens and thinking are skipped and counted; arrays and wrappers
// are opened, so that their elements are records of their own.
import {
  asterisk,
  backslash,
  backtick,
  closeBrace,
  closeBracket,
  closes,
  colon,
  comma,
  doubleQuote,
  hash,
  isQuote,
  isSpace,
  less,
  newline,
  openBrace,
  openBracket,
  openTriangle,
  slash,
  structural,
  tilde,
} from './characters.ts'
import type { Cursor, ReplyPlace } from './cursor.ts'
import { EscapedScan } from './escaped-scan.ts'
import {
  type Ahead,
  closesComment,
  lookAhead,
  opensArray,
  opensBrokenRecord,
  opensEncoded,
  opensEscaped,
  opensRecord,
  opensRoot,
  opensString,
} from './lookahead.ts'
import type { OpenRecord } from './record-reader.ts'
import { wrapperDepth } from './record-scan.ts'
import type { Records, ScannerOptions } from './records.ts'
import {
  endOfThought,
  longestMark,
  type Mark,
  markAt,
  openingWords,
  type ThinkingMarker,
} from './thinking-markers.ts'

/** An open array or wrapper, whose elements are records of their own. */
interface Container {
  readonly kind: typeof openBrace | typeof openBracket
  /** The depth in its wrapper, which is 1; 0 outside any wrapper. */
  readonly level: number
  /** In an object: a colon was read, and no value since. */
  valueDue: boolean
}

export class Between {
  /** Lines with ignored text. */
  ignored = 0
  /** Some ignored text was not a fence, a comment, a stop token or thinking. */
  prose = false
  /** After the last thought, no record or array has begun. */
  endsInThought = false
  readonly #cursor: Cursor
  readonly #records: Records
  readonly #record: OpenRecord
  readonly #options: ScannerOptions
  /** `comment` ends with its line, `block` with its closing mark. */
  #mode: 'text' | 'comment' | 'block' | 'thinking' | 'encoded' | 'escaped' = 'text'
  #containers: Container[] = []
  /** Where the last consecutive containers begin; -1 after an element. */
  #rowStart = -1
  /** The last line with prose and no record after it: on it `#` and `//` begin no comment. */
  #proseLine = 0
  /** The last line with a fence: the rest of it is the fence's info string. */
  #fenceLine = 0
  /** The quote of the string that is being skipped, or 0. */
  #quote = 0
  #escaped = false
  #ignoredLine = 0
  /** Where the encoded or escaped object begins that is being read. */
  #encoded: ReplyPlace = { position: 0, line: 0 }
  #escapedScan = new EscapedScan(false)
  /** Before this place no object is escaped: a quote without a backslash follows. */
  #bareAt = 0
  /** The first character of the reply was read. */
  #begun = false
  /** The marker of the thought, when `#mode` is `thinking`. */
  #marker: ThinkingMarker | undefined
  /** The last mark announced the call of a tool. */
  #called = false
  /** A final channel was found. */
  #final = false

  constructor(cursor: Cursor, records: Records, record: OpenRecord, options: ScannerOptions) {
    this.#cursor = cursor
    this.#records = records
    this.#record = record
    this.#options = options
  }

  /** An array, a wrapper, thinking or an encoded object was not closed. */
  get isOpen(): boolean {
    return this.#containers.length > 0 || this.#mode === 'thinking' || this.#isHeld
  }

  get thinking(): boolean {
    return this.#mode === 'thinking'
  }

  /** An encoded or escaped object is being read. */
  get #isHeld(): boolean {
    return this.#mode === 'encoded' || this.#mode === 'escaped'
  }

  /** The position of the oldest character that is still needed. */
  get oldest(): number {
    const { position } = this.#cursor
    if (this.#isHeld) return this.#encoded.position
    const near = this.#rowStart >= 0 && position - this.#rowStart <= lookAhead
    return near ? this.#rowStart : position
  }

  /** Reads on, at most up to a record or the end of a line; false to wait for more text. */
  read(): boolean {
    const cursor = this.#cursor
    const { store } = cursor
    const index = store.indexAt(cursor.position)
    const base = store.start(index)
    const chunk = store.chunk(index)
    for (let at = cursor.position - base; at < chunk.length; at++) {
      const code = chunk.charCodeAt(at)
      cursor.position = base + at
      if (code === newline) {
        this.#endLine()
        if (this.#containers.length === 0) return true
      } else {
        if (isSpace(code) && !this.#isHeld) {
          if (this.#escaped) this.#escaped = false
          cursor.position++
          continue
        }
        const more = this.#step(code)
        if (!more || this.#record.isOpen || cursor.position !== base + at + 1) return more
      }
    }
    return true
  }

  #endLine(): void {
    this.#cursor.position++
    this.#cursor.line++
    this.#quote = 0
    this.#escaped = false
    if (this.#mode === 'comment' || this.#mode === 'encoded') this.#mode = 'text'
  }

  /** Reads one character that is not white space; false to wait for more text. */
  #step(code: number): boolean {
    switch (this.#mode) {
      case 'text':
        return this.#quote === 0 ? this.#stepText(code) : this.#stepString(code)
      case 'comment':
        return this.#pass(1, false)
      case 'block':
        return this.#stepBlock(code)
      case 'thinking':
        return this.#stepThought(code)
      case 'encoded':
        return this.#stepEncoded(code)
      case 'escaped':
        return this.#stepEscaped(code)
    }
  }

  #stepText(code: number): boolean {
    if (!this.#begun) {
      const words = this.#mark(openingWords)
      if (words.kind === 'wait') return false
      this.#begun = true
      if (words.kind === 'thinks') return this.#passMark(words)
    }
    const top = this.#containers.at(-1)
    switch (structural(code)) {
      case openBrace:
        return this.#stepBrace(top)
      case openBracket:
        return this.#stepBracket(top)
      case closeBrace:
        return this.#closeContainer(openBrace)
      case closeBracket:
        return this.#closeContainer(openBracket)
      case comma:
        if (top) top.valueDue = false
        this.#rowStart = -1
        this.#cursor.position++
        return true
      case colon:
        if (top?.kind !== openBrace) return this.#passProse()
        top.valueDue = true
        this.#cursor.position++
        return true
      case less:
      case openTriangle: {
        const mark = this.#mark(markAt)
        return mark.kind === 'none' ? this.#passProse() : this.#passMark(mark)
      }
      case slash:
      case hash:
        return this.#stepComment(code)
      case backtick:
      case tilde:
        return this.#stepFence(code)
      case doubleQuote: {
        const encoded = this.#cursor.ahead(opensEncoded)
        if (encoded === 'wait') return false
        if (encoded === 'yes') {
          this.#encoded = this.#cursor.place
          this.#mode = 'encoded'
          this.#cursor.position++
          return true
        }
        if (top) break
        const string = this.#cursor.ahead(opensString)
        if (string === 'wait') return false
        if (string === 'yes') this.#quote = code
        break
      }
    }
    if (top && (code === doubleQuote || (top.kind === openBrace && isQuote(code)))) this.#quote = code
    return this.#passProse()
  }

  #stepBrace(top: Container | undefined): boolean {
    if (this.#cursor.position === this.#record.wrapperAt) {
      this.#record.wrapperAt = -1
      return this.#openContainer(openBrace, 1)
    }
    const opens = this.#opensRecord()
    if (opens !== 'yes') return opens === 'no' && this.#stepNoRecord(top)
    const value = top?.kind === openBrace ? top.valueDue : (top?.level ?? 0) > wrapperDepth
    if (top && value) return this.#openContainer(openBrace, top.level + 1)
    // No value is expected here: the wrapper was never closed, and something new begins.
    if (top?.kind === openBrace) this.#containers = []
    if (this.#options.root !== undefined) {
      const rooted = this.#cursor.ahead((after, complete) =>
        opensRoot(this.#options.root ?? '', after, complete),
      )
      if (rooted === 'wait') return false
      if (rooted === 'yes') return this.#openContainer(openBrace, 1)
    }
    this.#record.begin()
    this.endsInThought = false
    this.#rowStart = -1
    // After it, a comment may follow on its line.
    this.#proseLine = 0
    return true
  }

  /** A brace that opens no record: prose, unless it begins its line and looks like a broken record. */
  #stepNoRecord(top: Container | undefined): boolean {
    const cursor = this.#cursor
    const escaped = cursor.position < this.#bareAt ? 'no' : cursor.ahead(opensEscaped)
    if (escaped !== 'no') return escaped === 'yes' && this.#beginEscaped()
    const isFirst = this.#proseLine !== cursor.line && this.#fenceLine !== cursor.line
    const isPlain = cursor.store.code(cursor.position) === openBrace
    if (top?.kind === openBrace || !isFirst || !isPlain) return this.#passProse()
    const inArray = top !== undefined
    const broken = cursor.ahead((after, complete) => opensBrokenRecord(after, complete, inArray))
    if (broken !== 'yes') return broken === 'no' && this.#passProse()
    const near = cursor.store.slice(cursor.position, cursor.position + lookAhead)
    const [line = ''] = (inArray ? /^\{[^{}\n]*\}?/ : /^[^\n]*/).exec(near) ?? []
    // The closer of an array around it is left unread.
    const record = line.replace(/[\s,\]]+$/, '')
    this.#records.reject('invalid_json', cursor.line, record)
    this.#rowStart = -1
    this.#ignoredLine = cursor.line
    const isCut = !inArray && line.length === lookAhead
    if (isCut) this.#mode = 'comment'
    cursor.position += isCut ? 1 : record.length
    return true
  }

  #beginEscaped(): boolean {
    this.#encoded = this.#cursor.place
    const { store, position } = this.#cursor
    this.#escapedScan = new EscapedScan(/^\{\s*&/.test(store.slice(position, position + lookAhead)))
    this.#mode = 'escaped'
    return this.#stepEscaped(openBrace)
  }

  #stepBracket(top: Container | undefined): boolean {
    const mark = this.#mark(markAt)
    if (mark.kind !== 'none') return this.#passMark(mark)
    if (top === undefined) {
      const opens = this.#cursor.ahead(opensArray)
      if (opens !== 'yes') return opens === 'no' && this.#passProse()
    }
    return this.#openContainer(openBracket, top && top.level > 0 ? top.level + 1 : 0)
  }

  #openContainer(kind: Container['kind'], level: number): boolean {
    const cursor = this.#cursor
    if (this.#rowStart < 0) this.#rowStart = cursor.position
    this.#containers.push({ kind, level, valueDue: false })
    this.endsInThought = false
    cursor.position++
    if (this.#containers.length <= this.#options.maxDepth) return true
    const near = cursor.position - this.#rowStart <= lookAhead
    const start = near ? this.#rowStart : cursor.position - 1
    this.#records.reject('too_deep', cursor.line, cursor.excerpt(start, cursor.position))
    this.#record.skip(this.#containers.length)
    this.#containers = []
    this.#rowStart = -1
    return true
  }

  #closeContainer(kind: Container['kind']): boolean {
    const index = this.#containers.findLastIndex((container) => container.kind === kind)
    if (index < 0) return this.#pass(1, true)
    this.#containers.length = index
    this.#rowStart = -1
    const top = this.#containers.at(-1)
    if (top) top.valueDue = false
    this.#cursor.position++
    return true
  }

  /** The mark that `find` recognizes at the cursor. Mostly two characters are enough. */
  #mark(find: (text: string, complete: boolean) => Mark): Mark {
    const { store, position, complete } = this.#cursor
    const near = find(store.slice(position, position + 2), complete && position + 2 >= store.end)
    if (near.kind !== 'wait' || position + 2 >= store.end) return near
    return find(store.slice(position, position + longestMark), complete)
  }

  /** Passes a mark outside of a thought; false to wait for more text. */
  #passMark(mark: Mark): boolean {
    switch (mark.kind) {
      case 'none':
      case 'wait':
        return false
      case 'thinks':
        if (this.#called) break
        this.#mode = 'thinking'
        this.endsInThought = true
        this.#marker = mark.marker
        break
      case 'thought':
        this.#wasThought()
        break
      case 'final':
        if (!this.#final) this.#wasThought()
        this.#final = true
    }
    this.#called = mark.kind === 'call'
    return this.#pass(mark.length, false)
  }

  /** Everything before was a thought, including prose. */
  #wasThought(): void {
    this.prose = false
    this.endsInThought = true
    this.#records.thought()
  }

  #stepThought(code: number): boolean {
    const marker = this.#marker
    const mayEnd =
      code === less || code === openBracket || code === openTriangle || marker?.words !== undefined
    if (!marker || !mayEnd) return this.#pass(1, false)
    const mark = this.#mark((text, complete) => endOfThought(text, marker, complete))
    if (mark.kind === 'wait') return false
    if (mark.kind === 'none') return this.#pass(1, false)
    this.#mode = 'text'
    return this.#pass(mark.length, false)
  }

  #stepComment(code: number): boolean {
    if (this.#proseLine === this.#cursor.line) return this.#passProse()
    const { store, position, complete } = this.#cursor
    const next = store.code(position + 1)
    if (next < 0 && !complete) return false
    // `#1` is a list mark.
    const block = code === slash && next === asterisk
    const comment = code === slash ? next === slash || block : next < 0x30 || next > 0x39
    if (!comment) return this.#passProse()
    // A thought that is not closed soon hides only its line.
    const closes = block ? this.#cursor.ahead(closesComment) : 'no'
    if (closes === 'wait') return false
    this.#mode = closes === 'yes' ? 'block' : 'comment'
    return this.#pass(block ? 2 : 1, false)
  }

  #stepBlock(code: number): boolean {
    if (code !== asterisk || this.#cursor.store.code(this.#cursor.position + 1) !== slash)
      return this.#pass(1, false)
    this.#mode = 'text'
    return this.#pass(2, false)
  }

  #stepFence(code: number): boolean {
    const mark = String.fromCharCode(code).repeat(3)
    const { store, position, complete } = this.#cursor
    const text = store.slice(position, position + 3)
    if (text.length < 3 && mark.startsWith(text) && !complete) return false
    if (text !== mark) return this.#passProse()
    this.#fenceLine = this.#cursor.line
    return this.#pass(3, false)
  }

  /** In a string, which ends at the latest with its line. */
  #stepString(code: number): boolean {
    if (this.#escaped) this.#escaped = false
    else if (code === backslash) this.#escaped = true
    else if (closes(this.#quote, code)) this.#quote = 0
    return this.#passProse()
  }

  #stepEncoded(code: number): boolean {
    const cursor = this.#cursor
    cursor.position++
    if (cursor.position - this.#encoded.position > this.#options.maxRecord) {
      this.#records.reject('too_large', cursor.line, cursor.excerpt(this.#encoded.position, cursor.position))
      this.#mode = 'comment'
    } else if (this.#escaped) this.#escaped = false
    else if (code === backslash) this.#escaped = true
    else if (code === doubleQuote) {
      this.#mode = 'text'
      const text = cursor.store.slice(this.#encoded.position, cursor.position)
      if (!this.#records.encoded(text, this.#encoded.line)) this.#ignore(true)
    }
    return true
  }

  #stepEscaped(code: number): boolean {
    const cursor = this.#cursor
    const { position, line } = this.#encoded
    const read = this.#escapedScan.read(code)
    if (read === 'bare') {
      this.#bareAt = cursor.position
      this.#mode = 'text'
      cursor.moveTo(this.#encoded)
      return this.#passProse()
    }
    cursor.position++
    const text = read === 'end' ? cursor.store.slice(position, cursor.position) : ''
    if (cursor.position - position > this.#options.maxRecord) {
      this.#records.reject('too_large', line, cursor.excerpt(position, cursor.position))
      this.#mode = 'comment'
    } else if (read === 'end') {
      this.#mode = 'text'
      this.#rowStart = -1
      if (!this.#records.encoded(this.#escapedScan.literal(text), line))
        this.#records.reject('invalid_json', line, text)
    }
    return true
  }

  #passProse(): boolean {
    const top = this.#containers.at(-1)
    // A wrapper's own keys and values are neither items nor prose; the elements of its arrays are items.
    if (top?.kind === openBrace) {
      this.#cursor.position++
      return true
    }
    return this.#pass(1, this.#fenceLine !== this.#cursor.line)
  }

  #pass(count: number, prose: boolean): boolean {
    this.#ignore(prose)
    this.#cursor.position += count
    return true
  }

  #ignore(prose: boolean): void {
    if (prose) {
      this.prose = true
      this.#proseLine = this.#cursor.line
    }
    if (this.#ignoredLine >= this.#cursor.line) return
    this.#ignoredLine = this.#cursor.line
    this.ignored++
  }

  #opensRecord(): Ahead {
    const { store, position } = this.#cursor
    // A quote nearly always follows, at once or on the next line.
    let next = position + 1
    while (next < position + 16 && isPlainSpace(store.code(next))) next++
    return store.code(next) === doubleQuote ? 'yes' : this.#cursor.ahead(opensRecord)
  }
}

function isPlainSpace(code: number): boolean {
  return code === 0x20 || code === newline || code === 0x0d || code === 0x09
}
