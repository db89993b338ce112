// Parses a whole reply of any response type to the object that `graphmill parse` prints. The text may arrive in pieces; for jsonl, only the
// output grows with the input.

import { excerptOf } from './excerpt.ts'
import type { RejectReason, RepairName } from './item.ts'
import { valueIn } from './json-value.ts'
import { itemsOf } from './parse-items.ts'
import { createItemsParser } from './parser.ts'
import type { ItemSchema } from './validate.ts'

export type ReplyType = 'text' | 'json' | 'jsonl'

export interface ParseOptions {
  readonly responseType: ReplyType
  /** What an item, or the value of a json reply, must be. */
  readonly schema?: ItemSchema | undefined
  /** The specification's plain line parser, for jsonl. */
  readonly strict?: boolean
}

/** The output of `graphmill parse`. */
export interface ParsedReply {
  readonly items: unknown[]
  /** `line` is 1-based, `text` at most 200 characters. */
  readonly rejected: { readonly reason: RejectReason; readonly line: number; readonly text: string }[]
  /** `item` is an index into `items`. */
  readonly repaired: {
    readonly item: number
    readonly line: number
    readonly repairs: readonly RepairName[]
  }[]
  /** Lines with ignored text. */
  readonly ignored: number
  readonly truncated: boolean
}

/** Parses a reply that arrives in pieces. Bad input is part of the result and never thrown. */
export async function parseReply(
  chunks: AsyncIterable<string> | Iterable<string>,
  options: ParseOptions,
): Promise<ParsedReply> {
  if (options.responseType === 'jsonl') return parseLines(chunks, options)
  const pieces: string[] = []
  for await (const chunk of chunks) pieces.push(chunk)
  const text = pieces.join('')
  if (options.responseType === 'json') return parseJson(text, options.schema)
  return { items: [text], rejected: [], repaired: [], ignored: 0, truncated: false }
}

async function parseLines(
  chunks: AsyncIterable<string> | Iterable<string>,
  { schema, strict = false }: ParseOptions,
): Promise<ParsedReply> {
  const items: unknown[] = []
  const rejected: ParsedReply['rejected'] = []
  const repaired: ParsedReply['repaired'] = []
  let summary = { ignored: 0, truncated: false }
  let thoughts = { items: 0, rejected: 0 }
  for await (const event of itemsOf(chunks, createItemsParser(schema, { strict }))) {
    if (event.type === 'end') {
      summary = { ignored: event.ignored, truncated: event.truncated }
      thoughts = event.thoughts
    } else if (event.type === 'rejected')
      rejected.push({ reason: event.reason, line: event.line, text: event.text })
    else {
      if (event.repairs.length > 0)
        repaired.push({ item: items.length, line: event.line, repairs: event.repairs })
      items.push(event.value)
    }
  }
  // Nothing has left yet, so that what turned out to be a thought is taken back.
  const answered = repaired.filter(({ item }) => item >= thoughts.items)
  return {
    items: items.slice(thoughts.items),
    rejected: rejected.slice(thoughts.rejected),
    repaired: answered.map((each) => ({ ...each, item: each.item - thoughts.items })),
    ...summary,
  }
}

function parseJson(text: string, schema: ItemSchema | undefined): ParsedReply {
  const found = valueIn(text, { schema, objects: schema?.isOfObjects ?? false })
  const { line, ignored } = found
  const nothing = { items: [], rejected: [], repaired: [], ignored, truncated: false }
  if ('error' in found) {
    const rejected = [{ reason: found.reason, line, text: excerptOf(found.text) }]
    return { ...nothing, rejected, truncated: found.truncated }
  }
  const repaired = found.repairs.length > 0 ? [{ item: 0, line, repairs: found.repairs }] : []
  return { ...nothing, items: [found.value], repaired }
}
