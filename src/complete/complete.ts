// OpenArmature's one operation, typed: the static type of `parsed` follows the schema that was given.
import type { CallOptions, Provider, ProviderRequest, Response } from './provider.ts'
import { convertedSchema, type SchemaSource, type TypeOf } from './schema-source.ts'

/** A request whose `responseSchema` may be a JSON Schema, a TypeBox type, or a type of Zod 4. */
export interface CompleteRequest<S extends SchemaSource | undefined = SchemaSource | undefined>
  extends Omit<ProviderRequest, 'responseSchema'> {
  readonly responseSchema: S
}

type WithoutTools = { readonly tools?: undefined }
type WithoutSchema = Omit<ProviderRequest, 'responseSchema'> & { readonly responseSchema?: undefined }

/**
 * Asks a model and gives its answer; with a `responseSchema` the answer's value, checked. Without `options.retry` there is
 * exactly one attempt. No argument is changed; calls may run side by side.
 *
 * Throws ProviderError with one of OpenArmature's nine categories: `provider_invalid_request` before anything is sent,
 * `structured_output_invalid` (StructuredOutputInvalid, with all diagnostics) for content that is not a value of the schema;
 * and the reason of `options.signal` when it aborts.
 *
 * @example
 * const provider = createOpenAiProvider({ baseUrl: 'http://127.0.0.1:8080/v1', model: 'm' })
 * const responseSchema = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] } as const
 * const { parsed } = await complete(provider, { messages: [{ role: 'user', content: 'Invent an age.' }], responseSchema })
 * parsed.age.toFixed()
 */
export function complete<const S extends SchemaSource>(
  provider: Provider,
  request: CompleteRequest<S> & WithoutTools,
  options?: CallOptions,
): Promise<Response<TypeOf<S>>>
/** With tools the model may call one of them instead: then there is no value. */
export function complete<const S extends SchemaSource>(
  provider: Provider,
  request: CompleteRequest<S>,
  options?: CallOptions,
): Promise<Response<TypeOf<S> | undefined>>
/** A type of the caller's own, for a schema that is known at run time only. */
export function complete<T>(
  provider: Provider,
  request: CompleteRequest<SchemaSource>,
  options?: CallOptions,
): Promise<Response<T>>
/** Without a schema there is no value, whatever the answer looks like. */
export function complete(
  provider: Provider,
  request: WithoutSchema,
  options?: CallOptions,
): Promise<Response<undefined>>
export async function complete(
  provider: Provider,
  request: CompleteRequest<SchemaSource> | WithoutSchema,
  options: CallOptions = {},
): Promise<Response<unknown>> {
  const { responseSchema, ...rest } = request
  if (responseSchema == null) return provider.complete(rest, options)
  const { schema, refine } = await convertedSchema(responseSchema)
  return provider.complete({ ...rest, responseSchema: schema }, { ...options, ...refined(refine, options) })
}

/** The library's check, then the caller's. */
function refined(
  library: ((value: unknown) => Promise<unknown>) | undefined,
  { refine: own }: CallOptions,
): Pick<CallOptions, 'refine'> {
  if (!library) return own ? { refine: own } : {}
  return { refine: own ? async (value) => own(await library(value)) : library }
}
