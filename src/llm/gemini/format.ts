// How Gemini is asked for JSON: by `responseJsonSchema`, or by the MIME type alone. Google's reference names the keywords that
// a schema may have; the others are left out, since the reply is checked against the whole schema anyway.
import { isObject } from '../../is-object.ts'
import { wireSchema } from '../cache/canonical.ts'
import type { JsonFormat, JsonSchema } from '../llm.ts'
import { unwrapped } from '../structured-output/unwrapped.ts'

const asJson = { responseMimeType: 'application/json' }

export const geminiJson: JsonFormat = {
  objectsOnly: false,
  object: asJson,
  schema: (schema) => ({ ...asJson, responseJsonSchema: wireSchema(geminiSchema(schema)) }),
  translate(given) {
    if (given['type'] === 'json_object') return asJson
    return given['type'] === 'json_schema' ? geminiJson.schema(unwrapped(given).schema) : {}
  },
}

/** Keywords that are sent as they are. */
const plain = new Set([
  ...['type', 'title', 'description', 'required', 'propertyOrdering', '$id', '$anchor'],
  ...['minItems', 'maxItems', 'minimum', 'maximum'],
])
const formats = new Set(['date-time', 'date', 'time', 'float', 'double', 'int32', 'int64'])
const inOne = new Set(['items', 'additionalProperties'])
const inList = new Set(['anyOf', 'oneOf', 'prefixItems'])

/** A copy with the supported keywords. A constant becomes an `enum`; beside a `$ref` nothing else may be. */
export function geminiSchema(schema: unknown): JsonSchema {
  if (!isObject(schema)) return {}
  const { $ref: ref } = schema
  if (typeof ref === 'string') return { $ref: ref.replace(/^#\/definitions\//, '#/$defs/'), ...named(schema) }
  const entries = Object.entries(schema).flatMap(([key, value]) => supported(key, value))
  return { ...Object.fromEntries(entries), ...named(schema) }
}

function supported(key: string, value: unknown): [string, unknown][] {
  if (plain.has(key)) return [[key, value]]
  if (key === 'const') return isScalar(value) ? [['enum', [value]]] : []
  if (key === 'enum') return Array.isArray(value) && value.every(isScalar) ? [[key, value]] : []
  if (key === 'format') return formats.has(String(value)) ? [[key, value]] : []
  if (key === 'properties' && isObject(value)) return [[key, byName(value)]]
  if (inOne.has(key)) return [[key, typeof value === 'boolean' ? value : geminiSchema(value)]]
  if (inList.has(key) && Array.isArray(value)) return [[key, value.map(geminiSchema)]]
  return []
}

function named({ $defs = {}, definitions = {} }: JsonSchema): JsonSchema {
  const all = { ...(isObject(definitions) && definitions), ...(isObject($defs) && $defs) }
  return Object.keys(all).length > 0 ? { $defs: byName(all) } : {}
}

function byName(schemas: JsonSchema): JsonSchema {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, geminiSchema(schema)]))
}

function isScalar(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number'
}
