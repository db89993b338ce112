// From a response schema to what is asked of a server: natively in `response_format`, else as a directive in the system
// message; and back, from what the model wrote to a checked value. The check is the same on both ways.
import { GraphmillError } from '../../errors.ts'
import { compileSchema } from '../../items/validate.ts'
import { wireSchema } from '../cache/canonical.ts'
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
