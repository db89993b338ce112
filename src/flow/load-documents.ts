// Loads documents side by side, within bounds of their number and memory. Their outcomes are reported in the order of the documents.
// When loading ends early, documents that have begun have two seconds to be finished: short ones are loaded whole or not at all.
import { setMaxListeners } from 'node:events'
import { createQueue } from '../broker/window/queue.ts'
import { createWake } from '../broker/window/wake.ts'
import type { NamedSource } from '../documents/read.ts'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import { type LoadedDocument, loadDocument, type SourceOptions } from './load-document.ts'

/** The most documents that are published at a time. */
const mostAtOnce = 128
/** What they may hold together, in bytes; a document that holds more is published alone. */
const mostHeld = 16 * 1024 * 1024
/** The most documents that have begun and are not reported, because an earlier one takes longer. */
const mostUnreported = 1024
/** How long documents have to be finished when loading ends early, in milliseconds. */
const endMs = 2000

/** `loaded` when all of its messages are stored, else the error; no document when a name leads to none. */
export type LoadOutcome =
  | { readonly document: NamedSource; readonly loaded: LoadedDocument }
  | { readonly document?: NamedSource; readonly error: GraphmillError }

export interface LoadDocumentsOptions extends SourceOptions {
  /** Called for each document in turn. */
  readonly onOutcome: (outcome: LoadOutcome) => void
}

/**
 * Loads the documents that are found; an error among them is the outcome of a name. A document that cannot be loaded stops no other.
 * Throws the reason of the signal, and any error that is not of a document, when the documents that had begun have ended.
 */
export async function loadDocuments(
  found: AsyncIterable<NamedSource | GraphmillError>,
  options: LoadDocumentsOptions,
  signal: AbortSignal,
): Promise<void> {
  const begun = createBegun(options.onOutcome)
  const ending = endSoonAfter(signal)
  let failure: GraphmillError | undefined
  const fail = (thrown: unknown) => {
    failure ??= toGraphmillError(thrown)
    ending.begin(failure)
  }
  const load = async (document: NamedSource): Promise<LoadOutcome> => {
    try {
      return { document, loaded: await loadDocument(document, options, ending.signal) }
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (!error.code.startsWith('document_') && error.code !== 'store_cannot_withdraw') fail(error)
      return { document, error }
    }
  }
  try {
    for await (const next of found) {
      const holds = 'holds' in next ? next.holds : 0
      await begun.room(holds)
      if (signal.aborted || failure) break
      begun.add('holds' in next ? load(next) : Promise.resolve({ error: next }), holds)
    }
  } catch (thrown) {
    if (!signal.aborted) fail(thrown)
  } finally {
    await begun.ended()
    ending.dispose()
  }
  signal.throwIfAborted()
  if (failure) throw failure
}

interface Begun {
  outcome: LoadOutcome | undefined
}

/** The documents that have begun and are not reported. */
function createBegun(onOutcome: (outcome: LoadOutcome) => void) {
  const unreported = createQueue<Begun>()
  const changed = createWake()
  let waiting = 0
  let atOnce = 0
  let held = 0
  const hasRoom = (holds: number) =>
    atOnce === 0 || (atOnce < mostAtOnce && waiting < mostUnreported && held + holds <= mostHeld)

  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) await changed.wait()
  }

  return {
    /** Resolves when there is room for a document that holds so many bytes. */
    room: (holds: number) => until(() => hasRoom(holds)),
    /** `loading` must not reject. */
    add(loading: Promise<LoadOutcome>, holds: number): void {
      const own: Begun = { outcome: undefined }
      unreported.push(own)
      waiting++
      atOnce++
      held += holds
      void loading.then((outcome) => {
        own.outcome = outcome
        atOnce--
        held -= holds
        for (let first = unreported.peek(); first?.outcome; first = unreported.peek()) {
          unreported.shift()
          waiting--
          onOutcome(first.outcome)
        }
        changed.notify()
      })
    },
    /** Resolves when all are reported. */
    ended: () => until(() => waiting === 0),
  }
}

/** A signal for what has begun: it aborts some time after `signal` has, or after `begin`. */
function endSoonAfter(signal: AbortSignal) {
  const ending = new AbortController()
  // Every document may listen.
  setMaxListeners(0, ending.signal)
  let timer: NodeJS.Timeout | undefined
  const begin = (reason: unknown) => {
    timer ??= setTimeout(() => ending.abort(reason), endMs)
  }
  const stop = () => begin(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  return {
    signal: ending.signal,
    begin,
    dispose() {
      signal.removeEventListener('abort', stop)
      clearTimeout(timer)
    },
  }
}
