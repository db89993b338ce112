import { codePoints } from '../code-points.ts'
import { versionOf } from '../documents/identity.ts'
import { cutParts } from '../documents/parts.ts'
import { documentId, documentPlaceId, type TextSource } from '../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { emptyHeader, type TypedPayload } from '../messages/envelope.ts'
import type { ProgressInit } from '../messages/generated.ts'
import { startSpan } from '../observe/trace.ts'
import { pagesWithin } from '../pages.ts'
import { outputRoute } from './ports.ts'
import type { DocumentTarget } from './removal.ts'
import { publishUntilStored } from './runner/outbox.ts'

export interface SourceOptions extends DocumentTarget {
  readonly collection: string
  /**
   * What is known of the document with this id. When it is given, documents have versions: a version that is known is not loaded again.
   * Default: a document has no version, and its id is that of its text.
   */
  readonly newest?: ((documentId: string) => KnownVersion | undefined) | undefined
  /**
   * The same when everything is read that was published before; undefined when that is not known in time. Asked before a document is said
   * to be unchanged. Default: `newest`.
   */
  readonly newestNow?: ((documentId: string) => Promise<KnownVersion | undefined>) | undefined
  /** Called before a new version of a known document is published; throws `store_cannot_withdraw` to refuse it. */
  readonly requireWithdrawal?: () => void
  /** Whether a document that has an id keeps it, also when documents have no versions. Default false. */
  readonly keepsIds?: boolean
}

export interface KnownVersion {
  /** A state of the ledger's. */
  readonly state: string
  readonly collection: string
  readonly version: string
  readonly versionTime: number
}

/** A document that was published. */
export interface LoadedDocument {
  readonly documentId: string
  readonly parts: number
  /** Empty when documents have no versions. */
  readonly version: string
  /** Whether this version was loaded before, so that nothing was published. */
  readonly unchanged: boolean
}

/** How long the report that a document was not loaded may take when the load was stopped, in milliseconds. */
const failureReportMs = 5000

/**
 * Publishes a document: its title and its parts, and when all of them are stored, how many there are. When it can't be read, or holds no text, that is reported on `progress` and
 * thrown as a `document_` error. So is whatever else keeps it from being published whole, such as the reason of the signal.
 */
export async function loadDocument(
  text: TextSource,
  options: SourceOptions,
  signal: AbortSignal,
): Promise<LoadedDocument> {
  const span = startLoadSpan(text, options)
  const loading: Loading = {
    documentId: givenId(text.id, options) ?? documentPlaceId(text),
    parts: 0,
    version: '',
    versionTime: 0,
    unchanged: false,
    again: false,
    traceparent: span.traceparent,
  }
  try {
    await publishDocument(text, { loading, options }, signal)
    span.end()
    const { documentId, parts, version, unchanged } = loading
    return { documentId, parts, version, unchanged }
  } catch (thrown) {
    const error = toGraphmillError(thrown)
    span.end(error)
    // The version before stays as it is.
    if (error.code !== 'store_cannot_withdraw')
      await reportFailure(text.title, error, { loading, options }, signal)
    throw error
  }
}

/** A document while it is published. */
interface Loading {
  documentId: string
  parts: number
  version: string
  versionTime: number
  unchanged: boolean
  /** Whether the chunks of the version before may not be there. */
  again: boolean
  readonly traceparent: string
}

interface LoadRun {
  readonly loading: Loading
  readonly options: SourceOptions
}

async function publishDocument(text: TextSource, load: LoadRun, signal: AbortSignal): Promise<void> {
  const { loading } = load
  const ready = (await text.prepare?.(signal)) ?? text
  await identify({ id: text.id, ready }, load)
  if (loading.unchanged) return
  const report = (payload: ProgressInit) => publish({ type: 'Progress', payload }, load, signal)
  // While one message is stored, the next one is made and published.
  let before = awaitedLater(report({ kind: 'loading', title: text.title }))
  let blank = true
  let start = 0
  for await (const part of cutParts(ready.text())) {
    if (part.text.trim() !== '') blank = false
    const { title, uri, mediaType, pages = [] } = ready
    const payload = {
      title,
      uri,
      mediaType,
      ...part,
      again: loading.again,
      start,
      ...pagesWithin(pages, part),
    }
    start += codePoints(part.text)
    const storing = publish({ type: 'TextDocument', payload }, load, signal)
    const stored = awaitedLater(storing.then(() => void loading.parts++))
    await before
    before = stored
  }
  await before
  if (blank) throw new GraphmillError('document_empty', `${text.title}: it holds no text.`)
  await report({ kind: 'document', parts: loading.parts, title: text.title })
}

function givenId(id: string | undefined, { newest, keepsIds }: SourceOptions): string | undefined {
  return newest || keepsIds ? id : undefined
}

/** Sets the document's id and version. */
async function identify(
  { id, ready }: { readonly id: string | undefined; readonly ready: TextSource },
  { loading, options }: LoadRun,
): Promise<void> {
  const { newest, newestNow, clock, collection } = options
  loading.documentId = givenId(id, options) ?? (await documentId(ready))
  if (!newest) return
  const version = await versionOf(ready.text())
  const isSame = (known?: KnownVersion) =>
    known?.version === version && known.state === 'done' && known.collection === collection
  let known = newest(loading.documentId)
  // Another version, or a removal, may be on its way.
  const confirmed = isSame(known) && newestNow ? await newestNow(loading.documentId) : known
  loading.unchanged = isSame(confirmed)
  known = confirmed ?? known
  if (known?.version && known.version !== version && known.state !== 'removed') options.requireWithdrawal?.()
  loading.again = known?.state === 'partial' || known?.state === 'failed'
  loading.version = version
  // Later than what is known, also when clocks differ. There is a moment between two versions, up to which the ledger may withdraw.
  loading.versionTime = Math.max(clock.now(), (known?.versionTime ?? 0) + 2)
}

/** Keeps a rejection from counting as unhandled until the promise is awaited. */
function awaitedLater(promise: Promise<void>): Promise<void> {
  promise.catch(() => undefined)
  return promise
}

async function reportFailure(
  title: string,
  { code: type, message }: GraphmillError,
  load: LoadRun,
  signal: AbortSignal,
): Promise<void> {
  const isOfDocument = type.startsWith('document_')
  const said = isOfDocument ? message : `Loading it ended after ${load.loading.parts} parts: ${message}`
  const payload = { kind: 'failed', title, error: { type, message: said } }
  const until = isOfDocument && !signal.aborted ? signal : AbortSignal.timeout(failureReportMs)
  const reported = publish({ type: 'Progress', payload }, load, until)
  // The error that ended the load is thrown also when it can't be reported.
  await (isOfDocument ? reported : reported.catch(() => undefined))
}

function publish(
  typed: TypedPayload<'TextDocument' | 'Progress'>,
  { loading: { documentId, version, versionTime, traceparent }, options }: LoadRun,
  signal: AbortSignal,
): Promise<void> {
  const { codec, clock, ids, space, scope, source, collection } = options
  const { topic } = outputRoute(typed.type === 'Progress' ? 'progress' : 'document', { space, ...scope })
  const id = ids.next()
  const own = {
    source,
    time: clock.now(),
    collection,
    documentId,
    correlationId: id,
    traceparent,
    version,
    versionTime,
  }
  const header = { ...emptyHeader, ...scope, ...own }
  const message = codec.encode(header, typed, { topic, key: documentId, salt: '', id: () => id })
  return publishUntilStored(message, options, signal)
}

function startLoadSpan({ title }: TextSource, { source, space, scope }: SourceOptions) {
  return startSpan(`${source} document`, {
    kind: 'producer',
    attributes: () => ({
      'messaging.operation.type': 'send',
      'messaging.destination.name': outputRoute('document', { space, ...scope }).topic,
      'graphmill.workspace': scope.workspace,
      'graphmill.flow': scope.flow,
      'graphmill.document.title': title,
    }),
  })
}
