// The words of the format readers: what a stream of JSON texts is made of, as events, and what a reader can be told.
// A reader gives the same events for every chunking of the same bytes.
import type { RejectReason, RepairName } from '../items/item.ts'

/** The formats by the names that `graphmill parse --format` takes. */
export const formats = ['ndjson', 'jsonl', 'json-seq', 'concatenated'] as const

export type Format = (typeof formats)[number]

/** Bytes in whatever pieces they come. */
export type ByteSource = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** `encoding`: bytes that are no UTF-8 became U+FFFD; `big_integer`: digits that a double would change are handed on as a string; no other. */
export type FormatRepair = 'encoding' | RepairName

/** `line` is 1-based: where the text begins; `text` is at most 200 characters; `message` is one sentence. */
export type FormatEvent =
  | {
      readonly type: 'record'
      readonly value: unknown
      readonly line: number
      /** What should follow the text was missing at the end of the input (a newline; behind a bare number, anything). */
      readonly unterminated: boolean
      readonly repairs: readonly FormatRepair[]
    }
  | {
      readonly type: 'rejected'
      /** `broken`: cut off before the next text began. */
      readonly reason: RejectReason
      readonly line: number
      readonly text: string
      readonly message: string
    }
  /** The input ended inside a text. Always the last event. */
  | { readonly type: 'truncated'; readonly line: number; readonly text: string; readonly message: string }
  /** What belongs to no text, such as a byte order mark or an empty element; `lines` of it hold something to read. */
  | {
      readonly type: 'ignored'
      readonly line: number
      readonly lines: number
      readonly text: string
      readonly message: string
    }

export interface FormatOptions {
  /**
   * Reject what the format forbids and a lenient reader forgives: a byte order mark, bytes that are no UTF-8, for JSON Lines
   * blank lines. Concatenated JSON ends at its first rejection, behind which nothing is certain. Default false.
   */
  readonly strict?: boolean
  /** Lines of nothing but white space in ndjson and jsonl. Default `ignore`; for jsonl `reject` where `strict`. */
  readonly blankLines?: 'ignore' | 'reject'
  /** Throw `record_invalid` at the first rejected or truncated text. Default false. */
  readonly raise?: boolean
  /** Largest text in bytes; memory is bounded by it. Default 1,048,576. */
  readonly maxRecord?: number
  /** Deepest nesting. Default 64. */
  readonly maxDepth?: number
  /** What each value must pass, such as a schema: gives what is wrong with it, or undefined. Default: anything passes. */
  readonly check?: (value: unknown) => string | undefined
}

/** The options with their defaults. */
export type FormatRules = Required<Omit<FormatOptions, 'raise'>>

export function rulesOf(options: FormatOptions, blankLines: 'ignore' | 'reject' = 'ignore'): FormatRules {
  return { strict: false, blankLines, maxRecord: 1_048_576, maxDepth: 64, check: () => undefined, ...options }
}
