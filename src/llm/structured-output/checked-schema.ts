// A JSON Schema that a caller gave, compiled once.
import { GraphmillError } from '../../errors.ts'
import { compileSchema, type ItemSchema } from '../../items/validate.ts'
import type { JsonSchema } from '../llm.ts'
import { ProviderError } from '../provider-error.ts'

/** A schema that can be used. */
export interface CheckedSchema {
  readonly schema: JsonSchema
  /** What is wrong with a value, in one sentence that begins with its place; undefined when it fits. */
  check(value: unknown): string | undefined
  /** The same for a value of limited depth, and how it is changed to fit. */
  readonly items: ItemSchema
}

/** Compiled schemas by their JSON, the latest last: the same few are used again and again. */
const compiled = new Map<string, CheckedSchema>()
const maxCompiled = 100

/**
 * Throws `schema_invalid` of the category provider_invalid_request, naming the place, for a schema that is not valid, that has
 * a reference without a target or, when `root` is `object`, that does not describe an object.
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
  if (compiled.size > maxCompiled) compiled.delete(compiled.keys().next().value!)
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
    const items = compileSchema(schema)
    return { schema, check: (value) => guarded(items.check, value), items }
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
