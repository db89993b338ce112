// Text in any split to records: what stands between them is passed over, what opens as one is followed to its end.
// Same records for every split, time linear in the text, memory bounded by one record.
import { Between } from './between.ts'
import { openBrace } from './characters.ts'
import { Cursor } from './cursor.ts'
import { OpenRecord } from './open-record.ts'
import type { Records, ScannerOptions } from './records.ts'
import { WholeLines } from './whole-lines.ts'

/** More text at once is cut into pieces, so that what is looked up in a piece, again and again, is never far away. */
const longestPiece = 4096

export class Scanner {
  readonly #cursor = new Cursor()
  readonly #wholeLines: WholeLines
  readonly #record: OpenRecord
  readonly #between: Between
  /** At the beginning of a line that may be taken whole: nothing is in the store. */
  #whole: boolean
  readonly #mayTakeLines: boolean
  /** The line that begins here has to be read the slow way. */
  #slowLine = -1

  constructor(records: Records, options: ScannerOptions) {
    this.#wholeLines = new WholeLines(this.#cursor, records, options.maxRecord)
    this.#record = new OpenRecord(this.#cursor, records, options)
    this.#between = new Between(this.#cursor, records, this.#record, options)
    this.#mayTakeLines = options.wholeLines
    this.#whole = options.wholeLines
  }

  /** Lines with ignored text. */
  get ignored(): number {
    return this.#between.ignored
  }

  /** Whether some of what was ignored was neither a fence, a comment, a stop token nor thinking. */
  get prose(): boolean {
    return this.#between.prose
  }

  push(text: string): void {
    if (text.length > longestPiece) {
      for (let at = 0; at < text.length; at += longestPiece) this.push(text.slice(at, at + longestPiece))
      return
    }
    const rest = this.#whole ? this.#takeLines(text) : text
    if (rest.length > 0) this.#read(rest)
  }

  #read(text: string): void {
    const { store } = this.#cursor
    for (let rest = text; rest.length > 0; ) {
      store.append(rest)
      rest = ''
      if (this.#run()) {
        rest = store.slice(this.#cursor.position, store.end)
        store.restart(this.#cursor.position)
        rest = this.#takeLines(rest)
      } else {
        store.drop(Math.min(this.#record.start ?? this.#cursor.position, this.#between.oldest))
        this.#whole = this.#atWholeLine && this.#cursor.position === store.end
      }
    }
  }

  /** The text is over: settles what was waiting for more. Tells whether the reply was cut off, and the cut record. */
  end(): { truncated: boolean; tail: string } {
    const cursor = this.#cursor
    cursor.complete = true
    const held = this.#wholeLines.release()
    if (held !== '') this.#readSlowly(held)
    do {
      while (this.#run()) this.#slowLine = cursor.position
    } while (this.#record.recover())
    const { start } = this.#record
    const tail = start === undefined ? '' : cursor.excerpt(start, cursor.store.end)
    return { truncated: this.#record.isOpen || this.#between.isOpen, tail }
  }

  /** Reads what the store holds; true where it stopped at a line that may be taken whole. */
  #run(): boolean {
    const cursor = this.#cursor
    while (cursor.position < cursor.store.end) {
      if (this.#record.isOpen) {
        if (!this.#record.read()) return false
      } else {
        if (this.#atWholeLine && cursor.store.code(cursor.position) === openBrace) return true
        if (!this.#between.read()) return false
      }
    }
    return false
  }

  get #atWholeLine(): boolean {
    const { position } = this.#cursor
    return (
      this.#mayTakeLines &&
      !this.#record.isOpen &&
      this.#between.atLine &&
      position !== this.#slowLine &&
      position !== this.#record.wrapperAt
    )
  }

  /** Takes the lines of `text` that are exact items, and gives the text that has to be read the slow way. */
  #takeLines(text: string): string {
    const lines = this.#wholeLines
    const rest = lines.take(text)
    this.#whole = rest.length === 0
    if (!this.#whole) this.#leaveLines(rest)
    return rest
  }

  #readSlowly(text: string): void {
    this.#leaveLines(text)
    this.#cursor.store.append(text)
  }

  #leaveLines(rest: string): void {
    const { store, position } = this.#cursor
    this.#whole = false
    store.restart(position)
    if (rest.length > 0) this.#slowLine = position
    this.#between.passLines(this.#wholeLines.lineOpen)
    this.#wholeLines.lineOpen = false
  }
}
