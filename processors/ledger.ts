// The ledger: from `progress` to one status a document, in a compacted topic. An entry is settled only when a status that
// includes it is stored, and a status carries all that is needed to go on: so whoever is given a document's next entry begins
// with its newest status, and nothing is counted twice or forgotten. A document has a book here only while entries wait in it.
// Entries about the flow itself go into a status of its own; when records were lost, each document that has not ended is
// sent an entry of it.
import { setImmediate as turn } from 'node:timers/promises'
import { GraphmillError } from '../src/errors.ts'
import { type Context, defineProcessor, type Outputs, type Scope } from '../src/flow/processor.ts'
import { createShelf, type StatusShelf } from '../src/flow/status-cache.ts'
import { unlessAborted } from '../src/llm/unless-aborted.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { LostRecords, Status } from '../src/messages/generated.ts'
import { addToFlow, flowStatusId, statusOfFlow } from '../src/progress/flow-status.ts'
import { createTally, type Tally } from '../src/progress/progress-aggregate.ts'

/** A document has at most one status in this time, in milliseconds. */
const intervalMs = 1000
/** Entries that are added or settled in one stretch: others must have their turn. */
const atOnce = 500

/** What is known of a document while entries about it are in hand. */
interface Book {
  readonly documentId: string
  readonly tally: Tally
  /** Entries that came before the newest status was taken in; undefined from then on. */
  early: Message<'Progress'>[] | undefined
  epoch: number
  revision: number
  /** For what comes in now; undefined while nothing has come since the last one was closed. */
  page: Page | undefined
  /** Resolves when the page before is stored or given up. */
  written: Promise<void>
}

/** Entries that one status will include. The handler of the first writes it; the others wait in sheaves, and hold nothing. */
interface Page {
  readonly sheaves: PromiseWithResolvers<void>[]
  waiting: number
}

/** The books of one flow of one mill. */
interface Desk {
  readonly shelf: StatusShelf
  readonly books: Map<string, Book>
  /** Resolves when the last entry about the flow is done with, well or not. */
  flowWritten: Promise<void>
}

const desks = new WeakMap<Scope, Desk>()

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
    const desk = deskOf(context.scope)
    if (!documentId) return yield* writeFlow(message, desk, context)
    const book = openBook(desk, documentId)
    if (book.early) book.early.push(message)
    else book.tally.add(message)
    if (book.page) return { after: waitFor(book.page) }
    book.page = { sheaves: [], waiting: 0 }
    yield* write(book.page, { book, desk, context })
  },
})

/** Takes an entry about the whole flow into its status, one after the other. */
async function* writeFlow(
  message: Message<'Progress'>,
  desk: Desk,
  context: Context,
): Outputs<'status' | 'progress'> {
  const { shelf } = desk
  const before = desk.flowWritten
  const over = Promise.withResolvers<void>()
  desk.flowWritten = over.promise
  try {
    await unlessAborted(before, context.signal)
    const known = await shelf.latest(flowStatusId, context)
    const now = context.clock.now()
    const status = addToFlow(known ?? { lost: [], waiting: [] }, message)
    if (!status) return
    const payload = statusOfFlow(status, known, now)
    await (yield { to: 'status', documentId: flowStatusId, chunkId: '', deadline: null, payload })
    shelf.put(flowStatusId, payload, now)
    const { lost } = message.payload
    if (!lost) return
    // A document without a status by now finds the loss in the flow's status; the others, whichever replica has them, are sent it.
    await shelf.latest(flowStatusId, context)
    for (const [documentId, { status: known }] of [...shelf.known])
      if (isRunning(known)) yield lossOf(documentId, lost)
  } finally {
    over.resolve()
  }
}

const isRunning = ({ state }: Status) => state === 'queued' || state === 'running'

const lossOf = (documentId: string, lost: LostRecords) =>
  ({ to: 'progress', documentId, chunkId: '', deadline: null, payload: { kind: 'lost', lost } }) as const

interface Place {
  readonly book: Book
  readonly desk: Desk
  readonly context: Context
}

/** Closes the page when a status is due, and writes it; then what waits for it is settled, or fails with it. */
async function* write(page: Page, { book, desk, context }: Place): Outputs<'status' | 'progress'> {
  const { documentId } = book
  const { signal } = context
  const before = book.written
  const over = Promise.withResolvers<void>()
  book.written = over.promise
  const drop = () => discard(desk, book)
  signal.addEventListener('abort', drop)
  let failure: unknown = new GraphmillError('aborted', 'The status could not be written here.')
  let taken: TakenUp | undefined
  try {
    await unlessAborted(before, signal)
    if (desk.books.get(documentId) !== book) throw failure
    if (book.early) {
      taken = await restore({ book, desk, context })
      // A replica that lost a document may have written late.
      for (const [late, payload] of desk.shelf.takeOverwritten())
        yield { to: 'status', documentId: late, chunkId: '', deadline: null, payload }
    }
    await unlessAborted(untilDue({ book, desk, context }), signal)
    book.page = undefined
    const payload = statusOf(book)
    await (yield { to: 'status', chunkId: '', deadline: null, payload })
    desk.shelf.put(documentId, payload, context.clock.now())
    if (taken?.isNew) yield* lossesSince(taken.lost, { book, desk, context })
    failure = undefined
  } catch (thrown) {
    failure = thrown
    throw thrown
  } finally {
    signal.removeEventListener('abort', drop)
    if (failure || !book.page) drop()
    over.resolve()
    void settle(page, signal.aborted ? signal.reason : failure)
  }
}

/** A loss that was noted while the document had no status yet: the replica that noted it did not know of the document. */
async function* lossesSince(known: Status['lost'], { book, desk, context }: Place): Outputs<'progress'> {
  const places = new Set(known.map((lost) => JSON.stringify(lost)))
  const flow = await desk.shelf.latest(flowStatusId, context)
  for (const lost of flow?.lost ?? [])
    if (!places.has(JSON.stringify(lost))) yield lossOf(book.documentId, lost)
}

/** Resolves when the newest status, whoever wrote it, is old enough; soon also where the clock went back. */
async function untilDue({ book, desk, context }: Place): Promise<void> {
  const age = context.clock.now() - (desk.shelf.writtenAt(book.documentId) ?? Number.NEGATIVE_INFINITY)
  const leftMs = Math.min(Math.max(intervalMs - age, 0), intervalMs)
  if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs).unref())
}

/** Resolves when the status of the page is stored; rejects when it can not be written. */
function waitFor(page: Page): Promise<void> {
  if (page.waiting++ % atOnce === 0) {
    const sheaf = Promise.withResolvers<void>()
    sheaf.promise.catch(() => undefined) // whoever waits sees it
    page.sheaves.push(sheaf)
  }
  return page.sheaves.at(-1)!.promise
}

async function settle({ sheaves }: Page, failure: unknown): Promise<void> {
  for (const { resolve, reject } of sheaves) {
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
async function restore({ book, desk, context }: Place): Promise<TakenUp> {
  const latest = await desk.shelf.latest(book.documentId, context)
  // Later than every opening before, also where the clock went back.
  book.epoch = Math.max(context.clock.now(), (latest?.epoch ?? 0) + 1)
  if (latest) book.tally.restore(latest.ledger)
  for (const [index, message] of book.early!.entries()) {
    if (index % atOnce === 0) await unlessAborted(turn(), context.signal)
    book.tally.add(message)
  }
  const lost = desk.shelf.known.get(flowStatusId)?.status.lost ?? []
  book.tally.lose(lost)
  book.early = undefined
  return { isNew: latest === undefined, lost }
}

function deskOf(scope: Scope): Desk {
  const fresh = () => ({ shelf: createShelf(), books: new Map(), flowWritten: Promise.resolve() })
  const desk: Desk = desks.get(scope) ?? fresh()
  desks.set(scope, desk)
  return desk
}

function openBook({ books }: Desk, documentId: string): Book {
  const known = books.get(documentId)
  if (known) return known
  const book: Book = {
    documentId,
    tally: createTally(),
    early: [],
    epoch: 0,
    revision: 0,
    page: undefined,
    written: Promise.resolve(),
  }
  books.set(documentId, book)
  return book
}

/** Whoever comes next opens another book: this one's last entry is settled, or the document is somebody else's now. */
function discard(desk: Desk, book: Book): void {
  if (desk.books.get(book.documentId) === book) desk.books.delete(book.documentId)
}

function statusOf(book: Book): Status {
  const { documentId, tally, epoch } = book
  const { state, title, error, chunks, units, incomplete, totals } = tally.status(documentId)!
  const { facts, rejected, repaired, duplicates, calls, models } = structuredClone(totals)
  const truncated = incomplete['truncated'] ?? 0
  const said = { state, title, error: error ?? null, chunks, ...units, truncated, incomplete }
  const counted = { facts, rejected, repaired, duplicates, calls, tokens: models }
  const ledger = tally.save(documentId)!
  return { epoch, revision: ++book.revision, ...said, ...counted, ledger, lost: [], waiting: [] }
}
