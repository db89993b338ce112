// What the scanner needs to know of the records that it finds: the contract between it and the parser.
import type { RejectReason } from './item.ts'

/**
 * What became of a whole record. `unreadable`: nothing was said, other records may be found in it.
 * `wrapper`: the items are the elements of its arrays.
 */
export type Outcome = 'taken' | 'unreadable' | 'wrapper'

/** Takes records; the scanner asks where a record's end or kind depends on what it holds. */
export interface Records {
  /** What may be a record: taken if it is an exact item with nothing that asks for a second look. */
  exact(text: string, line: number): boolean
  /** A whole record. `closed`: but for its last brace. `recoverable`: it may be `unreadable`. */
  record(text: string, line: number, how: { closed: boolean; recoverable: boolean }): Outcome
  /** A JSON string that may hold an object: false if it is just a string. */
  encoded(text: string, line: number): boolean
  reject(reason: RejectReason, line: number, text: string): void
  /** All that was found so far was a thought: its end was met, and no beginning. */
  thought(): void
  /** Whether a record would be an item; without a schema, whether it is JSON as it stands. */
  passes(text: string): boolean
  /** Whether there is a schema. */
  readonly hasSchema: boolean
  /** Whether the schema requires a key in every item. */
  readonly requires: boolean
  /** Whether an object with these keys still lacks one that is required. */
  lacks(keys: readonly string[]): boolean
}

export interface ScannerOptions {
  readonly maxDepth: number
  /** In characters. */
  readonly maxRecord: number
  /** Take whole records at once where they are exact items. The records are the same without; for tests. */
  readonly wholeRecords: boolean
  /** The one key of a wrapper that the reply is known to be, as `/items`. */
  readonly root: string | undefined
}
