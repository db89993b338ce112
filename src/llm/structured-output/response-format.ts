// From a response schema to what is asked of a server: natively in `response_format`, else as a directive in the system
// message; and back, from what the model wrote to a checked value. The check is the same on both ways.
import { createHash } from 'node:crypto'
import { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import { compileSchema } from '../../items/validate.ts'
import { flatJson, wireSchema } from '../cache/canonical.ts'
import type { FinishReason, JsonSchema } from '../llm.ts'
import type { Message, ProviderUsage } from '../provider.ts'
import { ProviderError } from '../provider-error.ts'
import { StructuredOutputInvalid } from './invalid-error.ts'

/** A schema that can be used. */
export interface CheckedSchema {
  readonly schema: JsonSchema
  /** What is wrong with a value, in one sentence that begins with its place; undefined where it fits. */
  check(value: unknown): string | undefined
}

/** Compiled schemas by their JSON, the latest last: the same few are asked for again and again. */
const compiled = new Map<string, CheckedSchema>()
const mostCompiled = 100

/**
 * Throws `schema_invalid` of the category provider_invalid_request, naming the place, for what is no valid JSON Schema,
 * has a reference that leads nowhere, or (where `root` asks for it) does not describe an object.
 */
export function checkedSchema(schema: unknown, root: 'object' | 'any' = 'object'): CheckedSchema {
  const checked = compile(schema)
  if (root === 'object' && checked.schema['type'] !== 'object')
    throw invalidSchema('/type', 'The schema must describe an object at its root: "type": "object".')
  return checked
}

function compile(schema: unknown): CheckedSchema {
  const key = jsonOf(schema)
  const known = compiled.get(key)
  compiled.delete(key)
  const checked = known ?? compileNow(JSON.parse(key))
  compiled.set(key, checked)
  if (compiled.size > mostCompiled) compiled.delete(compiled.keys().next().value!)
  return checked
}

function jsonOf(schema: unknown): string {
  try {
    const json = JSON.stringify(schema)
    if (json?.startsWith('{')) return json
  } catch (cause) {
    throw invalidSchema('', 'The schema is not valid at its root: it is not JSON.', cause)
  }
  throw invalidSchema('', 'The schema is not valid at its root: a schema is a JSON object.')
}

function compileNow(schema: JsonSchema): CheckedSchema {
  try {
    const { check } = compileSchema(schema)
    return { schema, check: (value) => guarded(check, value) }
  } catch (thrown) {
    if (thrown instanceof RangeError) throw invalidSchema('', 'The schema is nested too deeply.', thrown)
    if (!(thrown instanceof GraphmillError)) throw thrown
    throw invalidSchema(String(thrown.details['place'] ?? ''), thrown.message, thrown)
  }
}

/** A recursive schema recurses as deep as the value does. */
function guarded(check: (value: unknown) => string | undefined, value: unknown): string | undefined {
  try {
    return check(value)
  } catch (thrown) {
    if (thrown instanceof RangeError) return 'is nested too deeply to be checked'
    throw thrown
  }
}

function invalidSchema(place: string, message: string, cause?: unknown): ProviderError {
  return new ProviderError('schema_invalid', 'provider_invalid_request', message, {
    cause,
    details: { place },
  })
}

/** The `response_format` for a schema: its name is stable, `strict` where `isStrict` allows it. */
export function responseFormat(schema: JsonSchema): Readonly<Record<string, unknown>> {
  return {
    type: 'json_schema',
    json_schema: { name: schemaName(schema), schema: wireSchema(schema), strict: isStrict(schema) },
  }
}

/** The title as far as OpenAI's names allow it (A-Z, a-z, 0-9, _ and -, at most 64), else a hash of the schema. */
export function schemaName(schema: JsonSchema): string {
  const { title } = schema
  const name = typeof title === 'string' ? title.trim().replace(/[^A-Za-z0-9_-]+/g, '_') : ''
  if (/[A-Za-z0-9]/.test(name)) return name.slice(0, 64)
  return `schema_${createHash('sha256').update(flatJson(schema)).digest('hex').slice(0, 16)}`
}

/** OpenArmature's rule for `strict`: no object is open to further properties, and every property is required. */
export function isStrict(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isStrict)
  if (!isObject(schema)) return true
  return isClosed(schema) && Object.entries(schema).every(([key, child]) => isStrictBelow(key, child))
}

function isStrictBelow(key: string, child: unknown): boolean {
  if (values.has(key)) return true
  return named.has(key) && isObject(child) ? Object.values(child).every(isStrict) : isStrict(child)
}

/** Keywords that hold values, and those that hold schemas by name. */
const values = new Set(['const', 'enum', 'default', 'example', 'examples', 'required', 'type'])
const named = new Set(['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'])

function isClosed(schema: Readonly<Record<string, unknown>>): boolean {
  const { additionalProperties: open, properties, required } = schema
  if (open !== undefined && open !== false) return false
  const names = Object.keys(isObject(properties) ? properties : {})
  return names.every((name) => Array.isArray(required) && required.includes(name))
}

/** A copy of the messages whose system message ends with, or is, the directive for the schema. */
export function withDirective(messages: readonly Message[], schema: JsonSchema, tools: boolean): Message[] {
  const directive = [
    `${tools ? 'Unless you call a tool, reply' : 'Reply'} with one JSON object and nothing else: no explanation, no code fence.`,
    'It must be valid against this JSON Schema:',
    JSON.stringify(wireSchema(schema)),
  ].join('\n')
  const [first, ...rest] = messages
  if (first?.role !== 'system') return [{ role: 'system', content: directive }, ...messages]
  return [{ role: 'system', content: `${first.content}\n\n${directive}` }, ...rest]
}

/** What is known of a reply beside its text. */
export interface ReplyFacts {
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
}

/** The value that the text holds. Throws StructuredOutputInvalid where it is not JSON, fails the schema, or `refine` throws. */
export async function parsedContent(
  text: string,
  checked: CheckedSchema,
  refine: ((value: unknown) => unknown) | undefined,
  facts: ReplyFacts,
): Promise<unknown> {
  const { schema, check } = checked
  const fail = (code: 'reply_not_json' | 'reply_schema_failed', errorMessage: string, cause?: unknown) =>
    new StructuredOutputInvalid({
      code,
      errorMessage,
      cause,
      responseSchema: schema,
      outputContent: text,
      ...facts,
    })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw fail('reply_not_json', text.trim() === '' ? 'it is empty' : (cause as Error).message, cause)
  }
  const problem = check(value)
  if (problem !== undefined) throw fail('reply_schema_failed', problem)
  try {
    return refine ? await refine(value) : value
  } catch (cause) {
    if (cause instanceof Error && cause.name === 'AbortError') throw cause
    throw fail('reply_schema_failed', cause instanceof Error ? cause.message : String(cause), cause)
  }
}
