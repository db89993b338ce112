// What the documents of a flow no longer state, read from the compacted topic `retractions`: of each document that was replaced or
// removed the newest message, in about 6 bytes for each of its chunks.
import { compareVersions, keySet } from '../messages/emission.ts'
import type { Message } from '../messages/envelope.ts'
import type { RetractionsInit } from '../messages/generated.ts'
import type { Withdrawal } from '../rdf/support.ts'
import { createCatchUp } from './catch-up.ts'
import type { ReadPositions, StoredEntry } from './status-cache.ts'

export interface RetractionCacheContext {
  readonly signal: AbortSignal
  /** The entries of the topic that are stored now, behind the given positions. */
  readonly read: (port: 'retractions', behind: ReadPositions) => AsyncIterable<StoredEntry<'Retractions'>>
}

export interface RetractionCache {
  /** Resolves when everything that was stored before the call was read. */
  catchUp(context: RetractionCacheContext): Promise<void>
  /** Adds a message, unless a newer one of its document is known. Returns whether it did. */
  put(message: Message<'Retractions'>): boolean
  /** What an older message has followed in the topic, until it is read again: compaction would keep the older one. */
  overwritten(): StoredMessage[]
  /** As far as the topic was read; undefined when nothing of the document was withdrawn. */
  of(documentId: string): Withdrawal | undefined
}

type StoredMessage = Pick<Message<'Retractions'>, 'documentId' | 'collection' | 'version' | 'versionTime'> & {
  readonly payload: RetractionsInit
}

interface StoredRetraction {
  readonly collection: string
  readonly reason: string
  readonly unversioned: boolean
  readonly version: string
  readonly versionTime: number
  /** One character for each byte: a string takes 150 bytes less than a typed array. */
  readonly kept: string
}

export function createRetractionCache(): RetractionCache {
  const newest = new Map<string, StoredRetraction>()

  const overwritten = new Set<string>()

  /** Whether it is the newest one of its document now. */
  function put({ documentId, collection, version, versionTime, payload }: Message<'Retractions'>): boolean {
    const known = newest.get(documentId)
    if (known && compareVersions({ version, versionTime }, known) < 0) return false
    const kept = Buffer.from(payload.kept).toString('latin1')
    const { reason } = payload
    const unversioned = payload.unversioned || reason !== 'superseded'
    newest.set(documentId, { collection, reason, unversioned, version, versionTime, kept })
    return true
  }

  const positions: Record<number, string> = {}
  async function read(context: RetractionCacheContext): Promise<void> {
    for await (const { message, partition, position } of context.read('retractions', { ...positions })) {
      if (message && put(message)) overwritten.delete(message.documentId)
      else if (message && newest.has(message.documentId)) overwritten.add(message.documentId)
      positions[partition] = position
    }
  }

  return {
    catchUp: createCatchUp(read),
    put,
    overwritten: () =>
      [...overwritten].map((documentId) => {
        const { reason, unversioned, kept, ...header } = newest.get(documentId)!
        return { documentId, ...header, payload: { reason, unversioned, kept: Buffer.from(kept, 'latin1') } }
      }),
    of(documentId) {
      const known = newest.get(documentId)
      if (!known) return undefined
      const { unversioned, versionTime, kept } = known
      // A processor of the version before knows no times: what it adds to a document that stays must not get lost.
      return { documentId, from: unversioned ? 0 : 1, upTo: versionTime, kept: keySet(kept) }
    },
  }
}
