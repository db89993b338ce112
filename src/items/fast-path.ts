// The fast way: a record that is an exact item is taken whole, at its closing brace, without a look at every character.
// The records are the same as the slow way's; whatever else is met is left to that.
import { closeBracket, comma, doubleQuote, isSpace, newline, openBrace } from './characters.ts'
import type { Cursor } from './cursor.ts'
import { leadingObject } from './leading-object.ts'
import type { Records } from './records.ts'

/** A record without an end is held back at most this long, in characters. */
const longestHeld = 4096
/** With so many braces closed in it a record is read the slow way, which looks at each character once. */
const mostClosed = 8

export class WholeRecords {
  /** The beginning of a record, as far as it came; it is not in the store. */
  #held = ''
  /** Closing braces in it. */
  #closed = 0
  /** A record went on after a closing brace: from now on each is looked at before it is parsed. */
  #careful = false
  readonly #cursor: Cursor
  readonly #records: Records
  readonly #maxRecord: number

  constructor(cursor: Cursor, records: Records, maxRecord: number) {
    this.#cursor = cursor
    this.#records = records
    this.#maxRecord = maxRecord
  }

  /** From where a record may begin: takes what can be taken, and gives the text that has to be read the slow way. */
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

  /** Gives what was held back, to be read the slow way. */
  release(): string {
    return this.#leave(this.#held)
  }

  #leave(rest: string): string {
    this.#held = ''
    this.#closed = 0
    return rest
  }

  /** Commas and white space between records; gives the index of what follows. */
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

  /** Whether a record that was not taken at a closing brace may be at a later one. */
  #mayGoOn(record: string): boolean {
    if (isClosed(record)) return false
    this.#careful = true
    // What holds an array may be a wrapper, whose items shall not wait; nor shall those after a broken line.
    return ++this.#closed < mostClosed && !record.includes('[') && !record.includes('\n')
  }
}

/** Whether the brace with which `record` ends closes the one with which it begins: nearly always told at a glance. */
function isClosed(record: string): boolean {
  return (record.indexOf('{', 1) < 0 && endsValue(record)) || leadingObject(record) === record
}

/** Whether a value may end before the last brace, rather than a word in a string. */
function endsValue(record: string): boolean {
  let end = record.length - 1
  while (isSpace(record.charCodeAt(end - 1))) end--
  const last = record.charCodeAt(end - 1)
  if (last === doubleQuote || last === closeBracket || last === openBrace) return true
  if (last <= 0x39) return last >= 0x30
  return record.endsWith('true', end) || record.endsWith('false', end) || record.endsWith('null', end)
}
