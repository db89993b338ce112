// Our messages on TrustGraph's topics and back. What its bodies have no place for goes into headers `gm-…`, or into the body's field
// `graphmill`, both of which TrustGraph ignores.
import { createHash } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import { emptyHeader, type Header, type Message } from '../messages/envelope.ts'
import type { EntityContext, Rows, Term, Triple, Usage } from '../messages/generated.ts'
import { readRecord, type TrustGraphRecord, writeRecord } from './records.ts'

/** TrustGraph's type for each of ours that travels on its topics. */
const theirTypes = {
  TextDocument: 'TextDocument',
  Chunk: 'Chunk',
  Triples: 'Triples',
  EntityContexts: 'EntityContexts',
  Rows: 'ExtractedObject',
  PromptRequest: 'PromptRequest',
  PromptResponse: 'PromptResponse',
  TextCompletionRequest: 'TextCompletionRequest',
  TextCompletionResponse: 'TextCompletionResponse',
} as const

export type WireType = keyof typeof theirTypes
export type WireMessage = Message<WireType>

export interface WireBytes {
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** Where and when a message was received. */
export interface Receipt {
  /** TrustGraph's identifier of the topic: names the content together with the body. */
  readonly topic: string
  readonly workspace: string
  readonly flow: string
  /** Of the record, in milliseconds. */
  readonly time: number
}

const isRequest = (type: WireType) => type === 'PromptRequest' || type === 'TextCompletionRequest'
const isResponse = (type: WireType) => type === 'PromptResponse' || type === 'TextCompletionResponse'

/**
 * The message in these bytes. A message that does not come from graphmill has a hash of its topic, its request id or URN, and its
 * body as its id, so that a repeat has the same.
 *
 * Throws `bytes_undecodable` for what is no JSON object of the type, and for a request or reply without `id`.
 */
export function readMessage(type: WireType, { body, headers }: WireBytes, receipt: Receipt): WireMessage {
  const record = readRecord(theirTypes[type], body)
  const requestId = headers['id'] ?? ''
  if (requestId === '' && (isRequest(type) || isResponse(type)))
    throw new GraphmillError('bytes_undecodable', `A ${theirTypes[type]} needs the header "id".`)
  const urn = textOf(metadataOf(record)['id'])
  const id = headers['gm-id'] ?? foreignId(receipt.topic, requestId || urn, body)
  const header: Header = {
    ...emptyHeader,
    ...placeOf(type, record),
    id,
    source: headers['gm-source'] ?? 'trustgraph',
    time: receipt.time,
    workspace: receipt.workspace,
    flow: receipt.flow,
    correlationId: headers['gm-correlation'] ?? requestId,
    causationId: headers['gm-causation'] ?? '',
    deadline: numberOf(headers['gm-deadline']),
    traceparent: headers['traceparent'] ?? null,
  }
  const run = runOf(headers['gm-run']) ?? { id, startedAt: receipt.time }
  return { ...header, type, payload: payloadOf(type, record, { run, headers }) } as WireMessage
}

/** The body and headers of a message. A request has its own id as `id`, and a reply that of its request. */
export function writeMessage(message: WireMessage): WireBytes {
  const { type, payload } = message
  const correlated = isResponse(type) || (isRequest(type) && message.correlationId !== '')
  const id = correlated ? message.correlationId : message.id
  const run = 'run' in payload ? `${payload.run.id} ${payload.run.startedAt}` : undefined
  const headers = {
    ...((isRequest(type) || isResponse(type)) && { id }),
    'gm-id': message.id,
    'gm-source': message.source,
    'gm-correlation': message.correlationId,
    'gm-causation': message.causationId,
    'gm-deadline': message.deadline === null ? undefined : String(message.deadline),
    'gm-run': run,
    'gm-seq': 'seq' in payload ? String(payload.seq) : undefined,
    traceparent: message.traceparent ?? undefined,
  }
  const used = Object.entries(headers).filter((entry): entry is [string, string] => Boolean(entry[1]))
  return { body: writeRecord(theirTypes[type], recordOf(message)), headers: Object.fromEntries(used) }
}

/** Different content never shares an id, and a repeat keeps its own. */
function foreignId(topic: string, name: string, body: Uint8Array): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([topic, name]))
    .update(body)
  return `tg-${hash.digest().subarray(0, 16).toString('hex')}`
}

/** The header's fields that the body has: collection, document and chunk. */
function placeOf(type: WireType, record: TrustGraphRecord) {
  if (isRequest(type) || isResponse(type)) return {}
  const { id, root, collection } = metadataOf(record)
  const documentId = textOf(root) || textOf(id)
  if (type === 'TextDocument') return { collection: textOf(collection), documentId: textOf(id) || documentId }
  const rows = type === 'Rows' ? `:${textOf(record['schema_name'])}` : ''
  const own = textOf(id)
  const named = type === 'Chunk' ? textOf(record['document_id']) || own : own
  const chunkId = rows !== '' && named.endsWith(rows) ? named.slice(0, -rows.length) : named
  return { collection: textOf(collection), documentId, chunkId }
}

interface Carried {
  readonly run: { readonly id: string; readonly startedAt: number }
  readonly headers: Readonly<Record<string, string>>
}

function payloadOf(type: WireType, record: TrustGraphRecord, { run, headers }: Carried): unknown {
  const own = isObject(record['graphmill']) ? record['graphmill'] : {}
  const seq = numberOf(headers['gm-seq']) ?? 0
  switch (type) {
    case 'TextDocument':
      return textDocument(record)
    case 'Chunk':
      return chunk(record)
    case 'Triples':
      return { triples: (record['triples'] as TrustGraphRecord[]).map(ourTriple) }
    case 'EntityContexts':
      return { entities: (record['entities'] as TrustGraphRecord[]).map(ourContext) }
    case 'Rows':
      return rows(record, own, run)
    case 'PromptRequest':
      return {
        promptId: record['id'],
        terms: record['terms'],
        streaming: record['streaming'],
        context: {},
        grounding: null,
      }
    case 'PromptResponse':
      return promptResponse(record, own, { run, seq })
    case 'TextCompletionRequest':
      return completionRequest(record)
    case 'TextCompletionResponse':
      return { ...completionResponse(record), run, seq }
    default:
      return type satisfies never
  }
}

/** Only inline text can be taken: what the librarian has is asked of it. */
function textDocument(record: TrustGraphRecord) {
  if (record['text'] === '' && record['document_id'] !== '')
    throw new GraphmillError('bytes_undecodable', 'The text of the document is with the librarian.')
  const blank = { title: '', uri: '', mediaType: 'text/plain', part: 0, offset: 0 }
  return { ...blank, text: record['text'], pages: [], firstPage: 1, start: null }
}

function chunk(record: TrustGraphRecord) {
  const text = textOf(record['chunk'])
  const place = { part: 0, index: 0, offset: 0, length: text.length, page: null, start: null, pages: [] }
  return { ...place, text, attributes: asJsonTexts(record['attributes']) }
}

function rows(record: TrustGraphRecord, own: TrustGraphRecord, run: Rows['run']): Rows {
  const place = { offset: 0, length: 0, ...(isObject(own['source']) ? own['source'] : {}) }
  return {
    run,
    model: typeof own['model'] === 'string' ? own['model'] : null,
    schemaName: textOf(record['schema_name']),
    values: record['values'] as Rows['values'],
    typed: Array.isArray(own['typed']) ? own['typed'] : [],
    confidence: record['confidence'] as number,
    sourceSpan: { ...place, text: textOf(record['source_span']) },
    groundings: [],
  }
}

/** The fields of a reply that only our readers know. */
const replyFields = {
  finishReason: null,
  truncated: false,
  accepted: 0,
  rejected: 0,
  rejections: {},
  repaired: 0,
  duplicates: 0,
  reasked: 0,
  incomplete: null,
  cause: null,
  outputMode: null,
  groundings: [],
} as const

function promptResponse(
  record: TrustGraphRecord,
  own: TrustGraphRecord,
  part: { run: unknown; seq: number },
) {
  const carried = Object.entries(replyFields).map(([name, otherwise]) => [name, own[name] ?? otherwise])
  return {
    promptId: textOf(own['promptId']),
    ...part,
    text: record['text'],
    object: record['object'],
    endOfStream: record['end_of_stream'],
    usage: ourUsage(record, own['spent']),
    model: record['model'],
    error: record['error'],
    context: {},
    ...Object.fromEntries(carried),
  }
}

function completionRequest(record: TrustGraphRecord) {
  const { operation, system, prompt, streaming, schema } = record
  // The word `json` counts only with a schema, and a schema only with the word.
  const asked = record['response_format'] === 'json' && isObject(schema) ? JSON.stringify(schema) : null
  return { operation, system, prompt, streaming, responseFormat: null, schema: asked, context: {} }
}

function completionResponse(record: TrustGraphRecord) {
  return {
    response: record['response'] ?? '',
    endOfStream: record['end_of_stream'],
    finishReason: null,
    usage: ourUsage(record, undefined),
    model: record['model'],
    error: record['error'],
    context: {},
    outputMode: null,
    models: (record['models'] as unknown[]).map((model) => JSON.stringify(model)),
  }
}

function recordOf(message: WireMessage): TrustGraphRecord {
  const { type, chunkId, documentId, collection } = message
  const metadata = { id: chunkId || documentId, root: documentId, collection }
  switch (type) {
    case 'TextDocument':
      return { metadata, text: message.payload.text }
    case 'Chunk': {
      const { text, attributes } = message.payload
      return { metadata, chunk: text, document_id: metadata.id, attributes: fromJsonTexts(attributes) }
    }
    case 'Triples':
      return { metadata, triples: message.payload.triples.map(theirTriple) }
    case 'EntityContexts':
      return { metadata, entities: message.payload.entities.map(theirContext) }
    case 'Rows':
      return theirRows(message.payload, metadata)
    case 'PromptRequest': {
      const { promptId, terms, streaming } = message.payload
      return { id: promptId, terms, streaming }
    }
    case 'PromptResponse': {
      const { payload } = message
      const { error, text, object, endOfStream, model } = payload
      const own = { promptId: payload.promptId, spent: payload.usage?.spent ?? [], ...pick(payload) }
      return {
        ...{ error, text, object, end_of_stream: endOfStream, ...theirUsage(payload.usage), model },
        ...ownFields(own),
      }
    }
    case 'TextCompletionRequest': {
      const { operation, system, prompt, streaming, schema } = message.payload
      const format = schema === null ? null : 'json'
      return {
        operation,
        system,
        prompt,
        streaming,
        response_format: format,
        schema: schema && jsonValue(schema),
      }
    }
    case 'TextCompletionResponse': {
      const { error, response, usage, model, endOfStream, models } = message.payload
      const answer = { error, response: error === null ? response : null, end_of_stream: endOfStream, model }
      return { ...answer, ...theirUsage(usage), models: models.map(jsonValue) }
    }
    default:
      return message satisfies never
  }
}

function theirRows(payload: Rows, metadata: { readonly id: string }): TrustGraphRecord {
  const { schemaName, values, confidence, sourceSpan, typed, model } = payload
  const { offset, length, text } = sourceSpan
  const source = offset === 0 && length === 0 ? null : { offset, length }
  return {
    metadata: { ...metadata, id: `${metadata.id}:${schemaName}` },
    schema_name: schemaName,
    values,
    confidence,
    source_span: text,
    ...ownFields({ typed, model, source }),
  }
}

function pick(payload: Message<'PromptResponse'>['payload']): Record<string, unknown> {
  return Object.fromEntries(
    Object.keys(replyFields).map((name) => [name, payload[name as keyof typeof replyFields]]),
  )
}

/** The field `graphmill`, when something in it is not empty. */
function ownFields(fields: Readonly<Record<string, unknown>>): TrustGraphRecord {
  const isEmpty = (value: unknown) => !value || (typeof value === 'object' && Object.keys(value).length === 0)
  const told = Object.entries(fields).filter(([, value]) => !isEmpty(value))
  return told.length > 0 ? { graphmill: Object.fromEntries(told) } : {}
}

const termFields = ['iri', 'id', 'value', 'datatype', 'language'] as const

/** Ours has null for a text that is not used; a literal has its value, even an empty one. */
function ourTerm(value: unknown): Term {
  const record = (value ?? {}) as TrustGraphRecord
  const used = { i: 'iri', b: 'id', l: 'value' }[textOf(record['type'])]
  const texts = termFields.map((name) => [name, name === used ? textOf(record[name]) : record[name] || null])
  const quoted = record['triple'] ? ourTriple(record['triple'] as TrustGraphRecord) : null
  return { type: textOf(record['type']), ...Object.fromEntries(texts), triple: quoted } as Term
}

function ourTriple({ s, p, o, g }: TrustGraphRecord): Triple {
  return { s: ourTerm(s), p: ourTerm(p), o: ourTerm(o), g: typeof g === 'string' && g !== '' ? g : null }
}

function theirTerm(term: Term): TrustGraphRecord {
  return { ...term, triple: term.triple && theirTriple(term.triple) }
}

function theirTriple({ s, p, o, g }: Triple): TrustGraphRecord {
  return { s: theirTerm(s), p: theirTerm(p), o: theirTerm(o), g }
}

function ourContext(record: TrustGraphRecord): EntityContext {
  return {
    entity: ourTerm(record['entity']),
    context: textOf(record['context']),
    chunkId: textOf(record['chunk_id']),
    rdfType: record['rdf_type'] as string[],
    attributes: asJsonTexts(record['attributes']),
  }
}

function theirContext({ entity, context, chunkId, rdfType, attributes }: EntityContext): TrustGraphRecord {
  const types = { rdf_type: rdfType, attributes: fromJsonTexts(attributes) }
  return { entity: theirTerm(entity), context, chunk_id: chunkId, ...types }
}

function asJsonTexts(value: unknown): Record<string, string> {
  return Object.fromEntries(
    Object.entries(value as TrustGraphRecord).map(([name, member]) => [name, JSON.stringify(member)]),
  )
}

function fromJsonTexts(texts: Readonly<Record<string, string>>): TrustGraphRecord {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, jsonValue(text)]))
}

function ourUsage(record: TrustGraphRecord, spent: unknown): Usage | null {
  const [promptTokens, completionTokens] = [record['in_token'], record['out_token']] as (number | null)[]
  const calls = Array.isArray(spent) ? (spent as Usage['spent']) : []
  if (promptTokens === null && completionTokens === null && calls.length === 0) return null
  return { promptTokens: promptTokens!, completionTokens: completionTokens!, totalTokens: null, spent: calls }
}

function theirUsage(usage: Usage | null) {
  return { in_token: usage?.promptTokens ?? null, out_token: usage?.completionTokens ?? null }
}

function runOf(header: string | undefined) {
  const [id = '', startedAt] = (header ?? '').split(' ')
  const time = numberOf(startedAt)
  return id === '' || time === null ? undefined : { id, startedAt: time }
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

const metadataOf = (record: TrustGraphRecord) => (record['metadata'] ?? {}) as TrustGraphRecord

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
