// Finds the records in text that arrives in pieces: what is between them is skipped, and each record is followed to its end. The records do
// not depend on the pieces; time is linear in the text, and memory is bounded by one record.

import { Cursor } from './cursor.ts'
import { WholeRecords } from './fast-path.ts'
import { Between } from './outside-record.ts'
import { OpenRecord } from './record-reader.ts'
import type { Records, ScannerOptions } from './records.ts'

/** Longer text is cut into pieces, so that repeated searches in a piece stay short. */
const longestPiece = 4096

export class Scanner {
  readonly #cursor = new Cursor()
  readonly #wholeRecords: WholeRecords
  readonly #record: OpenRecord
  readonly #between: Between
  readonly #mayTake: boolean
  /** Whole records are being taken: the store is empty. */
  #taking = false
  /** The record that begins here has to be read on the slow path. */
  #slowAt = -1

  constructor(records: Records, options: ScannerOptions) {
    this.#wholeRecords = new WholeRecords(this.#cursor, records, options.maxRecord)
    this.#record = new OpenRecord(this.#cursor, records, options)
    this.#between = new Between(this.#cursor, records, this.#record, options)
    this.#mayTake = options.wholeRecords
  }

  /** Lines with ignored text. */
  get ignored(): number {
    return this.#between.ignored
  }

  /** Whether some ignored text was not a fence, a comment, a stop token or thinking. */
  get prose(): boolean {
    return this.#between.prose
  }

  /** Whether a thought is open. */
  get thinking(): boolean {
    return this.#between.thinking
  }

  /** Whether the text so far ends in a thought, or in prose after it. */
  get endsInThought(): boolean {
    return this.#between.endsInThought
  }

  push(text: string): void {
    if (text.length > longestPiece) {
      for (let at = 0; at < text.length; at += longestPiece) this.push(text.slice(at, at + longestPiece))
      return
    }
    const cursor = this.#cursor
    let rest = this.#taking ? this.#take(text) : text
    while (rest.length > 0) {
      cursor.store.append(rest)
      if (!this.#run()) {
        cursor.store.drop(Math.min(this.#record.start ?? cursor.position, this.#between.oldest))
        return
      }
      this.#record.withdraw()
      rest = this.#take(cursor.store.slice(cursor.position, cursor.store.end))
    }
  }

  /** The text is over: settles what was waiting for more. Returns whether the reply was cut off, and the cut record. */
  end(): { truncated: boolean; tail: string } {
    const cursor = this.#cursor
    cursor.complete = true
    const held = this.#wholeRecords.release()
    if (held !== '') {
      this.#leave()
      cursor.store.append(held)
    }
    do {
      while (this.#run()) this.#slowAt = cursor.position
    } while (this.#record.recover())
    const { start } = this.#record
    const tail = start === undefined ? '' : cursor.excerpt(start, cursor.store.end)
    return { truncated: this.#record.isOpen || this.#between.isOpen, tail }
  }

  /** Reads the store; true when it stopped at a record that may be taken as a whole. */
  #run(): boolean {
    const cursor = this.#cursor
    const record = this.#record
    while (cursor.position < cursor.store.end) {
      if (!record.isOpen) {
        if (!this.#between.read()) return false
      } else if (this.#mayTake && cursor.position === record.start && cursor.position !== this.#slowAt) {
        return true
      } else if (!record.read()) return false
    }
    return false
  }

  /** Takes the records at the beginning of `text`, and returns the text for the slow path. */
  #take(text: string): string {
    const rest = this.#wholeRecords.take(text)
    this.#taking = rest.length === 0
    if (!this.#taking) this.#leave()
    return rest
  }

  #leave(): void {
    const { store, position } = this.#cursor
    this.#slowAt = position
    store.restart(position)
  }
}
