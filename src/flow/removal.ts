// Removing a document: a message on `document` says so, chunk-text passes it on, and the ledger tells stores what is withdrawn.
import type { Broker, ReadMessage } from '../broker/broker.ts'
import type { Codec } from '../messages/codec.ts'
import { emptyHeader, type Message, type TypedPayload } from '../messages/envelope.ts'
import { outputRoute } from './ports.ts'
import type { Clock, Ids, Scope } from './processor.ts'
import type { Circuits } from './runner/circuits.ts'
import { publishUntilStored } from './runner/outbox.ts'

/** Where a message about a document goes, and who sends it. */
export interface DocumentTarget {
  readonly broker: Broker
  readonly codec: Codec
  readonly circuits: Circuits
  readonly clock: Clock
  readonly ids: Ids
  readonly space: string
  readonly scope: Scope
  /** The program's name in the envelopes. */
  readonly source: string
}

export interface Removal {
  readonly documentId: string
  /** `erased` also takes the document's title from its status. */
  readonly reason: 'removed' | 'erased' | 'collection'
  /** When its newest version was loaded, if that is known. Default: the removal is later than what chunk-text knows. */
  readonly newestTime?: number | undefined
}

/** Resolves when the removal is stored. */
export function publishRemoval(
  { documentId, reason, newestTime }: Removal,
  target: DocumentTarget,
  signal: AbortSignal,
): Promise<void> {
  const payload = { title: '', uri: '', mediaType: 'text/plain', text: '', removed: reason }
  const versionTime = newestTime === undefined ? 0 : Math.max(target.clock.now(), newestTime + 1)
  return publishAbout({ documentId, versionTime }, { type: 'TextDocument', payload }, target, signal)
}

/** The source of messages without a value: nobody has written it. */
export const valueless = '(no value)'

/** A message on `document` that has the key of a document and no value: it removes the document, later than all that is known. */
export function removalByKey(
  { partition, position, key: documentId, timestamp: time }: ReadMessage,
  scope: Scope,
): Message<'TextDocument'> {
  const id = `${partition}:${position}`
  const header = { ...emptyHeader, ...scope, id, source: valueless, time, documentId, correlationId: id }
  const blank = { title: '', uri: '', mediaType: 'text/plain', part: 0, offset: 0, text: '' }
  const pages = { pages: [], firstPage: 1, start: null }
  const payload = { ...blank, ...pages, last: false, again: false, removed: 'removed' }
  return { ...header, type: 'TextDocument', payload }
}

/** Publishes an entry on `progress`, or a message on `document`. */
export async function publishAbout(
  about: { readonly documentId: string; readonly versionTime: number },
  typed: TypedPayload<'TextDocument' | 'Progress'>,
  { broker, codec, circuits, clock, ids, space, scope, source }: DocumentTarget,
  signal: AbortSignal,
): Promise<void> {
  const { topic } = outputRoute(typed.type === 'Progress' ? 'progress' : 'document', { space, ...scope })
  const id = ids.next()
  const header = { ...emptyHeader, ...scope, ...about, source, time: clock.now(), correlationId: id }
  const message = codec.encode(header, typed, { topic, key: about.documentId, salt: '', id: () => id })
  await publishUntilStored(message, { broker, circuits }, signal)
}
