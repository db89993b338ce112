// What the ledger knows of the documents of a flow, by id: for commands that load or remove them.
import type { Broker } from '../broker/broker.ts'
import { toGraphmillError } from '../errors.ts'
import { type FlowTopics, outputRoute } from '../flow/ports.ts'
import { decodeEntry, type SchemasTopic } from '../flow/schemas-topic.ts'
import type { Message } from '../messages/envelope.ts'
import { flowStatusId } from '../progress/flow-status.ts'
import { isNewer } from '../progress/status-cache.ts'
import { readToEnd, reportSkipped } from './read-to-end.ts'

export interface KnownDocument {
  readonly documentId: string
  readonly title: string
  readonly state: string
  readonly collection: string
  readonly version: string
  readonly versionTime: number
}

/** Empty when no ledger has ever run in the flow, and when its topic may not be read: then chunk-text finds out what is known. */
export async function knownDocuments(
  { broker, schemas }: { readonly broker: Broker; readonly schemas: SchemasTopic },
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<Map<string, KnownDocument>> {
  const { topic } = outputRoute('status', flow)
  const known = new Map<string, KnownDocument & Pick<Message<'Status'>['payload'], 'epoch' | 'revision'>>()
  if (!(await isReadable(broker, topic))) return known
  for await (const entry of readToEnd(broker, topic, signal)) {
    const message = await decodeEntry(entry, 'Status', { schemas, signal, onUnreadable: reportSkipped })
    if (!message || message.documentId === flowStatusId) continue
    const { documentId, payload } = message
    const { title, state, collection, version, versionTime, epoch, revision } = payload
    if (!isNewer(payload, known.get(documentId))) continue
    known.set(documentId, { documentId, title, state, collection, version, versionTime, epoch, revision })
  }
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
