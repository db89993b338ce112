// The types of the format readers: the events of a stream of JSON texts, and the options of a reader. A reader gives the same events for
// every chunking of the same bytes.
import type { RejectReason, RepairName } from '../items/item.ts'

/** The formats by the names that `graphmill parse --format` takes. */
export const formats = ['ndjson', 'jsonl', 'json-seq', 'concatenated'] as const

/** A format of streamed JSON. */
export type Format = (typeof formats)[number]

/** Bytes in pieces of any size. */
export type ByteSource = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** `encoding`: invalid UTF-8 became U+FFFD. `big_integer`: an integer that a double would change became a string. There are no others. */
export type FormatRepair = 'encoding' | RepairName

/** `line` is 1-based: where the text begins; `text` is at most 200 characters; `message` is one sentence. */
export type FormatEvent =
  | {
      readonly type: 'record'
      readonly value: unknown
      readonly line: number
      /** The end of the text was not marked at the end of the input (a newline; after a bare number, anything). */
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
  /** Input that belongs to no text, such as a byte order mark or an empty element; `lines` of it are not blank. */
  | {
      readonly type: 'ignored'
      readonly line: number
      readonly lines: number
      readonly text: string
      readonly message: string
    }

/** How a stream of JSON is read. */
export interface FormatOptions {
  /**
   * Rejects what the format forbids and a lenient reader accepts: a byte order mark, invalid UTF-8, and blank lines in JSON Lines.
   * Concatenated JSON ends at its first rejection, since nothing after it is certain. Default false.
   */
  readonly strict?: boolean
  /** What to do with blank lines in ndjson and jsonl. Default `ignore`; `reject` for jsonl when `strict`. */
  readonly blankLines?: 'ignore' | 'reject'
  /** Whether to throw `record_invalid` at the first rejected or truncated text. Default false. */
  readonly raise?: boolean
  /** Largest text in bytes; it bounds the memory. Default 1,048,576. */
  readonly maxRecord?: number
  /** Deepest nesting. Default 64. */
  readonly maxDepth?: number
  /** Checks each value, for example by a schema: returns what is wrong with it, or undefined. Default: every value passes. */
  readonly check?: (value: unknown) => string | undefined
}

/** The options with their defaults. */
export type FormatRules = Required<Omit<FormatOptions, 'raise'>>

export function rulesOf(options: FormatOptions, blankLines: 'ignore' | 'reject' = 'ignore'): FormatRules {
  return { strict: false, blankLines, maxRecord: 1_048_576, maxDepth: 64, check: () => undefined, ...options }
}
