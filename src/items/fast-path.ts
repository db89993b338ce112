// The fast path takes a record that is an exact item as a whole, at its closing brace, without looking at every character. The records are
// the same as on the slow path, which handles everything else.
import { closeBracket, comma, doubleQuote, isSpace, newline, openBrace } from './characters.ts'
import type { Cursor } from './cursor.ts'
import { leadingObject } from './leading-object.ts'
import type { Records } from './records.ts'

/** An incomplete record is held back at most this long, in characters. */
const longestHeld = 4096
/** After so many closed braces a record is read on the slow path, which looks at each character once. */
const mostClosed = 8

export class WholeRecords {
  /** The beginning of a record, as far as it has arrived; it is not in the store. */
  #held = ''
  /** Closing braces in it. */
  #closed = 0
  /** A record continued after a closing brace: from now on each is checked before it is parsed. */
  #careful = false
  readonly #cursor: Cursor
  readonly #records: Records
  readonly #maxRecord: number

  constructor(cursor: Cursor, records: Records, maxRecord: number) {
    this.#cursor = cursor
    this.#records = records
    this.#maxRecord = maxRecord
  }

  /** Called where a record may begin: takes the records that it can, and returns the text for the slow path. */
  take(text: string): string {
    let held = this.#held
    let from = 0
    for (;;) {
      if (held.length === 0) {
        from = this.#pass(text, from)
        if (from < text.length && text.charCodeAt(from) !== openBrace) return this.#leave(text.slice(from))
      }
      const end = text.indexOf('}', from) + 1
      if (end === 0) {
        this.#held = held + (from === 0 ? text : text.slice(from))
        return this.#held.length > longestHeld ? this.release() : ''
      }
      held += text.slice(from, end)
      from = end
      if (this.#takeRecord(held)) held = ''
      else if (!this.#mayGoOn(held)) return this.#leave(held + text.slice(end))
    }
  }

  /** Returns the text that was held back, for the slow path. */
  release(): string {
    return this.#leave(this.#held)
  }

  #leave(rest: string): string {
    this.#held = ''
    this.#closed = 0
    return rest
  }

  /** Skips commas and white space between records; returns the index of what follows. */
  #pass(text: string, from: number): number {
    const cursor = this.#cursor
    let index = from
    for (; index < text.length; index++) {
      const code = text.charCodeAt(index)
      if (code === newline) cursor.line++
      else if (code !== comma && !isSpace(code)) break
    }
    cursor.position += index - from
    return index
  }

  #takeRecord(record: string): boolean {
    const cursor = this.#cursor
    if (record.length > this.#maxRecord || (this.#careful && !isClosed(record))) return false
    if (!this.#records.exact(record, cursor.line)) return false
    cursor.position += record.length
    for (let at = record.indexOf('\n'); at >= 0; at = record.indexOf('\n', at + 1)) cursor.line++
    this.#closed = 0
    return true
  }

  /** Whether a record that was not taken at a closing brace may be taken at a later one. */
  #mayGoOn(record: string): boolean {
    if (isClosed(record)) return false
    this.#careful = true
    // A record with an array may be a wrapper, whose items should not wait; neither should those after a broken line.
    return ++this.#closed < mostClosed && !record.includes('[') && !record.includes('\n')
  }
}

/** Whether the brace at the end of `record` closes the one at its beginning. A glance is nearly always enough. */
function isClosed(record: string): boolean {
  return (record.indexOf('{', 1) < 0 && endsValue(record)) || leadingObject(record) === record
}

/** Whether a value may end before the last brace, as opposed to a word in a string. */
function endsValue(record: string): boolean {
  let end = record.length - 1
  while (isSpace(record.charCodeAt(end - 1))) end--
  const last = record.charCodeAt(end - 1)
  if (last === doubleQuote || last === closeBracket || last === openBrace) return true
  if (last <= 0x39) return last >= 0x30
  return record.endsWith('true', end) || record.endsWith('false', end) || record.endsWith('null', end)
}
