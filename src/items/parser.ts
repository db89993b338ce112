// The entry to the items engine: a parser for the reply to a jsonl prompt, which takes text as the model writes it.
// Example: `const parser = createItemsParser(schema); for (const event of parser.push(delta)) …; parser.end()`.
import type { ItemsOptions, ItemsParser } from './item.ts'
import { createStrictParser } from './strict.ts'
import { createTolerantParser } from './tolerant.ts'
import type { ItemSchema } from './validate.ts'

/** A parser of one reply, tolerant unless `strict`. Without a schema every object is an item. */
export function createItemsParser(schema: ItemSchema | undefined, options: ItemsOptions = {}): ItemsParser {
  return options.strict ? createStrictParser(schema, options) : createTolerantParser(schema, options)
}
