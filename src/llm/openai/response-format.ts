// How JSON is asked for in a chat completion request: by `response_format`.
import { createHash } from 'node:crypto'
import { isObject } from '../../is-object.ts'
import { flatJson, wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema } from '../llm.ts'

/** OpenAI takes only schemas of objects. */
export const openAiJson: JsonFormat = {
  schemaMode: 'openai',
  objectMode: 'openai_oo',
  objectsOnly: true,
  object: { response_format: { type: 'json_object' } },
  schema: (schema, named) => ({ response_format: responseFormat(schema, named) }),
  loose: (schema) => (isStrict(schema) ? { response_format: looseFormat(schema) } : undefined),
  translate: (given) => ({ response_format: given }),
}

/** The `response_format` for a schema. By default its name is stable, and `strict` is set when `isStrict` allows it. */
export function responseFormat(
  schema: JsonSchema,
  { name, strict } = { name: schemaName(schema), strict: isStrict(schema) },
): Readonly<Record<string, unknown>> {
  return { type: 'json_schema', json_schema: { name, schema: wireSchema(schema), strict } }
}

/** The same without `strict`. */
export function looseFormat(schema: JsonSchema): Readonly<Record<string, unknown>> {
  return responseFormat(schema, { name: schemaName(schema), strict: false })
}

/** The title with the characters of OpenAI's names (A-Z, a-z, 0-9, _ and -, at most 64), else a hash of the schema. */
export function schemaName(schema: JsonSchema): string {
  const { title } = schema
  const name = typeof title === 'string' ? title.trim().replace(/[^A-Za-z0-9_-]+/g, '_') : ''
  if (/[A-Za-z0-9]/.test(name)) return name.slice(0, 64)
  return `schema_${createHash('sha256').update(flatJson(schema)).digest('hex').slice(0, 16)}`
}

/**
 * Whether a schema may be sent as `strict`: every object in it is closed and requires all its properties, nothing may be
 * anything, and there is no keyword that strict servers refuse. Limits such as `minimum` may stay.
 */
export function isStrict(schema: unknown): boolean {
  if (!isObject(schema) || Object.keys(schema).some((key) => refused.has(key))) return false
  const { type, properties = {}, items, anyOf = [] } = schema
  const types = [type ?? []].flat()
  const isOfObjects = types.includes('object') || 'properties' in schema
  if (isOfObjects ? !isClosed(schema) : types.length === 0 && !says.some((key) => key in schema)) return false
  const parts = [properties, anyOf, schema['$defs'] ?? {}, schema['definitions'] ?? {}]
  const children = parts.flatMap((part) => Object.values(part as object))
  return [...children, ...(types.includes('array') || 'items' in schema ? [items] : [])].every(isStrict)
}

/** Keywords without which a schema that has no type allows anything. */
const says = ['enum', 'const', 'anyOf', '$ref']
const refused = new Set([
  ...['allOf', 'oneOf', 'not', 'if', 'then', 'else', 'patternProperties', 'propertyNames', 'dependencies'],
  ...['dependentRequired', 'dependentSchemas', 'unevaluatedProperties', 'unevaluatedItems'],
  ...['prefixItems', 'additionalItems', 'contains', '$recursiveRef', '$dynamicRef'],
])

function isClosed({ additionalProperties: open, properties, required }: JsonSchema): boolean {
  const names = Object.keys(isObject(properties) ? properties : {})
  return open === false && names.every((name) => Array.isArray(required) && required.includes(name))
}
