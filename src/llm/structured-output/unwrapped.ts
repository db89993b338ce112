// The bare schema inside one of OpenAI's wrappers.
import { isObject } from '../../is-object.ts'
import type { JsonSchema } from '../llm.ts'

export interface Unwrapped {
  readonly schema: JsonSchema
  /** The `strict` of a wrapper. */
  readonly strict: boolean | undefined
}

/** The schema in one of OpenAI's three wrappers: `response_format`, `json_schema`, or a name beside a `schema`. */
export function unwrapped(given: JsonSchema): Unwrapped {
  const strict = typeof given['strict'] === 'boolean' ? given['strict'] : undefined
  const inner = innerOf(given)
  if (!inner) return { schema: given, strict: undefined }
  const below = unwrapped(inner)
  return { schema: below.schema, strict: below.strict ?? strict }
}

function innerOf(given: JsonSchema): JsonSchema | undefined {
  const { response_format: format, json_schema: named, schema, type } = given
  if (isObject(format) && isObject(format['json_schema'])) return format['json_schema']
  if (isObject(named)) return named
  // A bare schema may have a keyword named `schema`; then it also has a type or properties.
  const isWrapper = (type === undefined || type === 'json_schema') && !('properties' in given)
  return isObject(schema) && isWrapper ? schema : undefined
}
