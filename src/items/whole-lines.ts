// The fast way: a whole line that is an exact item is taken at once, without looking at its characters.
// The records are the same as the slow way's; whatever else a line is, it is left to that.
import { closeBrace, isSpace, newline, openBrace } from './characters.ts'
import type { Cursor } from './cursor.ts'
import type { Records } from './records.ts'

/** A line without an end is held back at most this long; a long one may be a wrapper, whose items shall not wait. */
const longestHeldLine = 4096
const shortLine = 256

export class WholeLines {
  /** The beginning of a line, as far as it came; it is not in the store. */
  held = ''
  /** The last line was taken before its newline came. */
  lineOpen = false
  readonly #cursor: Cursor
  readonly #records: Records
  readonly #maxRecord: number

  constructor(cursor: Cursor, records: Records, maxRecord: number) {
    this.#cursor = cursor
    this.#records = records
    this.#maxRecord = maxRecord
  }

  /** From the beginning of a line: takes what can be taken, and gives the text that has to be read the slow way. */
  take(text: string): string {
    const cursor = this.#cursor
    // Lengths are compared, not strings: this runs for every piece of text.
    let held = this.held
    let from = 0
    if (this.lineOpen) {
      if (text.charCodeAt(0) !== newline) return text
      this.lineOpen = false
      cursor.position++
      cursor.line++
      from = 1
    }
    for (let end = text.indexOf('\n', from); end >= 0; end = text.indexOf('\n', from)) {
      if (end > from || held.length > 0) {
        // What is held begins with a brace, as is seen below.
        const begins = held.length > 0 || text.charCodeAt(from) === openBrace
        const part = text.slice(from, end)
        const line = held.length === 0 ? part : held + part
        if (!begins || !this.#takeLine(line, text.charCodeAt(end - 1))) {
          this.held = ''
          return held + text.slice(from)
        }
        cursor.position += line.length
        held = ''
      }
      cursor.position++
      cursor.line++
      from = end + 1
    }
    const { length } = text
    if (from < length) {
      if (held.length === 0 && text.charCodeAt(from) !== openBrace) {
        this.held = ''
        return text.slice(from)
      }
      const part = from === 0 ? text : text.slice(from)
      held = held.length === 0 ? part : held + part
    }
    this.held = held
    // The line may be complete but for its newline.
    if (text.charCodeAt(length - 1) === closeBrace) return this.release()
    const long = held.length > shortLine && (held.length > longestHeldLine || held.includes('['))
    return long ? this.release() : ''
  }

  /** Takes what was held back, or gives it to be read the slow way. */
  release(): string {
    const { held } = this
    this.held = ''
    if (held.length === 0 || !this.#takeLine(held, 0)) return held
    this.#cursor.position += held.length
    this.lineOpen = true
    return ''
  }

  /** `last`: the last character of the line, if that stands in the same piece of text. */
  #takeLine(line: string, last: number): boolean {
    return (
      (last === closeBrace || endsWithBrace(line)) &&
      line.length <= this.#maxRecord &&
      this.#records.exact(line, this.#cursor.line)
    )
  }
}

function endsWithBrace(text: string): boolean {
  let index = text.length - 1
  while (index > 0 && isSpace(text.charCodeAt(index)) && text.charCodeAt(index) !== newline) index--
  return text.charCodeAt(index) === closeBrace
}
