// What a response schema may be given as: a JSON Schema (a TypeBox type is one), or a type of Zod 4 or of any other library of
// the Standard Schema, which is converted by its own library; its own validation then follows the check of the JSON Schema.

import type { JsonSchema } from '../llm/llm.ts'
import { ProviderError } from '../llm/provider-error.ts'
import type { FromSchema } from './from-schema.ts'

/** The part of the Standard Schema that is used (https://standardschema.dev). */
export interface StandardType<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

interface StandardIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

export type SchemaSource = StandardType | JsonSchema

/** The static type of what a schema describes. */
export type TypeOf<S> = S extends { readonly '~standard': { readonly types?: infer T } }
  ? NonNullable<T> extends { readonly output: infer O }
    ? O
    : unknown
  : S extends { readonly static: infer T }
    ? T
    : FromSchema<S>

/** A source as a JSON Schema, and the library's own check if it has one. */
export interface ConvertedSchema {
  readonly schema: JsonSchema
  /** Gives the value as the library hands it on; throws an error that names the place. */
  readonly refine: ((value: unknown) => Promise<unknown>) | undefined
}

/** Throws `schema_invalid` for a type that has no JSON Schema, for example a date. */
export async function convertedSchema(source: SchemaSource): Promise<ConvertedSchema> {
  if (!isStandard(source)) return { schema: source, refine: undefined }
  const schema = await jsonSchemaOf(source)
  return { schema, refine: (value) => validated(source, value) }
}

function isStandard(source: unknown): source is StandardType {
  return (
    (typeof source === 'object' || typeof source === 'function') && source !== null && '~standard' in source
  )
}

type Convert = (options: { readonly target: string }) => JsonSchema

async function jsonSchemaOf(source: StandardType): Promise<JsonSchema> {
  const { vendor, ...standard } = source['~standard']
  const own = (standard as { jsonSchema?: { input: Convert; output: Convert } }).jsonSchema
  try {
    if (own) return converted((io) => own[io]({ target: 'draft-2020-12' }))
    if (vendor === 'zod') {
      const { toJSONSchema } = await import('zod')
      return converted((io) => toJSONSchema(source as never, { io }) as JsonSchema)
    }
  } catch (cause) {
    throw refused(`The ${vendor} type has no JSON Schema: ${(cause as Error).message}`, cause)
  }
  throw refused(`A type of ${vendor} cannot be converted to JSON Schema; give a JSON Schema.`)
}

/** What comes out is closed to further keys, as strict servers want it; a type that transforms has only what goes in. */
function converted(convert: (io: 'input' | 'output') => JsonSchema): JsonSchema {
  try {
    return convert('output')
  } catch {
    return convert('input')
  }
}

function refused(message: string, cause?: unknown): ProviderError {
  return new ProviderError('schema_invalid', 'provider_invalid_request', message, { cause })
}

async function validated(source: StandardType, value: unknown): Promise<unknown> {
  const result = await source['~standard'].validate(value)
  if (!result.issues) return result.value
  throw new Error(result.issues.map(sentenceOf).join('; '))
}

function sentenceOf({ message, path = [] }: StandardIssue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.length === 0 ? message : `/${keys.join('/')}: ${message}`
}
