// The newest status of every document of a flow, read from the compacted topic `status` as far as it goes. What is asked
// for is never older than the question: each is preceded by a read to the end of the topic, one for all who ask meanwhile.
// It holds the ledger's state of each document that ever was: some hundred bytes for one that is done.
import { toGraphmillError } from '../errors.ts'
import type { Status } from '../messages/generated.ts'
import type { Context } from './processor.ts'

export type StatusCacheContext = Pick<Context, 'read' | 'signal'>

export interface StatusCache {
  /** The newest status of a document, or undefined when it never had one. */
  latest(documentId: string, context: StatusCacheContext): Promise<Status | undefined>
  /** All that have a status, as far as was read. */
  readonly known: ReadonlyMap<string, { readonly status: Status; readonly time: number }>
  /** A status that was stored, and when: milliseconds since 1970. */
  put(documentId: string, status: Status, time: number): void
  /** When the newest status of a document was written, as far as was read; undefined when it never had one. */
  writtenAt(documentId: string): number | undefined
  /** Statuses that were followed by an older one since the last call: the compacted topic would keep that one instead. */
  takeOverwritten(): [documentId: string, status: Status][]
}

export function createStatusCache(): StatusCache {
  const newest = new Map<string, { readonly status: Status; readonly time: number }>()
  const places: Record<number, string> = {}
  let overwritten = new Set<string>()
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /** Resolves after a read that began after the call. */
  function catchUp(context: StatusCacheContext): Promise<void> {
    next ??= running
      .catch(() => undefined)
      .then(() => {
        running = next!
        next = undefined
        return read(context)
      })
    return next
  }

  async function read(context: StatusCacheContext): Promise<void> {
    for await (const { message, partition, position } of context.read('status', { ...places })) {
      if (message) put(message.documentId, message.payload, message.time)
      places[partition] = position
    }
  }

  function put(documentId: string, status: Status, time: number): void {
    if (isNewer(status, newest.get(documentId)?.status)) {
      newest.set(documentId, { status, time })
      overwritten.delete(documentId)
    } else overwritten.add(documentId)
  }

  return {
    put,
    known: newest,
    writtenAt: (documentId) => newest.get(documentId)?.time,
    takeOverwritten() {
      const taken = [...overwritten].map((id): [string, Status] => [id, newest.get(id)!.status])
      overwritten = new Set()
      return taken
    },
    async latest(documentId, context) {
      for (;;) {
        try {
          await catchUp(context)
          return newest.get(documentId)?.status
        } catch (thrown) {
          // The read may have been begun by somebody whose work was dropped meanwhile.
          context.signal.throwIfAborted()
          if (toGraphmillError(thrown).code !== 'aborted') throw thrown
        }
      }
    },
  }
}

/** Whether a status is newer than one that came before it: a replica that lost the document may have written late. */
export function isNewer(status: Status, than: Status | undefined): boolean {
  if (than === undefined) return true
  return status.epoch > than.epoch || (status.epoch === than.epoch && status.revision >= than.revision)
}
