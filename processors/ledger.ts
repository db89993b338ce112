// The ledger: from `progress` to one status a document, in a compacted topic. An entry is acked only when a status that includes it is
// stored, and a status holds the whole state of its document. So the replica that gets a document's next entry goes on from the newest
// status, and nothing is counted twice or forgotten. A document's state is in memory only while entries of it are in flight.
// Entries about the flow itself go into a status of its own. When records were lost, each document that has not ended gets an entry
// about it.
import { setImmediate as turn } from 'node:timers/promises'
import { GraphmillError } from '../src/errors.ts'
import { type Context, defineProcessor, type Outputs, type Scope } from '../src/flow/processor.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { LostRecords, RetractionsInit, Status } from '../src/messages/generated.ts'
import type { DocumentFigures } from '../src/observe/document-metrics.ts'
import type { DocumentVersions } from '../src/progress/document-progress.ts'
import { type Settlement, versionsSaid } from '../src/progress/document-versions.ts'
import { addToFlow, flowStatusId, statusOfFlow } from '../src/progress/flow-status.ts'
import { createProgressAggregate, type ProgressAggregate } from '../src/progress/progress-aggregate.ts'
import { createRetractionCache, type RetractionCache } from '../src/progress/retraction-cache.ts'
import { createStatusCache, type KnownStatus, type StatusCache } from '../src/progress/status-cache.ts'
import { unlessAborted } from '../src/wait.ts'

/** The shortest time between two statuses of a document, in milliseconds. */
const intervalMs = 1000
/** Entries that are added or settled before others get their turn. */
const atOnce = 500

/** The state of a document while entries of it are in flight. */
interface DocumentState {
  readonly documentId: string
  readonly aggregate: ProgressAggregate
  /** Entries that came before the newest status was restored; undefined after that. */
  early: Message<'Progress'>[] | undefined
  epoch: number
  revision: number
  /** The units that had ended by the last status. */
  ended: EndedUnits
  /** The status for the entries that come now; undefined when none has come since the last status was made. */
  pending: PendingStatus | undefined
  /** Resolves when the last status is stored or given up. */
  written: Promise<void>
}

type EndedUnits = DocumentFigures['units']

const noUnits: EndedUnits = { done: 0, partial: 0, dead: 0 }

/** The entries that one status will include. The handler of the first writes it; the others wait for that write and hold no memory. */
interface PendingStatus {
  readonly waiters: PromiseWithResolvers<void>[]
  waiting: number
}

/** The state of one flow of one runtime. */
interface FlowState {
  readonly cache: StatusCache
  readonly documents: Map<string, DocumentState>
  /** Resolves when the last entry about the flow is handled, or has failed. */
  flowWritten: Promise<void>
  readonly withdrawals: RetractionCache
  /** The units that have ended by the statuses that were written here. */
  ended: EndedUnits
  /** When it was last read which withdrawals an older one has followed. */
  lookedAt: number
}

const flowStates = new WeakMap<Scope, FlowState>()

export const ledger = defineProcessor({
  name: 'ledger',
  inputs: ['progress'],
  outputs: ['status', 'progress', 'retractions'],
  reads: ['status', 'retractions'],
  // One replica gets all entries of a document, but side by side: each waits until a status is due.
  ordering: 'member',
  // The throughput in entries a second when all are of one document. Each takes about 1.2 KB while it waits for its status.
  maxInFlight: 4_000,
  async *handle(message, context): Outputs<'status' | 'progress' | 'retractions'> {
    const { documentId } = message
    context.signal.throwIfAborted()
    const flowState = flowStateOf(context.scope)
    if (!documentId) return yield* writeFlow(message, flowState, context)
    const document = openDocument(flowState, documentId)
    if (document.early) document.early.push(message)
    else document.aggregate.add(message)
    if (document.pending) return { after: waitFor(document.pending) }
    document.pending = { waiters: [], waiting: 0 }
    yield* write(document.pending, { document, flowState, context })
  },
  async figures(context) {
    const { cache, ended: units } = flowStateOf(context.scope)
    await cache.latestOfFlow(context)
    const times = cache.running().values()
    const oldestProgress = times.reduce<number | undefined>(
      (oldest, time) => Math.min(oldest ?? time, time),
      undefined,
    )
    return { open: cache.running().size, oldestProgress, units }
  },
})

/** Adds an entry about the flow to its status, one after the other. */
async function* writeFlow(
  message: Message<'Progress'>,
  flowState: FlowState,
  context: Context,
): Outputs<'status' | 'progress'> {
  const { cache } = flowState
  const before = flowState.flowWritten
  const over = Promise.withResolvers<void>()
  flowState.flowWritten = over.promise
  try {
    await unlessAborted(before, context.signal)
    const known = await cache.latestOfFlow(context)
    const now = context.clock.now()
    const status = addToFlow(known ?? { lost: [], waiting: [] }, message)
    if (!status) return
    const payload = statusOfFlow(status, known, now)
    await (yield { to: 'status', documentId: flowStatusId, chunkId: '', deadline: null, payload })
    cache.put(flowStatusId, payload, now)
    const { lost } = message.payload
    if (!lost) return
    // A document without a status by now finds the loss in the flow's status. The others get an entry, whichever replica has them.
    await cache.latestOfFlow(context)
    for (const documentId of [...cache.running().keys()]) yield lossOf(documentId, lost)
  } finally {
    over.resolve()
  }
}

const lossOf = (documentId: string, lost: LostRecords) =>
  ({ to: 'progress', documentId, chunkId: '', deadline: null, payload: { kind: 'lost', lost } }) as const

interface StatusWrite {
  readonly document: DocumentState
  readonly flowState: FlowState
  readonly context: Context
}

/** Writes the status when it is due. The entries that wait for it are acked then, or fail with it. */
async function* write(
  pending: PendingStatus,
  statusWrite: StatusWrite,
): Outputs<'status' | 'progress' | 'retractions'> {
  const { document, flowState, context } = statusWrite
  const { documentId } = document
  const { signal } = context
  const before = document.written
  const over = Promise.withResolvers<void>()
  document.written = over.promise
  const drop = () => discard(flowState, document)
  signal.addEventListener('abort', drop)
  let isStored = false
  let failure: unknown
  let restored: Restored | undefined
  try {
    await unlessAborted(before, signal)
    if (flowState.documents.get(documentId) !== document) throw notWritten()
    if (document.early) {
      restored = await restore(statusWrite)
      // A replica that no longer owns a document may have written late.
      for (const [late, known] of flowState.cache.takeOverwritten()) {
        const payload = late === flowStatusId ? flowState.cache.flow : statusAgain(late, known)
        if (payload) yield { to: 'status', documentId: late, chunkId: '', deadline: null, payload }
      }
    }
    await unlessAborted(untilDue(statusWrite), signal)
    document.pending = undefined
    const { aggregate, epoch } = document
    const settled = aggregate.settle(documentId, { partial: context.settings.replace === 'partial' })
    // Before the status says that the version is the current one: after a crash, it is said again.
    if (settled?.retractions) yield* withdraw(settled, settled.retractions)
    yield* withdrawAgain(flowState, settled?.retractions ? 0 : lookMs, context)
    const payload = statusOf(documentId, aggregate, { epoch, revision: ++document.revision })
    await (yield { to: 'status', chunkId: '', deadline: null, payload })
    flowState.cache.put(documentId, payload, context.clock.now())
    countEnded(flowState, document, payload)
    if (restored?.isNew) yield* lossesSince(restored.lost, statusWrite)
    isStored = true
  } catch (thrown) {
    failure = thrown
    throw thrown
  } finally {
    signal.removeEventListener('abort', drop)
    if (!isStored || !document.pending) drop()
    over.resolve()
    if (!isStored) failure ??= notWritten()
    void settle(pending, signal.aborted ? signal.reason : failure)
  }
}

const notWritten = () => new GraphmillError('aborted', 'The status could not be written here.')

/** Units that are done again after a replay count again; those of a version that was replaced stay counted. */
function countEnded(flowState: FlowState, document: DocumentState, { done, partial, dead }: Status): void {
  const before = document.ended
  document.ended = { done, partial, dead }
  const more = (state: keyof EndedUnits) =>
    flowState.ended[state] + Math.max(0, document.ended[state] - before[state])
  flowState.ended = { done: more('done'), partial: more('partial'), dead: more('dead') }
}

async function* withdraw(
  { version, versionTime, collection }: Settlement,
  payload: RetractionsInit,
): Outputs<'retractions'> {
  const header = { chunkId: '', deadline: null, version, versionTime, ...(collection && { collection }) }
  await (yield { to: 'retractions', ...header, payload })
}

/** How often it is looked for withdrawals that an older one has followed, in milliseconds. */
const lookMs = 30_000

/** As with statuses: a replica that no longer owns a document may write late, and compaction would keep what it wrote. */
async function* withdrawAgain(
  flowState: FlowState,
  notWithinMs: number,
  context: Context,
): Outputs<'retractions'> {
  const { withdrawals, lookedAt } = flowState
  const now = context.clock.now()
  if (Math.abs(now - lookedAt) < notWithinMs) return
  flowState.lookedAt = now
  await withdrawals.catchUp(context)
  for (const { payload, ...header } of withdrawals.overwritten())
    await (yield { to: 'retractions', chunkId: '', deadline: null, ...header, payload })
}

/** Losses that were reported while the document had no status: the replica that reported them did not know of the document. */
async function* lossesSince(
  known: Status['lost'],
  { document, flowState, context }: StatusWrite,
): Outputs<'progress'> {
  const keys = new Set(known.map((lost) => JSON.stringify(lost)))
  const flow = await flowState.cache.latestOfFlow(context)
  for (const lost of flow?.lost ?? [])
    if (!keys.has(JSON.stringify(lost))) yield lossOf(document.documentId, lost)
}

/** Resolves when the newest status, of any replica, is old enough; after at most the interval when the clock was set back. */
async function untilDue({ document, flowState, context }: StatusWrite): Promise<void> {
  const age =
    context.clock.now() - (flowState.cache.writtenAt(document.documentId) ?? Number.NEGATIVE_INFINITY)
  const leftMs = Math.min(Math.max(intervalMs - age, 0), intervalMs)
  if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs).unref())
}

/** Resolves when the pending status is stored; rejects when it can't be written. */
function waitFor(pending: PendingStatus): Promise<void> {
  if (pending.waiting++ % atOnce === 0) {
    const waiter = Promise.withResolvers<void>()
    waiter.promise.catch(() => undefined) // the handlers that wait see it
    pending.waiters.push(waiter)
  }
  return pending.waiters.at(-1)!.promise
}

async function settle({ waiters }: PendingStatus, failure: unknown): Promise<void> {
  for (const { resolve, reject } of waiters) {
    if (failure) reject(failure)
    else resolve()
    await turn()
  }
}

interface Restored {
  /** Whether the document had no status. */
  readonly isNew: boolean
  /** The losses of the flow that were known then. */
  readonly lost: Status['lost']
}

/** Restores the newest status, then adds the entries that have come since. */
async function restore({ document, flowState, context }: StatusWrite): Promise<Restored> {
  const latest = await flowState.cache.latest(document.documentId, context)
  // Later than every epoch before, also when the clock was set back.
  document.epoch = Math.max(context.clock.now(), (latest?.epoch ?? 0) + 1)
  if (latest) document.aggregate.restore(latest.ledger)
  const { done, partial, dead } = document.aggregate.status(document.documentId)?.units ?? noUnits
  document.ended = { done, partial, dead }
  for (const [index, message] of document.early!.entries()) {
    if (index % atOnce === 0) await unlessAborted(turn(), context.signal)
    document.aggregate.add(message)
  }
  const lost = flowState.cache.flow?.lost ?? []
  document.aggregate.lose(lost)
  document.early = undefined
  return { isNew: latest === undefined, lost }
}

function flowStateOf(scope: Scope): FlowState {
  const fresh = (): FlowState => ({
    cache: createStatusCache(),
    documents: new Map(),
    flowWritten: Promise.resolve(),
    withdrawals: createRetractionCache(),
    ended: noUnits,
    lookedAt: 0,
  })
  const flowState = flowStates.get(scope) ?? fresh()
  flowStates.set(scope, flowState)
  return flowState
}

function openDocument({ documents }: FlowState, documentId: string): DocumentState {
  const known = documents.get(documentId)
  if (known) return known
  const document: DocumentState = {
    documentId,
    aggregate: createProgressAggregate(),
    early: [],
    epoch: 0,
    revision: 0,
    ended: noUnits,
    pending: undefined,
    written: Promise.resolve(),
  }
  documents.set(documentId, document)
  return document
}

/** Forgets the document: its last entry is settled, or another replica has it now. The next entry starts from its newest status. */
function discard(flowState: FlowState, document: DocumentState): void {
  if (flowState.documents.get(document.documentId) === document)
    flowState.documents.delete(document.documentId)
}

/** The status that was stored; undefined when its state can't be read: the next entry of the document fails, and says why. */
function statusAgain(documentId: string, { ledger, ...version }: KnownStatus): Status | undefined {
  const aggregate = createProgressAggregate()
  try {
    aggregate.restore(ledger)
  } catch {
    return undefined
  }
  return aggregate.status(documentId) && statusOf(documentId, aggregate, version)
}

function statusOf(
  documentId: string,
  aggregate: ProgressAggregate,
  { epoch, revision }: Pick<Status, 'epoch' | 'revision'>,
): Status {
  const { state, title, error, chunks, units, incomplete, totals, versions } = aggregate.status(documentId)!
  const { models: tokens, facts, rejected, repaired, duplicates, ungrounded, calls } = structuredClone(totals)
  const truncated = incomplete['truncated'] ?? 0
  const own = { state, title, error: error ?? null, chunks, ...units, truncated, incomplete }
  const counted = { facts, rejected, repaired, duplicates, ungrounded, calls, tokens }
  const ledger = aggregate.save(documentId)!
  return { epoch, revision, ...own, ...counted, ledger, lost: [], waiting: [], ...saidOf(versions) }
}

function saidOf(versions: DocumentVersions) {
  const { collection, version, time, currentVersion, currentTime, notWithdrawn } = versions
  const said = { collection, version, versionTime: time, currentVersion, currentTime }
  return { ...said, versions: versionsSaid(versions), notWithdrawn: notWithdrawn?.reason ?? null }
}
