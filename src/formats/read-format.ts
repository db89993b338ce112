// Reads a format by its name: as a stream, or the whole input as the object that `graphmill parse` prints.
import type { RejectReason } from '../items/item.ts'
import { readConcatenatedJson } from './concatenated.ts'
import type { ByteSource, Format, FormatEvent, FormatOptions, FormatRepair } from './format.ts'
import { readJsonLines, readNdjson } from './json-lines.ts'
import { readJsonSeq } from './json-seq.ts'

const readers = {
  ndjson: readNdjson,
  jsonl: readJsonLines,
  'json-seq': readJsonSeq,
  concatenated: readConcatenatedJson,
} as const satisfies Record<Format, unknown>

/** The records of `source`, each as soon as it is certain. */
export function readFormat(
  format: Format,
  source: ByteSource,
  options: FormatOptions = {},
): AsyncGenerator<FormatEvent, void> {
  return readers[format](source, options)
}

/** The content of an input. `line` is 1-based, `text` at most 200 characters, `item` an index into `items`. */
export interface ParsedFormat {
  readonly items: readonly unknown[]
  readonly rejected: readonly {
    readonly reason: RejectReason
    readonly line: number
    readonly text: string
  }[]
  readonly repaired: readonly {
    readonly item: number
    readonly line: number
    readonly repairs: readonly FormatRepair[]
  }[]
  /** Lines with text that belongs to no record. */
  readonly ignored: number
  /** The input ended inside a record. */
  readonly truncated: boolean
}

/** Reads the whole of `source`. Every value is held in memory; `readFormat` streams. */
export async function parseFormat(
  format: Format,
  source: ByteSource,
  options: FormatOptions = {},
): Promise<ParsedFormat> {
  const items: unknown[] = []
  const rejected: ParsedFormat['rejected'][number][] = []
  const repaired: ParsedFormat['repaired'][number][] = []
  let ignored = 0
  let truncated = false

  for await (const event of readFormat(format, source, options)) {
    if (event.type === 'record') {
      if (event.repairs.length > 0)
        repaired.push({ item: items.length, line: event.line, repairs: event.repairs })
      items.push(event.value)
    } else if (event.type === 'rejected')
      rejected.push({ reason: event.reason, line: event.line, text: event.text })
    else if (event.type === 'truncated') truncated = true
    else ignored += event.lines
  }
  return { items, rejected, repaired, ignored, truncated }
}
