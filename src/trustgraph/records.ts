// TrustGraph's messages as JSON: a table of its types, a lenient reader, and a writer of all fields. Unknown fields are ignored, and
// a missing field or null is the default of its field. Optional fields are null by default.
import { GraphmillError } from '../errors.ts'
import { maxDepth, parseLenient } from '../formats/python-json.ts'
import { isObject } from '../is-object.ts'

type Kind =
  | 'text'
  | 'boolean'
  | 'number'
  /** Any JSON value; null by default. */
  | 'any'
  | { readonly list: Kind }
  | { readonly map: Kind }
  | { readonly optional: Kind }
  | { readonly record: string }
  /** A text with another default than "". */
  | { readonly text: string }

export type TrustGraphRecord = Readonly<Record<string, unknown>>

const text = 'text'
const maybe = (optional: Kind): Kind => ({ optional })
const list = (of: Kind): Kind => ({ list: of })
const map = (of: Kind): Kind => ({ map: of })
const record = (name: string): Kind => ({ record: name })
const tokens = { in_token: maybe('number'), out_token: maybe('number'), model: maybe(text) }
const error = maybe(record('Error'))
const metadata = record('Metadata')

/** The fields of each type, in TrustGraph's order. */
const types = {
  Error: { type: text, message: text },
  Metadata: { id: text, root: text, collection: text },
  Term: {
    type: text,
    iri: text,
    id: text,
    value: text,
    datatype: text,
    language: text,
    triple: maybe(record('Triple')),
  },
  Triple: { s: maybe(record('Term')), p: maybe(record('Term')), o: maybe(record('Term')), g: maybe(text) },
  TextDocument: { metadata, text, document_id: text },
  Chunk: { metadata, chunk: text, document_id: text, attributes: map('any') },
  Triples: { metadata, triples: list(record('Triple')) },
  EntityContext: {
    entity: maybe(record('Term')),
    context: text,
    chunk_id: text,
    rdf_type: list(text),
    attributes: map('any'),
  },
  EntityContexts: { metadata, entities: list(record('EntityContext')) },
  ExtractedObject: {
    metadata,
    schema_name: text,
    values: list(map(text)),
    confidence: 'number',
    source_span: text,
  },
  PromptRequest: { id: text, terms: map(text), streaming: 'boolean' },
  PromptResponse: { error, text: maybe(text), object: maybe(text), end_of_stream: 'boolean', ...tokens },
  TextCompletionRequest: {
    operation: { text: 'completion' },
    system: text,
    prompt: text,
    streaming: 'boolean',
    response_format: maybe(text),
    schema: 'any',
  },
  TextCompletionResponse: {
    error,
    response: maybe(text),
    ...tokens,
    end_of_stream: 'boolean',
    models: list('any'),
  },
  ConfigKey: { type: text, key: text },
  ConfigValue: { type: text, key: text, value: text, workspace: text },
  ConfigRequest: {
    operation: text,
    workspace: text,
    keys: list(record('ConfigKey')),
    type: text,
    values: list(record('ConfigValue')),
  },
  ConfigResponse: {
    version: 'number',
    values: list(record('ConfigValue')),
    directory: list(text),
    config: map(map(text)),
    error,
  },
  WorkspaceChanges: { created: list(text), deleted: list(text) },
  ConfigPush: {
    version: 'number',
    changes: map(list(text)),
    workspace_changes: maybe(record('WorkspaceChanges')),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Kind>>>>

export type TrustGraphType = keyof typeof types

/** The record in a body. Throws `bytes_undecodable` for what is no JSON object, or has a value of another kind. */
export function readRecord(type: TrustGraphType, body: Uint8Array): TrustGraphRecord {
  let value: unknown
  try {
    value = readJson(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch (cause) {
    throw new GraphmillError('bytes_undecodable', `The body is no JSON: ${(cause as Error).message}`, {
      cause,
    })
  }
  if (!isObject(value)) throw new GraphmillError('bytes_undecodable', 'The body is no JSON object.')
  return { ...(shaped({ record: type }, value, type) as TrustGraphRecord), ...ownField(value) }
}

function readJson(text: string): unknown {
  const value = parseLenient(text)
  if (isDeeper(value, maxDepth)) throw new SyntaxError('nested too deeply')
  return value
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some((member) => isDeeper(member, levels - 1)))

/** The body of a record: all fields of its type in their order, then ours if there is one. */
export function writeRecord(type: TrustGraphType, value: TrustGraphRecord): Buffer {
  const fields = shaped({ record: type }, value, type) as TrustGraphRecord
  const wellFormed = (_: string, member: unknown) =>
    typeof member === 'string' ? member.toWellFormed() : member
  return Buffer.from(JSON.stringify({ ...fields, ...ownField(value) }, wellFormed))
}

/** What TrustGraph has no place for stands in a field that its readers ignore. */
function ownField({ graphmill }: TrustGraphRecord): TrustGraphRecord {
  return isObject(graphmill) ? { graphmill } : {}
}

/** Fields of ours for the body, in its field `graphmill`, as far as they are not empty. */
export function ownFields(fields: Readonly<Record<string, unknown>>): TrustGraphRecord {
  const isEmpty = (value: unknown) => !value || (typeof value === 'object' && Object.keys(value).length === 0)
  const told = Object.entries(fields).filter(([, value]) => !isEmpty(value))
  return told.length > 0 ? { graphmill: Object.fromEntries(told) } : {}
}

function shaped(kind: Kind, given: unknown, path: string): unknown {
  // A number that is too large is Infinity, which JSON cannot write.
  const value = given === Number.POSITIVE_INFINITY || given === Number.NEGATIVE_INFINITY ? null : given
  if (kind === 'any') return value ?? null
  if (typeof kind === 'object') return shapedStructure(kind, value, path)
  if (value === undefined || value === null) return { text: '', boolean: false, number: 0 }[kind]
  // Python writes halves of surrogate pairs, which nothing else can encode.
  if (kind === 'text' && typeof value === 'string') return value.toWellFormed()
  if (kind !== 'text' && typeof value === kind) return value
  if (kind === 'text' && typeof value !== 'object') return String(value)
  throw mismatch(path, kind)
}

function shapedStructure(kind: Kind & object, value: unknown, path: string): unknown {
  if ('optional' in kind)
    return value === undefined || value === null ? null : shaped(kind.optional, value, path)
  if ('text' in kind) return shaped('text', value ?? kind.text, path)
  if ('list' in kind) {
    if (!Array.isArray(value ?? [])) throw mismatch(path, 'list')
    return ((value ?? []) as unknown[]).map((element) => shaped(kind.list, element, path))
  }
  if (!isObject(value ?? {})) throw mismatch(path, 'object')
  const object = (value ?? {}) as TrustGraphRecord
  if ('map' in kind)
    return Object.fromEntries(
      Object.entries(object).map(([key, member]) => [key, shaped(kind.map, member, `${path}.${key}`)]),
    )
  const fields: Readonly<Record<string, Kind>> = types[kind.record as TrustGraphType]
  return Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, shaped(field, object[name], `${path}.${name}`)]),
  )
}

function mismatch(path: string, kind: string): GraphmillError {
  return new GraphmillError('bytes_undecodable', `The field ${path} is no ${kind}.`)
}
