// What the ledger knows of the documents of a flow, by id: for what loads or removes them.
import type { Broker } from '../broker/broker.ts'
import { toGraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import { flowStatusId } from '../progress/flow-status.ts'
import { isNewer } from '../progress/status-cache.ts'
import { type FlowTopics, outputRoute } from './ports.ts'
import { decodeEntry, type OnUnreadable, type SchemasTopic } from './schemas-topic.ts'

export interface KnownDocument {
  readonly documentId: string
  readonly title: string
  readonly state: string
  readonly collection: string
  readonly version: string
  readonly versionTime: number
}

export interface KnownDocumentsOptions {
  readonly broker: Broker
  readonly schemas: SchemasTopic
  /** Default: such an entry is skipped. */
  readonly onUnreadable?: OnUnreadable
}

/** Empty when no ledger has ever run in the flow, and when its topic may not be read: then chunk-text finds out what is known. */
export async function knownDocuments(
  { broker, schemas, onUnreadable = () => undefined }: KnownDocumentsOptions,
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<Map<string, KnownDocument>> {
  const { topic } = outputRoute('status', flow)
  const known = new Map<string, KnownDocument & Pick<Message<'Status'>['payload'], 'epoch' | 'revision'>>()
  if (!(await isReadable(broker, topic))) return known
  for await (const entry of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) {
    const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable })
    if (!message || message.documentId === flowStatusId) continue
    const { documentId, payload } = message
    const { title, state, collection, version, versionTime, epoch, revision } = payload
    if (!isNewer(payload, known.get(documentId))) continue
    known.set(documentId, { documentId, title, state, collection, version, versionTime, epoch, revision })
  }
  signal.throwIfAborted()
  return known
}

async function isReadable(broker: Broker, topic: string): Promise<boolean> {
  try {
    return await broker.hasTopic(topic)
  } catch (thrown) {
    if (toGraphmillError(thrown).code !== 'topic_refused') throw thrown
    return false
  }
}
