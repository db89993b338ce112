// Our messages on TrustGraph's topics and back. What its bodies have no place for goes into headers `gm-…`, or into the body's field
// `graphmill`, both of which TrustGraph ignores.
import { createHash } from 'node:crypto'
import type avro from 'avsc'
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import { avroType } from '../messages/avro-types.ts'
import { emptyHeader, type Header, type Message } from '../messages/envelope.ts'
import type { EntityContext, Rows, Term, Triple } from '../messages/generated.ts'
import { loadSchemas } from '../messages/registry.ts'
import { type CallType, isCall, isRequest, payloadOfCall, recordOfCall } from './calls.ts'
import { ownFields, readRecord, type TrustGraphRecord, writeRecord } from './records.ts'
import { readRequestId, writeRequestId } from './request-id.ts'

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

/** How long a client of TrustGraph waits for its reply, in milliseconds. */
const patienceMs = 600_000

/**
 * The message in these bytes. A message that does not come from graphmill has a hash of its topic, its request id or URN, and its
 * body as its id, so that a repeat has the same.
 *
 * Throws `bytes_undecodable` for what is no JSON object of the type, and for a request or reply without `id`.
 */
export function readMessage(type: WireType, { body, headers }: WireBytes, receipt: Receipt): WireMessage {
  const record = readRecord(theirTypes[type], body)
  const requestId = isCall(type) ? headers['id'] : undefined
  if (isCall(type) && !requestId)
    throw new GraphmillError('bytes_undecodable', `A ${theirTypes[type]} needs the header "id".`)
  const asked = readRequestId(requestId ?? '')
  const urn = textOf(metadataOf(record)['id'])
  const id = headers['gm-id'] ?? foreignId(receipt.topic, requestId ?? urn, body)
  const source = headers['gm-source'] ?? 'trustgraph'
  const lateAt = isRequest(type) && source === 'trustgraph' ? receipt.time + patienceMs : null
  const header: Header = {
    ...emptyHeader,
    ...placeOf(type, record),
    id,
    source,
    time: receipt.time,
    workspace: receipt.workspace,
    flow: receipt.flow,
    correlationId: requestId ?? headers['gm-correlation'] ?? '',
    causationId: headers['gm-causation'] ?? '',
    deadline: numberOf(headers['gm-deadline']) ?? lateAt,
    traceparent: headers['traceparent'] ?? null,
    ...asked?.header,
  }
  const own = isObject(record['graphmill']) ? record['graphmill'] : {}
  // Two answers to a request are one run: the first counts.
  const runId = requestId === undefined ? id : foreignId(receipt.topic, requestId)
  const run = runOf(headers['gm-run']) ?? { id: runId, startedAt: receipt.time }
  const place = numberOf(headers['gm-seq']) ?? 0
  // A larger one does not fit the field, and no process of ours writes it.
  const seq = place < 2 ** 31 ? place : 0
  const made = (fields: TrustGraphRecord) =>
    isCall(type)
      ? payloadOfCall(type, record, fields, { run, seq, asked })
      : payloadOf(type, record, fields, run)
  const isValid = validOf(type)
  // What is wrong in our own field is left out: TrustGraph's fields say the same without it.
  const payload = [own, {}].map(made).find(isValid)
  if (payload === undefined)
    throw new GraphmillError('bytes_undecodable', `The body is no ${theirTypes[type]}.`)
  return { ...header, type, payload } as WireMessage
}

const payloadTypes = new Map<WireType, avro.Type>()

/** Whether a value is a payload of this type. */
function validOf(type: WireType): (payload: unknown) => boolean {
  const known = payloadTypes.get(type) ?? avroType(loadSchemas().current.get(type)!.fields.at(-1)!.type)
  payloadTypes.set(type, known)
  return (payload) => known.isValid(payload)
}

/**
 * The body and headers of a message. `receiver` is the processor of ours that reads the reply to this request, or this reply; without
 * it, the request or reply has its correlation id as `id`, as TrustGraph's have.
 */
export function writeMessage(message: WireMessage, receiver?: string): WireBytes {
  const { type, payload } = message
  const run = 'run' in payload ? `${payload.run.id} ${payload.run.startedAt}` : undefined
  const headers = {
    ...(isCallMessage(message) && { id: requestIdOf(message, receiver) }),
    'gm-id': message.id,
    'gm-source': message.source,
    'gm-correlation': isCall(type) ? undefined : message.correlationId,
    'gm-causation': message.causationId,
    'gm-deadline': message.deadline === null ? undefined : String(message.deadline),
    'gm-run': run,
    'gm-seq': 'seq' in payload ? String(payload.seq) : undefined,
    traceparent: message.traceparent ?? undefined,
  }
  const used = Object.entries(headers).filter((entry): entry is [string, string] => Boolean(entry[1]))
  const record = isCallMessage(message) ? recordOfCall(message, receiver !== undefined) : recordOf(message)
  return { body: writeRecord(theirTypes[type], record), headers: Object.fromEntries(used) }
}

const isCallMessage = (message: WireMessage): message is Message<CallType> => isCall(message.type)

function requestIdOf(message: Message<CallType>, receiver: string | undefined): string {
  if (receiver === undefined) return message.correlationId || message.id
  const promptId = 'promptId' in message.payload ? message.payload.promptId : ''
  return writeRequestId(receiver, { header: message, promptId, context: message.payload.context ?? {} })
}

/** Different content never shares an id, and a repeat keeps its own. */
function foreignId(topic: string, name: string, body: Uint8Array = new Uint8Array()): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([topic, name]))
    .update(body)
  return `tg-${hash.digest().subarray(0, 16).toString('hex')}`
}

/** The header's fields that the body has: collection, document and chunk. */
function placeOf(type: WireType, record: TrustGraphRecord) {
  if (isCall(type)) return {}
  const { id, root, collection } = metadataOf(record)
  const documentId = textOf(root) || textOf(id)
  if (type === 'TextDocument') return { collection: textOf(collection), documentId: textOf(id) || documentId }
  const rows = type === 'Rows' ? `:${textOf(record['schema_name'])}` : ''
  const own = textOf(id)
  const named = type === 'Chunk' ? textOf(record['document_id']) || own : own
  const chunkId = rows !== '' && named.endsWith(rows) ? named.slice(0, -rows.length) : named
  return { collection: textOf(collection), documentId, chunkId }
}

function payloadOf(
  type: Exclude<WireType, CallType>,
  record: TrustGraphRecord,
  own: TrustGraphRecord,
  run: Rows['run'],
): unknown {
  switch (type) {
    case 'TextDocument':
      return textDocument(record, own)
    case 'Chunk':
      return chunk(record, own)
    case 'Triples':
      return { triples: (record['triples'] as TrustGraphRecord[]).map(ourTriple) }
    case 'EntityContexts':
      return { entities: (record['entities'] as TrustGraphRecord[]).map(ourContext) }
    case 'Rows':
      return rows(record, own, run)
    default:
      return type satisfies never
  }
}

/** Only inline text can be taken: what the librarian has is asked of it. */
function textDocument(record: TrustGraphRecord, own: TrustGraphRecord) {
  if (record['text'] === '' && record['document_id'] !== '')
    throw new GraphmillError('bytes_undecodable', 'The text of the document is with the librarian.')
  return { ...carried(own, documentFields), text: record['text'] }
}

/** What of a part of a document only our readers know. */
const documentFields = {
  ...{ title: '', uri: '', mediaType: 'text/plain', part: 0, offset: 0 },
  ...{ pages: [], firstPage: 1, start: null },
}

/** What of a chunk only our readers know. */
const chunkFields = { part: 0, index: 0, offset: 0, page: null, start: null, pages: [] }

/** The fields with these defaults that `own` has; numbers count from 0 on. */
function carried(own: TrustGraphRecord, defaults: TrustGraphRecord): TrustGraphRecord {
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0
  const fits = (value: unknown, otherwise: unknown) => {
    if (Array.isArray(otherwise)) return Array.isArray(value) && value.every(isCount)
    return typeof otherwise === 'string' ? typeof value === 'string' : isCount(value)
  }
  const taken = Object.entries(defaults).map(([name, otherwise]) => [
    name,
    fits(own[name], otherwise) ? own[name] : otherwise,
  ])
  return Object.fromEntries(taken)
}

/** Those fields of a payload that are not the defaults. */
function ownPlace(payload: object, defaults: TrustGraphRecord): TrustGraphRecord {
  const given = Object.entries(payload).filter(
    ([name, value]) => Object.hasOwn(defaults, name) && value !== defaults[name],
  )
  return ownFields(Object.fromEntries(given))
}

function chunk(record: TrustGraphRecord, own: TrustGraphRecord) {
  const text = textOf(record['chunk'])
  const attributes = asJsonTexts(record['attributes'])
  return { ...carried(own, chunkFields), length: text.length, text, attributes }
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
    groundings: Array.isArray(own['groundings']) ? own['groundings'] : [],
  }
}

function recordOf(message: Exclude<WireMessage, Message<CallType>>): TrustGraphRecord {
  const { type, chunkId, documentId, collection } = message
  const metadata = { id: chunkId || documentId, root: documentId, collection }
  switch (type) {
    case 'TextDocument':
      refuseRemoval(message.payload.removed)
      return { metadata, text: message.payload.text, ...ownPlace(message.payload, documentFields) }
    case 'Chunk': {
      const { text, attributes } = message.payload
      const fields = { chunk: text, document_id: metadata.id, attributes: fromJsonTexts(attributes) }
      return { metadata, ...fields, ...ownPlace(message.payload, chunkFields) }
    }
    case 'Triples':
      return { metadata, triples: message.payload.triples.map(theirTriple) }
    case 'EntityContexts':
      return { metadata, entities: message.payload.entities.map(theirContext) }
    case 'Rows':
      return theirRows(message.payload, metadata)
    default:
      return message satisfies never
  }
}

/** Their document has no version, so that nothing of it could be told from what it states when it is loaded again. */
function refuseRemoval(removed: string | null | undefined): void {
  if (removed)
    throw new GraphmillError(
      'usage',
      "This flow is on TrustGraph's topics, which have no message that removes a document. Delete what it states in the store.",
    )
}

function theirRows(payload: Rows, metadata: { readonly id: string }): TrustGraphRecord {
  const { schemaName, values, confidence, sourceSpan, typed, model, groundings } = payload
  const { offset, length, text } = sourceSpan
  const source = offset === 0 && length === 0 ? null : { offset, length }
  return {
    metadata: { ...metadata, id: `${metadata.id}:${schemaName}` },
    schema_name: schemaName,
    values,
    confidence,
    source_span: text,
    ...ownFields({ typed, model, source, groundings }),
  }
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

function fromJsonTexts(texts: Readonly<Record<string, string>> = {}): TrustGraphRecord {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, jsonValue(text)]))
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
