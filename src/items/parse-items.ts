// The items engine as a library: the objects in what a model writes, each as soon as it is complete.
import type { ItemEvent, ItemsEnd, ItemsOptions, ItemsParser, Thoughts } from './item.ts'
import { createItemsParser } from './parser.ts'
import { compileSchema, type ItemSchema } from './validate.ts'

/** What a model writes: a text, or its pieces as they arrive, such as the body of a response. Bytes are read as UTF-8. */
export type ModelText = string | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>

/** The end of a text: whether it was cut off, the lines that were ignored, and how many of the first items were only thoughts. */
export type ItemsSummary = { readonly type: 'end'; readonly thoughts: Thoughts } & ItemsEnd

/** How items are found in the text of a model. */
export interface ParseItemsOptions extends Pick<ItemsOptions, 'maxDepth' | 'maxRecord'> {
  /** Repairs nothing: one JSON object a line. Default false. */
  readonly strict?: boolean
}

const compiled = new WeakMap<object, ItemSchema>()

/**
 * Finds the JSON objects that a model writes, one after the other, whatever is around them: prose, fences, lists, wrappers, tool calls,
 * thoughts. Each leaves as an item when it is complete; what looks like an item and is none leaves as rejected, with the reason. `repairs`
 * of an item names what was changed to read it, or to fit the schema where that is possible in exactly one way. The last event is `end`. The
 * events do not depend on the pieces. Time is linear in the text, and memory is bounded by one object.
 *
 * `schema` is a JSON Schema of one object; without it every object is an item. Throws `schema_invalid` for one that cannot be used, and what
 * `text` throws.
 *
 * @example
 * for await (const event of parseItems(response.body, schema)) {
 *   if (event.type === 'item') console.log(event.value)
 *   else if (event.type === 'rejected') console.warn(event.line, event.message)
 *   else if (event.truncated) console.warn('The reply was cut off.')
 * }
 */
export async function* parseItems(
  text: ModelText,
  schema?: Readonly<Record<string, unknown>>,
  options: ParseItemsOptions = {},
): AsyncGenerator<ItemEvent | ItemsSummary, void> {
  const known = schema && (compiled.get(schema) ?? compileSchema(schema))
  if (schema && known) compiled.set(schema, known)
  yield* itemsOf(text, createItemsParser(known, options))
}

/** The events of `parser` for a text. */
export async function* itemsOf(
  text: ModelText,
  parser: ItemsParser,
): AsyncGenerator<ItemEvent | ItemsSummary, void> {
  const decoder = new TextDecoder()
  for await (const piece of typeof text === 'string' ? [text] : text)
    yield* parser.push(typeof piece === 'string' ? piece : decoder.decode(piece, { stream: true }))
  yield* parser.push(decoder.decode())
  const { events, end } = parser.end()
  yield* events
  yield { type: 'end', ...end, thoughts: parser.thoughts }
}
