// The newest status of every document of a flow, read from the compacted topic `status`. Each question is preceded by a read to
// the end of the topic, which concurrent questions share, so an answer is never older than its question.
// Of every document there ever was it keeps what cannot be computed: its state in the form of snapshot.ts, and how new it is. That is
// about 600 bytes for a document that is done.
import type { Message } from '../messages/envelope.ts'
import type { Status } from '../messages/generated.ts'
import type { PayloadName } from '../messages/registry.ts'
import { createCatchUp } from './catch-up.ts'
import { flowStatusId } from './flow-status.ts'

/** How far a topic was read: the position of the last message of each partition. */
export type ReadPositions = Readonly<Record<number, string>>

/** An entry of a compacted topic. */
export interface StoredEntry<N extends PayloadName> {
  /** Undefined when the entry is a deletion or not what the topic holds. */
  readonly message: Message<N> | undefined
  readonly partition: number
  readonly position: string
}

/** An entry of the topic `status`. */
export type StoredStatus = StoredEntry<'Status'>

export interface StatusCacheContext {
  readonly signal: AbortSignal
  /** The entries of the topic that are stored now, behind the given positions. */
  readonly read: (port: 'status', behind: ReadPositions) => AsyncIterable<StoredStatus>
}

/** What a status says of the state of its document, and how new it is. */
export type KnownStatus = Pick<Status, 'epoch' | 'revision' | 'ledger'>

export interface StatusCache {
  /** The newest status of a document, or undefined when it never had one. */
  latest(documentId: string, context: StatusCacheContext): Promise<KnownStatus | undefined>
  /** The newest status of the flow, or undefined when it never had one. */
  latestOfFlow(context: StatusCacheContext): Promise<Status | undefined>
  /** The status of the flow that was read last. */
  readonly flow: Status | undefined
  /** The documents that have not ended, by the statuses read so far, and when the newest status of each was written. */
  running(): ReadonlyMap<string, number>
  /** Adds a status that was stored at `time`, in milliseconds since 1970. */
  put(documentId: string, status: Status, time: number): void
  /** When the newest status read of a document was written, in milliseconds since 1970; undefined when there is none. */
  writtenAt(documentId: string): number | undefined
  /** Statuses that an older one has followed since the last call: the compacted topic would keep the older one. */
  takeOverwritten(): [documentId: string, status: KnownStatus][]
}

interface StoredState {
  readonly epoch: number
  readonly revision: number
  readonly time: number
  /** One character for each byte: a string takes 150 bytes less than a typed array. */
  readonly ledger: string
}

export function createStatusCache(): StatusCache {
  const newest = new Map<string, StoredState>()
  const running = new Map<string, number>()
  let flow: Status | undefined
  const positions: Record<number, string> = {}
  let overwritten = new Set<string>()
  const caughtUp = createCatchUp(read)

  async function read(context: StatusCacheContext): Promise<void> {
    for await (const { message, partition, position } of context.read('status', { ...positions })) {
      if (message) put(message.documentId, message.payload, message.time)
      positions[partition] = position
    }
  }

  function put(documentId: string, status: Status, time: number): void {
    if (isNewer(status, newest.get(documentId))) {
      const { epoch, revision, state } = status
      const ledger = Buffer.from(status.ledger).toString('latin1')
      newest.set(documentId, { epoch, revision, time, ledger })
      if (state === 'queued' || state === 'running') running.set(documentId, time)
      else running.delete(documentId)
      if (documentId === flowStatusId) flow = status
      overwritten.delete(documentId)
    } else overwritten.add(documentId)
  }

  function known(documentId: string): KnownStatus | undefined {
    const stored = newest.get(documentId)
    if (!stored) return undefined
    const { epoch, revision, ledger } = stored
    return { epoch, revision, ledger: Buffer.from(ledger, 'latin1') }
  }

  return {
    put,
    get flow() {
      return flow
    },
    running: () => running,
    writtenAt: (documentId) => newest.get(documentId)?.time,
    takeOverwritten() {
      const taken = [...overwritten].map((id): [string, KnownStatus] => [id, known(id)!])
      overwritten = new Set()
      return taken
    },
    async latest(documentId, context) {
      await caughtUp(context)
      return known(documentId)
    },
    async latestOfFlow(context) {
      await caughtUp(context)
      return flow
    },
  }
}

/** Whether a status is newer than the one before it in the topic: a replica that lost the document may write late. */
export function isNewer(
  status: Pick<Status, 'epoch' | 'revision'>,
  than: Pick<Status, 'epoch' | 'revision'> | undefined,
): boolean {
  if (than === undefined) return true
  return status.epoch > than.epoch || (status.epoch === than.epoch && status.revision >= than.revision)
}
