// Reads one record: where it ends, whether it is a wrapper, and whether a new record begins inside it. A cut value is never completed: a
// record is closed only when the next one begins and no value is missing.
import { isQuote } from './characters.ts'
import type { Cursor, ReplyPlace } from './cursor.ts'
import type { RejectReason } from './item.ts'
import { leadingObject } from './leading-object.ts'
import { type Ahead, opensRecord } from './lookahead.ts'
import { RecordScan } from './record-scan.ts'
import type { Records, ScannerOptions } from './records.ts'

export class OpenRecord {
  /** The object that begins here is a wrapper: its elements are the records. */
  wrapperAt = -1
  /** There is one. */
  isOpen = false
  readonly #scan: RecordScan
  readonly #cursor: Cursor
  readonly #records: Records
  readonly #maxRecord: number
  #line = 0
  /** At a `{` that begins a line in the record. */
  #atHead = false
  /** The first line in the record, in the place of a value, that would be an item by itself. */
  #deferred: ReplyPlace | undefined
  /** Up to here such lines count at once, since they were read before. */
  #readBefore = 0
  /** The record has every required key, so it is not a wrapper. */
  #noWrapper = false

  constructor(cursor: Cursor, records: Records, options: ScannerOptions) {
    this.#cursor = cursor
    this.#records = records
    this.#maxRecord = options.maxRecord
    this.#scan = new RecordScan(options.maxDepth)
  }

  /** The position of its first character; undefined when there is no record, or only its end is searched for. */
  get start(): number | undefined {
    return this.isOpen && !this.#scan.skipped ? this.#scan.start : undefined
  }

  /** A record begins at the cursor. */
  begin(): void {
    const { position, line } = this.#cursor
    this.#scan.begin(position, line)
    this.isOpen = true
    this.#line = line
    this.#noWrapper = false
  }

  /** The record is read again, by another reader or from its beginning. */
  withdraw(): void {
    this.isOpen = false
  }

  /** A rejected value, `depth` deep, is skipped up to its end. */
  skip(depth: number): void {
    const { position, line } = this.#cursor
    this.#scan.beginSkipping(position, line, depth)
    this.isOpen = true
  }

  /** Reads on; false to wait for more text. */
  read(): boolean {
    const scan = this.#scan
    if (this.#atHead) {
      const verdict = this.#newRecordHere(scan)
      if (verdict !== 'wait') this.#atHead = false
      return verdict !== 'wait'
    }
    const cursor = this.#cursor
    const { store } = cursor
    const index = store.indexAt(cursor.position)
    const base = store.start(index)
    const chunk = store.chunk(index)
    const limit = scan.skipped ? chunk.length : Math.min(chunk.length, scan.start + this.#maxRecord - base)
    cursor.position = base + scan.scan(chunk, base, cursor.position - base, limit)
    cursor.line = scan.line
    if (scan.stop === 'closed') this.#close(scan)
    else if (scan.stop === 'deep') this.#rejectAndSkip(scan, 'too_deep')
    else {
      this.#atHead = scan.stop === 'head'
      if (scan.stop === 'element') this.#considerWrapper(scan)
      const large = this.start !== undefined && cursor.position - scan.start >= this.#maxRecord
      if (large) this.#rejectAndSkip(scan, 'too_large')
    }
    return true
  }

  /** At the end of the reply: gives up a record that may contain others; false when it is just cut off. */
  recover(): boolean {
    if (!this.#records.hasSchema) return false
    if (this.#deferred === undefined) {
      this.#takeComplete()
      return false
    }
    this.#breakAt(this.#deferred)
    return true
  }

  /** The items in a wrapper that was cut off: its complete members, and elements of its lists. */
  #takeComplete(): void {
    const { start } = this
    const { end, lists } = this.#scan.complete
    if (start === undefined || end < 0) return
    this.#records.cut(`${this.#cursor.store.slice(start, end)}${']'.repeat(lists)}}`, this.#line)
  }

  #rejectAndSkip(scan: RecordScan, reason: RejectReason): void {
    this.#records.reject(reason, this.#line, this.#cursor.excerpt(scan.start, this.#cursor.position))
    this.#deferred = undefined
    scan.skip()
  }

  /** At a `{` that begins a line in an open record: whether a new record begins here. */
  #newRecordHere(scan: RecordScan): Ahead {
    const cursor = this.#cursor
    const here = cursor.place
    const state = scan.lineState
    const opens = cursor.ahead(opensRecord)
    if (opens !== 'yes') return opens
    if (state === 'closes' && this.#deferred === undefined) {
      const text = cursor.store.slice(scan.start, here.position).trimEnd()
      const outcome = this.#records.record(text, this.#line, { closed: true, recoverable: false })
      if (outcome === 'wrapper') this.#readAsWrapper(scan)
      else this.#leave(here)
      return 'yes'
    }
    const early = state === 'legal' && here.position >= this.#readBefore
    if (early && this.#deferred !== undefined) return 'no'
    const end = cursor.lineEnd()
    const length = (end < 0 ? cursor.store.end : end) - here.position
    if (length > this.#maxRecord) return 'no'
    if (end < 0) return 'wait'
    const object = leadingObject(cursor.store.slice(here.position, end))
    if (object === undefined || !this.#records.passes(object)) return 'no'
    if (early) this.#deferred = here
    else this.#breakAt(this.#deferred ?? here)
    return 'yes'
  }

  /** Gives up the record as broken, and reads on from `place`. */
  #breakAt(place: ReplyPlace): void {
    const { start } = this
    if (start !== undefined) {
      const text = this.#cursor.excerpt(start, place.position).replace(/[\s\x1e]+$/, '')
      this.#records.reject('broken', this.#line, text)
    }
    this.#readBefore = Math.max(this.#readBefore, this.#cursor.position)
    this.#leave(place)
  }

  #leave(place: ReplyPlace): void {
    this.isOpen = false
    this.#deferred = undefined
    this.#atHead = false
    this.#cursor.moveTo(place)
  }

  #close(scan: RecordScan): void {
    const cursor = this.#cursor
    const deferred = this.#deferred
    if (scan.skipped) {
      this.#leave(cursor.place)
      return
    }
    const text = cursor.store.slice(scan.start, cursor.position)
    const outcome = this.#records.record(text, this.#line, {
      closed: false,
      recoverable: deferred !== undefined,
    })
    if (outcome === 'wrapper') this.#readAsWrapper(scan)
    else if (outcome === 'unreadable' && deferred) this.#breakAt(deferred)
    else this.#leave(cursor.place)
  }

  /** An element of an array ended. If it is an item while the record lacks a required key, the record is its wrapper. */
  #considerWrapper(scan: RecordScan): void {
    const records = this.#records
    if (this.#noWrapper || scan.skipped || !records.requires) return
    const { store, position } = this.#cursor
    if (!records.passes(store.slice(scan.elementStart, position))) return
    const names: string[] = []
    for (let index = 0; index < scan.keys.length; index += 2) {
      const key = store.slice(scan.keys[index]!, scan.keys[index + 1]!)
      names.push(isQuote(key.charCodeAt(0)) ? key.slice(1, -1) : key)
    }
    if (records.lacks(names)) this.#readAsWrapper(scan)
    else this.#noWrapper = true
  }

  /** Reads the record again, and skips everything in it except the elements of its arrays. */
  #readAsWrapper(scan: RecordScan): void {
    this.#leave({ position: scan.start, line: this.#line })
    this.wrapperAt = scan.start
  }
}
