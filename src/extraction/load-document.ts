// `loadDocument` and `removeDocument` of the library: publish a document for the processors of a flow on a broker, or its removal, as
// `graphmill load` and `remove` do.
import type { Broker } from '../broker/broker.ts'
import { topicSpec } from '../broker/topics.ts'
import { checkId } from '../documents/identity.ts'
import type { FindOptions, NamedSource } from '../documents/read.ts'
import { GraphmillError } from '../errors.ts'
import { systemClock, uuids } from '../flow/clock.ts'
import { type KnownDocuments, knownDocuments } from '../flow/known-documents.ts'
import { type LoadedDocument, loadDocument as publishDocument } from '../flow/load-document.ts'
import { outputRoute } from '../flow/ports.ts'
import type { Scope } from '../flow/processor.ts'
import { publishRemoval } from '../flow/removal.ts'
import { createCircuits } from '../flow/runner/circuits.ts'
import { createSchemasTopic } from '../flow/schemas-topic.ts'
import { createCodec } from '../messages/codec.ts'
import { loadSchemas } from '../messages/registry.ts'
import { documentsOf, nameOf, type Source } from './sources.ts'

/** A flow on a broker. */
export interface FlowPlace extends Partial<Scope> {
  readonly broker: Broker
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly signal?: AbortSignal | undefined
}

/** Where a document goes, and how it is known there. */
export interface LoadDocumentOptions extends FlowPlace, Pick<FindOptions, 'base' | 'limits'> {
  /** The id of the document, 1 to 500 characters. Default: its URL, or made of its path below `base`, or of the title and text of a document that is no file. */
  readonly id?: string
  /** Default `default`. */
  readonly collection?: string
}

/**
 * Publishes one document: `version` names its text, and `unchanged` says that this version was loaded before, so that nothing was
 * published. A changed text with a known id is a new version: only its new chunks are extracted, and it replaces the version before.
 * Each call reads the newest status of all documents of the flow.
 *
 * Throws `document_` errors, which the flow's status shows too, `usage` for a source of several documents, and what the broker refuses.
 * @example await loadDocument({ id: 'page-7', title: 'Mills', text }, { broker: await connect('kafka://127.0.0.1:9092') })
 */
export async function loadDocument(source: Source, options: LoadDocumentOptions): Promise<LoadedDocument> {
  const { collection = 'default', signal = new AbortController().signal } = options
  const document = await singleDocument(source, options, signal)
  const { target, known } = await openFlow(options, 'load', signal)
  const newest = (documentId: string) => known.documents.get(documentId)
  const newestNow = async (documentId: string) => (await known.now())?.get(documentId)
  return publishDocument(document, { ...target, collection, newest, newestNow }, signal)
}

/**
 * Removes a document: what no other document states leaves the stores that can withdraw it. Resolves when the removal is published.
 * Throws `document_unknown` when the ledger knows no such document, or it is removed already.
 * @example await removeDocument('page-7', { broker })
 */
export async function removeDocument(documentId: string, place: FlowPlace): Promise<void> {
  const { signal = new AbortController().signal } = place
  const { target, known } = await openFlow(place, 'remove', signal)
  const there = (documents?: KnownDocuments['documents']) => {
    const document = documents?.get(documentId)
    return document?.state === 'removed' ? undefined : document
  }
  const document = there(known.documents) ?? there(await known.now())
  if (!document) throw new GraphmillError('document_unknown', `The ledger knows no document ${documentId}.`)
  await publishRemoval({ documentId, reason: 'removed', newestTime: document.versionTime }, target, signal)
}

/** What messages about documents need, and what is known of the documents of the flow. */
export async function openFlow(
  { broker, workspace = 'default', flow = 'default', space = 'gm' }: FlowPlace,
  source: string,
  signal: AbortSignal,
) {
  const scope = { workspace, flow }
  const codec = createCodec(loadSchemas())
  const schemas = createSchemasTopic(broker, codec, space)
  const topics = (['document', 'progress'] as const).map(
    (port) => outputRoute(port, { space, ...scope }).topic,
  )
  await broker.ensureTopics(topics.map((topic) => topicSpec(topic)))
  await schemas.announce(signal)
  const known = await knownDocuments({ broker, schemas }, { space, ...scope }, signal)
  const services = { clock: systemClock, ids: uuids, circuits: createCircuits() }
  return { target: { broker, codec, ...services, space, scope, source }, known }
}

async function singleDocument(
  source: Source,
  { id, base, limits }: LoadDocumentOptions,
  signal: AbortSignal,
): Promise<NamedSource> {
  const found: NamedSource[] = []
  for await (const document of documentsOf(source, { base, ...(limits && { limits }) }, signal)) {
    found.push(document)
    if (found.length > 1) throw new GraphmillError('usage', `${nameOf(source)}: it names several documents.`)
  }
  const [document] = found
  return { ...document!, ...(id !== undefined && { id: checkId(id) }) }
}
