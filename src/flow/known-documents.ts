// What the ledger knows of the documents of a flow, by id: for what loads or removes them.
import type { Broker } from '../broker/broker.ts'
import { toGraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import { flowStatusId } from '../progress/flow-status.ts'
import { isNewer } from '../progress/status-cache.ts'
import { wait } from '../wait.ts'
import { type FlowTopics, inputGroup, inputTopic, outputRoute } from './ports.ts'
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
  /** How long to wait for chunk-text and the ledger, in milliseconds. Default 10,000. */
  readonly patienceMs?: number
}

export interface KnownDocuments {
  /** Empty when no ledger has ever run in the flow, and when its topic may not be read: then chunk-text finds out what is known. */
  readonly documents: ReadonlyMap<string, KnownDocument>
  /**
   * Those that are known when chunk-text and the ledger have read all that was published before the first call. Undefined when they have
   * not in time, and when we may not know: then something newer may be on its way.
   */
  now(): Promise<ReadonlyMap<string, KnownDocument> | undefined>
}

export async function knownDocuments(
  options: KnownDocumentsOptions,
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<KnownDocuments> {
  const { broker, patienceMs = 10_000 } = options
  let asked: ReturnType<KnownDocuments['now']> | undefined
  const now = async () => {
    const end = performance.now() + patienceMs
    for (const [port, processor] of [
      ['document', 'chunk-text'],
      ['progress', 'ledger'],
    ] as const) {
      const place = { topic: inputTopic(port, flow, processor), group: inputGroup(port, flow, processor) }
      if (!(await hasRead(broker, { ...place, end }, signal))) return undefined
    }
    return await readStatuses(options, flow, signal)
  }
  return { documents: await readStatuses(options, flow, signal), now: () => (asked ??= now()) }
}

/** How long to wait between two looks, in milliseconds. */
const lookMs = 100

/** Whether the group has settled in time what the topic has now. Nobody settles anything for a group without members. */
async function hasRead(
  broker: Pick<Broker, 'ends' | 'lag'>,
  { topic, group, end }: { readonly topic: string; readonly group: string; readonly end: number },
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const before = await broker.ends(topic)
    for (;;) {
      const ends = await broker.ends(topic)
      const { total, partitions, members } = await broker.lag(group, topic)
      // The ends of Pulsar are no numbers: there everything must be settled.
      const isBehind = ({ partition, lag }: (typeof partitions)[number]) =>
        !(lag <= Number(ends[partition]) - Number(before[partition]))
      if (total === 0 || !partitions.some(isBehind)) return true
      if (members === 0 || performance.now() > end) return false
      await wait(lookMs, signal)
    }
  } catch (thrown) {
    signal.throwIfAborted()
    const { code } = toGraphmillError(thrown)
    if (code === 'topic_missing') return true
    if (['topic_refused', 'broker_refused', 'broker_unavailable'].includes(code)) return false
    throw thrown
  }
}

async function readStatuses(
  { broker, schemas, onUnreadable = () => undefined }: KnownDocumentsOptions,
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, KnownDocument>> {
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
