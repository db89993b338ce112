// The ledger: from `progress` to one status a document, in a compacted topic. An entry is settled only when a status that
// includes it is stored, and a status carries all that is needed to go on: so whoever is given a document's next entry begins
// with its newest status, and nothing is counted twice or forgotten. A document has a book here only while entries wait in it.
import { type Context, defineProcessor, type Scope } from '../src/flow/processor.ts'
import { createShelf, type StatusShelf } from '../src/flow/status-shelf.ts'
import { createTally, type Tally } from '../src/flow/tally.ts'
import type { Status } from '../src/messages/generated.ts'

/** A document has at most one status in this time, in milliseconds. */
const intervalMs = 1000

/** What is known of a document while entries about it are in hand. */
interface Book {
  readonly documentId: string
  readonly tally: Tally
  /** Resolves when the newest status is taken in. */
  readonly ready: Promise<void>
  epoch: number
  revision: number
  /** Handlers that have the book open. */
  readers: number
  /** Entries taken in, and how many of them a stored status includes. */
  taken: number
  stored: number
  /** Pending while a handler writes the status, or waits until it may. */
  writing: Promise<void> | undefined
}

/** The books of one flow of one mill. */
interface Desk {
  readonly shelf: StatusShelf
  readonly books: Map<string, Book>
  /** Documents whose status was written less than `intervalMs` ago. */
  readonly resting: Map<string, Promise<void>>
}

const desks = new WeakMap<Scope, Desk>()

export const ledger = defineProcessor({
  name: 'ledger',
  inputs: ['progress'],
  outputs: ['status'],
  // One replica has all of a document; not one entry after the other, since each waits until a status is due.
  ordering: 'member',
  maxInFlight: 2000,
  async *handle(message, context) {
    const { documentId } = message
    if (!documentId) return
    const desk = deskOf(context.scope)
    const book = openBook(desk, documentId, context)
    const drop = () => discard(desk, book)
    context.signal.addEventListener('abort', drop)
    try {
      await book.ready
      context.signal.throwIfAborted()
      // A replica that lost a document may have written late.
      for (const [late, payload] of desk.shelf.takeOverwritten())
        yield { to: 'status', documentId: late, chunkId: '', deadline: null, payload }
      book.tally.add(message)
      const mine = ++book.taken
      // One of those who wait writes for all of them.
      while (book.stored < mine) {
        if (book.writing) {
          await before(book.writing, context.signal)
          continue
        }
        const turn = Promise.withResolvers<void>()
        book.writing = turn.promise
        try {
          await before(desk.resting.get(documentId), context.signal)
          const included = book.taken
          const payload = statusOf(book)
          await (yield { to: 'status', chunkId: '', deadline: null, payload })
          book.stored = included
          desk.shelf.put(documentId, payload)
          rest(desk, documentId)
        } finally {
          book.writing = undefined
          turn.resolve()
        }
      }
    } finally {
      context.signal.removeEventListener('abort', drop)
      book.readers--
      if (book.readers === 0) discard(desk, book)
    }
  },
})

function deskOf(scope: Scope): Desk {
  const desk = desks.get(scope) ?? { shelf: createShelf(), books: new Map(), resting: new Map() }
  desks.set(scope, desk)
  return desk
}

function openBook(desk: Desk, documentId: string, context: Context): Book {
  const known = desk.books.get(documentId)
  if (known) {
    known.readers++
    return known
  }
  const tally = createTally()
  const book: Book = {
    documentId,
    tally,
    ready: restore(),
    epoch: 0,
    revision: 0,
    readers: 1,
    taken: 0,
    stored: 0,
    writing: undefined,
  }
  desk.books.set(documentId, book)
  return book

  async function restore(): Promise<void> {
    const latest = await desk.shelf.latest(documentId, context)
    // Later than every opening before, also where the clock went back.
    book.epoch = Math.max(context.clock.now(), (latest?.epoch ?? 0) + 1)
    if (latest) tally.restore(latest.ledger)
  }
}

/** Whoever comes next opens another book: this one's last entry is settled, or the document is somebody else's now. */
function discard(desk: Desk, book: Book): void {
  if (desk.books.get(book.documentId) === book) desk.books.delete(book.documentId)
}

function rest(desk: Desk, documentId: string): void {
  const { promise, resolve } = Promise.withResolvers<void>()
  desk.resting.set(documentId, promise)
  const over = () => {
    desk.resting.delete(documentId)
    resolve()
  }
  setTimeout(over, intervalMs).unref()
}

function statusOf(book: Book): Status {
  const { documentId, tally, epoch } = book
  const { state, title, error, chunks, units, incomplete, totals } = tally.status(documentId)!
  const { facts, rejected, repaired, duplicates, calls, models } = structuredClone(totals)
  const truncated = incomplete['truncated'] ?? 0
  const said = { state, title, error: error ?? null, chunks, ...units, truncated, incomplete }
  const counted = { facts, rejected, repaired, duplicates, calls, tokens: models }
  return { epoch, revision: ++book.revision, ...said, ...counted, ledger: tally.save(documentId)! }
}

/** Resolves when `what` does; rejects as soon as the signal aborts. */
async function before(what: Promise<void> | undefined, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const stop = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    await Promise.race([what, aborted.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
