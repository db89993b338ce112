// The position of the scanner in the reply, and the text from there on as far as it has arrived.
import { excerptSource } from './excerpt.ts'
import { type Ahead, lookAhead } from './lookahead.ts'
import { TextStore } from './text-store.ts'

/** A position in the reply, and its 1-based line. */
export interface ReplyPlace {
  readonly position: number
  readonly line: number
}

/** Looking this far ahead is nearly always enough. */
const nearEnough = 32

export class Cursor {
  readonly store = new TextStore()
  position = 0
  line = 1
  /** No more text will come. */
  complete = false
  readonly #newline = new NextPlace('\n')
  readonly #separator = new NextPlace('\x1e')

  get place(): ReplyPlace {
    return { position: this.position, line: this.line }
  }

  /** Moves back or forward to `place`. */
  moveTo(place: ReplyPlace): void {
    this.position = place.position
    this.line = place.line
  }

  /** Calls `question` with the text after the character at the position. */
  ahead(question: (after: string, complete: boolean) => Ahead): Ahead {
    const after = this.position + 1
    const near = after + nearEnough
    const answer = question(this.store.slice(after, near), this.complete && near >= this.store.end)
    if (answer !== 'wait' || near >= this.store.end) return answer
    return question(this.store.slice(after, after + lookAhead), this.complete)
  }

  /** The beginning of the text from `start`, at most up to `end`: long enough for `excerptOf`. */
  excerpt(start: number, end: number): string {
    return this.store.slice(start, Math.min(start + excerptSource, end))
  }

  /** Where the line of the position ends: at a newline, a record separator or the end of the text; -1 if not known yet. */
  lineEnd(): number {
    const newline = this.#newline.next(this.store, this.position)
    const separator = this.#separator.next(this.store, this.position)
    if (newline >= 0 && separator >= 0) return Math.min(newline, separator)
    if (newline < 0 && separator < 0) return this.complete ? this.store.end : -1
    return Math.max(newline, separator)
  }
}

/** Finds the next place of a character in the text. However often it is called, the text is searched about once. */
class NextPlace {
  readonly #character: string
  /** Between these positions the character does not occur; if it was found, it is at the second. */
  #from = 0
  #upTo = 0
  #found = false

  constructor(character: string) {
    this.#character = character
  }

  /** Its position at or after `from`, or -1 if it has not come yet. */
  next(store: TextStore, from: number): number {
    const known = from >= this.#from && from <= this.#upTo
    if (known && this.#found) return this.#upTo
    const place = store.indexOf(this.#character, known ? this.#upTo : from)
    if (!known) this.#from = from
    this.#found = place >= 0
    this.#upTo = this.#found ? place : store.end
    return place
  }
}
