// The ledger: from `progress` to one status a document, in a compacted topic. An entry is settled only when a status that
// includes it is stored, and a status carries all that is needed to go on: so whoever is given a document's next entry begins
// with its newest status, and nothing is counted twice or forgotten. A document has a book here only while entries wait in it.
// Entries about the flow itself go into a status of its own; when records were lost, each document that has not ended is
// sent an entry of it.
import { setImmediate as turn } from 'node:timers/promises'
import { GraphmillError } from '../src/errors.ts'
import { type Context, defineProcessor, type Outputs, type Scope } from '../src/flow/processor.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { LostRecords, Status } from '../src/messages/generated.ts'
import { addToFlow, flowStatusId, statusOfFlow } from '../src/progress/flow-status.ts'
import { createProgressAggregate, type ProgressAggregate } from '../src/progress/progress-aggregate.ts'
import { createStatusCache, type StatusCache } from '../src/progress/status-cache.ts'
import { unlessAborted } from '../src/wait.ts'

/** A document has at most one status in this time, in milliseconds. */
const intervalMs = 1000
/** Entries that are added or settled in one stretch: others must have their turn. */
const atOnce = 500

/** What is known of a document while entries about it are in hand. */
interface DocumentState {
  readonly documentId: string
  readonly aggregate: ProgressAggregate
  /** Entries that came before the newest status was taken in; undefined from then on. */
  early: Message<'Progress'>[] | undefined
  epoch: number
  revision: number
  /** For what comes in now; undefined while nothing has come since the last one was closed. */
  pending: PendingStatus | undefined
  /** Resolves when the page before is stored or given up. */
  written: Promise<void>
}

/** Entries that one status will include. The handler of the first writes it; the others wait in sheaves, and hold nothing. */
interface PendingStatus {
  readonly waiters: PromiseWithResolvers<void>[]
  waiting: number
}

/** The books of one flow of one mill. */
interface FlowState {
  readonly cache: StatusCache
  readonly documents: Map<string, DocumentState>
  /** Resolves when the last entry about the flow is done with, well or not. */
  flowWritten: Promise<void>
}

const flowStates = new WeakMap<Scope, FlowState>()

export const ledger = defineProcessor({
  name: 'ledger',
  inputs: ['progress'],
  outputs: ['status', 'progress'],
  // One replica has all of a document; not one entry after the other, since each waits until a status is due.
  ordering: 'member',
  // As many entries go through in a second, where they are all of one document.
  maxInFlight: 32_000,
  async *handle(message, context): Outputs<'status' | 'progress'> {
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
})

/** Takes an entry about the whole flow into its status, one after the other. */
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
    const known = await cache.latest(flowStatusId, context)
    const now = context.clock.now()
    const status = addToFlow(known ?? { lost: [], waiting: [] }, message)
    if (!status) return
    const payload = statusOfFlow(status, known, now)
    await (yield { to: 'status', documentId: flowStatusId, chunkId: '', deadline: null, payload })
    cache.put(flowStatusId, payload, now)
    const { lost } = message.payload
    if (!lost) return
    // A document without a status by now finds the loss in the flow's status; the others, whichever replica has them, are sent it.
    await cache.latest(flowStatusId, context)
    for (const [documentId, { status: known }] of [...cache.known])
      if (isRunning(known)) yield lossOf(documentId, lost)
  } finally {
    over.resolve()
  }
}

const isRunning = ({ state }: Status) => state === 'queued' || state === 'running'

const lossOf = (documentId: string, lost: LostRecords) =>
  ({ to: 'progress', documentId, chunkId: '', deadline: null, payload: { kind: 'lost', lost } }) as const

interface Place {
  readonly document: DocumentState
  readonly flowState: FlowState
  readonly context: Context
}

/** Closes the page when a status is due, and writes it; then what waits for it is settled, or fails with it. */
async function* write(
  pending: PendingStatus,
  { document, flowState, context }: Place,
): Outputs<'status' | 'progress'> {
  const { documentId } = document
  const { signal } = context
  const before = document.written
  const over = Promise.withResolvers<void>()
  document.written = over.promise
  const drop = () => discard(flowState, document)
  signal.addEventListener('abort', drop)
  let failure: unknown = new GraphmillError('aborted', 'The status could not be written here.')
  let taken: TakenUp | undefined
  try {
    await unlessAborted(before, signal)
    if (flowState.documents.get(documentId) !== document) throw failure
    if (document.early) {
      taken = await restore({ document, flowState, context })
      // A replica that lost a document may have written late.
      for (const [late, payload] of flowState.cache.takeOverwritten())
        yield { to: 'status', documentId: late, chunkId: '', deadline: null, payload }
    }
    await unlessAborted(untilDue({ document, flowState, context }), signal)
    document.pending = undefined
    const payload = statusOf(document)
    await (yield { to: 'status', chunkId: '', deadline: null, payload })
    flowState.cache.put(documentId, payload, context.clock.now())
    if (taken?.isNew) yield* lossesSince(taken.lost, { document, flowState, context })
    failure = undefined
  } catch (thrown) {
    failure = thrown
    throw thrown
  } finally {
    signal.removeEventListener('abort', drop)
    if (failure || !document.pending) drop()
    over.resolve()
    void settle(pending, signal.aborted ? signal.reason : failure)
  }
}

/** A loss that was noted while the document had no status yet: the replica that noted it did not know of the document. */
async function* lossesSince(
  known: Status['lost'],
  { document, flowState, context }: Place,
): Outputs<'progress'> {
  const places = new Set(known.map((lost) => JSON.stringify(lost)))
  const flow = await flowState.cache.latest(flowStatusId, context)
  for (const lost of flow?.lost ?? [])
    if (!places.has(JSON.stringify(lost))) yield lossOf(document.documentId, lost)
}

/** Resolves when the newest status, whoever wrote it, is old enough; soon also where the clock went back. */
async function untilDue({ document, flowState, context }: Place): Promise<void> {
  const age =
    context.clock.now() - (flowState.cache.writtenAt(document.documentId) ?? Number.NEGATIVE_INFINITY)
  const leftMs = Math.min(Math.max(intervalMs - age, 0), intervalMs)
  if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs).unref())
}

/** Resolves when the status of the page is stored; rejects when it can not be written. */
function waitFor(pending: PendingStatus): Promise<void> {
  if (pending.waiting++ % atOnce === 0) {
    const waiter = Promise.withResolvers<void>()
    waiter.promise.catch(() => undefined) // whoever waits sees it
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

interface TakenUp {
  /** It has never had a status. */
  readonly isNew: boolean
  /** What was lost in its flow, as far as was known then. */
  readonly lost: Status['lost']
}

/** Takes in the newest status, then what has come since the book was opened. */
async function restore({ document, flowState, context }: Place): Promise<TakenUp> {
  const latest = await flowState.cache.latest(document.documentId, context)
  // Later than every opening before, also where the clock went back.
  document.epoch = Math.max(context.clock.now(), (latest?.epoch ?? 0) + 1)
  if (latest) document.aggregate.restore(latest.ledger)
  for (const [index, message] of document.early!.entries()) {
    if (index % atOnce === 0) await unlessAborted(turn(), context.signal)
    document.aggregate.add(message)
  }
  const lost = flowState.cache.known.get(flowStatusId)?.status.lost ?? []
  document.aggregate.lose(lost)
  document.early = undefined
  return { isNew: latest === undefined, lost }
}

function flowStateOf(scope: Scope): FlowState {
  const fresh = () => ({ cache: createStatusCache(), documents: new Map(), flowWritten: Promise.resolve() })
  const flowState: FlowState = flowStates.get(scope) ?? fresh()
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
    pending: undefined,
    written: Promise.resolve(),
  }
  documents.set(documentId, document)
  return document
}

/** Whoever comes next opens another book: this one's last entry is settled, or the document is somebody else's now. */
function discard(flowState: FlowState, document: DocumentState): void {
  if (flowState.documents.get(document.documentId) === document)
    flowState.documents.delete(document.documentId)
}

function statusOf(document: DocumentState): Status {
  const { documentId, aggregate, epoch } = document
  const { state, title, error, chunks, units, incomplete, totals } = aggregate.status(documentId)!
  const { facts, rejected, repaired, duplicates, calls, models } = structuredClone(totals)
  const truncated = incomplete['truncated'] ?? 0
  const said = { state, title, error: error ?? null, chunks, ...units, truncated, incomplete }
  const counted = { facts, rejected, repaired, duplicates, calls, tokens: models }
  const ledger = aggregate.save(documentId)!
  return { epoch, revision: ++document.revision, ...said, ...counted, ledger, lost: [], waiting: [] }
}
