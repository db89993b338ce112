// The contract between the scanner, which finds records, and the parser, which reads them.
import type { RejectReason } from './item.ts'

/**
 * What the parser did with a whole record. `unreadable`: it reported nothing, and the record may contain others. `wrapper`: the items are the
 * elements of its arrays.
 */
export type RecordOutcome = 'taken' | 'unreadable' | 'wrapper'

/** Takes records. The scanner asks when the end or kind of a record depends on its content. */
export interface Records {
  /** Takes text that may be a record, if it is an exact item that needs no second look. */
  exact(text: string, line: number): boolean
  /** Takes a whole record. `closed`: only its last brace was missing. `recoverable`: the answer may be `unreadable`. */
  record(text: string, line: number, how: { closed: boolean; recoverable: boolean }): RecordOutcome
  /** Takes what is complete in a record that the reply's end cut off; its open lists and its own brace were closed. */
  cut(text: string, line: number): void
  /** Takes a JSON string that may hold objects; false if it is just a string. */
  encoded(text: string, line: number): boolean
  reject(reason: RejectReason, line: number, text: string): void
  /** Everything found so far was a thought: its end was found, but no beginning. */
  thought(): void
  /** Whether a record would be an item; without a schema, whether it is JSON as it stands. */
  passes(text: string): boolean
  /** Whether there is a schema. */
  readonly hasSchema: boolean
  /** Whether the schema requires a key in every item. */
  readonly requires: boolean
  /** Whether an object with these keys still lacks a required one. */
  lacks(keys: readonly string[]): boolean
}

export interface ScannerOptions {
  readonly maxDepth: number
  /** In characters. */
  readonly maxRecord: number
  /** Whether exact items are taken as a whole. The records are the same without it; for tests. */
  readonly wholeRecords: boolean
  /** The only key of a wrapper that the reply is known to be, such as `/items`. */
  readonly root: string | undefined
}
