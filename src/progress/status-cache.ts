// The newest status of every document of a flow, read from the compacted topic `status`. Each question is preceded by a read to
// the end of the topic, which concurrent questions share, so an answer is never older than its question.
// The cache holds the ledger's state of every document there ever was: some hundred bytes for a document that is done.
import { toGraphmillError } from '../errors.ts'
import type { Message } from '../messages/envelope.ts'
import type { Status } from '../messages/generated.ts'
import { shareRuns } from '../wait.ts'

/** How far a topic was read: the position of the last message of each partition. */
export type ReadPositions = Readonly<Record<number, string>>

/** An entry of the topic `status`. */
export interface StoredStatus {
  /** Undefined when the entry is a deletion or not a status. */
  readonly message: Message<'Status'> | undefined
  readonly partition: number
  readonly position: string
}

export interface StatusCacheContext {
  readonly signal: AbortSignal
  /** The entries of the topic that are stored now, behind the given positions. */
  readonly read: (port: 'status', behind: ReadPositions) => AsyncIterable<StoredStatus>
}

export interface StatusCache {
  /** The newest status of a document, or undefined when it never had one. */
  latest(documentId: string, context: StatusCacheContext): Promise<Status | undefined>
  /** The statuses read so far. */
  readonly known: ReadonlyMap<string, { readonly status: Status; readonly time: number }>
  /** Adds a status that was stored at `time`, in milliseconds since 1970. */
  put(documentId: string, status: Status, time: number): void
  /** When the newest status read of a document was written, in milliseconds since 1970; undefined when there is none. */
  writtenAt(documentId: string): number | undefined
  /** Statuses that an older one has followed since the last call: the compacted topic would keep the older one. */
  takeOverwritten(): [documentId: string, status: Status][]
}

export function createStatusCache(): StatusCache {
  const newest = new Map<string, { readonly status: Status; readonly time: number }>()
  const positions: Record<number, string> = {}
  let overwritten = new Set<string>()
  const catchUp = shareRuns(read)

  async function read(context: StatusCacheContext): Promise<void> {
    for await (const { message, partition, position } of context.read('status', { ...positions })) {
      if (message) put(message.documentId, message.payload, message.time)
      positions[partition] = position
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
          // The shared read may belong to a handler that was aborted meanwhile.
          context.signal.throwIfAborted()
          if (toGraphmillError(thrown).code !== 'aborted') throw thrown
        }
      }
    },
  }
}

/** Whether a status is newer than the one before it in the topic: a replica that lost the document may write late. */
export function isNewer(status: Status, than: Status | undefined): boolean {
  if (than === undefined) return true
  return status.epoch > than.epoch || (status.epoch === than.epoch && status.revision >= than.revision)
}
