// Calls the handler for an item's type. A table with a missing or an unknown key does not compile.
import { GraphmillError } from '../errors.ts'

interface Typed {
  readonly type: string
}

/** One handler for each type of `Item`, and no other. */
export type DispatchTable<Item extends Typed, Result> = {
  readonly [Type in Item['type']]: (item: Extract<Item, { readonly type: Type }>) => Result
}

/**
 * Calls the handler of the item's type: `dispatch(item, { definition: …, relationship: … })`.
 * Throws `unexpected` for a type that is not in the table, which a checked item cannot have.
 */
export function dispatch<Item extends Typed, Result>(item: Item, table: DispatchTable<Item, Result>): Result {
  const handlers: Readonly<Record<string, unknown>> = table
  const handler = Object.hasOwn(handlers, item.type) ? handlers[item.type] : undefined
  if (typeof handler !== 'function') {
    throw new GraphmillError('unexpected', `No handler for an item of the type ${JSON.stringify(item.type)}.`)
  }
  return handler(item) as Result
}
