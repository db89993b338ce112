// How JSON is asked for in a chat completion request: by `response_format`.
import { createHash } from 'node:crypto'
import { isObject } from '../../is-object.ts'
import { flatJson, valueKeywords, wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema } from '../llm.ts'

/** OpenAI takes only schemas of objects. */
export const openAiJson: JsonFormat = {
  schemaMode: 'openai',
  objectMode: 'openai_oo',
  objectsOnly: true,
  object: { response_format: { type: 'json_object' } },
  schema: (schema, named) => ({ response_format: responseFormat(schema, named) }),
  translate: (given) => ({ response_format: given }),
}

/** The `response_format` for a schema. By default its name is stable, and `strict` is set when `isStrict` allows it. */
export function responseFormat(
  schema: JsonSchema,
  { name, strict } = { name: schemaName(schema), strict: isStrict(schema) },
): Readonly<Record<string, unknown>> {
  return { type: 'json_schema', json_schema: { name, schema: wireSchema(schema), strict } }
}

/** The title with the characters of OpenAI's names (A-Z, a-z, 0-9, _ and -, at most 64), else a hash of the schema. */
export function schemaName(schema: JsonSchema): string {
  const { title } = schema
  const name = typeof title === 'string' ? title.trim().replace(/[^A-Za-z0-9_-]+/g, '_') : ''
  if (/[A-Za-z0-9]/.test(name)) return name.slice(0, 64)
  return `schema_${createHash('sha256').update(flatJson(schema)).digest('hex').slice(0, 16)}`
}

/** OpenArmature's rule for `strict`: every object is closed, and every property is required. */
export function isStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrict)
  if (!isObject(schema)) return true
  return isClosed(schema) && Object.entries(schema).every(([key, child]) => isStrictBelow(key, child))
}

function isStrictBelow(key: string, child: unknown): boolean {
  if (valueKeywords.has(key)) return true
  return named.has(key) && isObject(child) ? Object.values(child).every(isStrict) : isStrict(child)
}

/** Keywords that hold schemas by name. */
const named = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'])

function isClosed(schema: Readonly<Record<string, unknown>>): boolean {
  const { additionalProperties: open, properties, required } = schema
  if (open !== undefined && open !== false) return false
  const names = Object.keys(isObject(properties) ? properties : {})
  return names.every((name) => Array.isArray(required) && required.includes(name))
}
