// What the documents of a flow no longer state, read from the compacted topic `retractions`: of each document that was replaced or
// removed the newest message, in about 6 bytes for each of its chunks.
import { keyLength } from '../messages/emission.ts'
import type { Message } from '../messages/envelope.ts'
import type { KeySet, Withdrawal } from '../rdf/support.ts'
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
  /** Adds a message, unless a newer one of its document is known. */
  put(message: Message<'Retractions'>): void
  /** As far as the topic was read; undefined when nothing of the document was withdrawn. */
  of(documentId: string): Withdrawal | undefined
}

interface StoredRetraction {
  readonly reason: string
  readonly version: string
  readonly versionTime: number
  /** One character for each byte: a string takes 150 bytes less than a typed array. */
  readonly kept: string
}

export function createRetractionCache(): RetractionCache {
  const newest = new Map<string, StoredRetraction>()

  function put({ documentId, version, versionTime, payload }: Message<'Retractions'>): void {
    const known = newest.get(documentId)
    const isOlder =
      known &&
      (versionTime < known.versionTime || (versionTime === known.versionTime && version < known.version))
    if (isOlder || payload.units.length > 0) return
    const kept = Buffer.from(payload.kept).toString('latin1')
    newest.set(documentId, { reason: payload.reason, version, versionTime, kept })
  }

  const positions: Record<number, string> = {}
  async function read(context: RetractionCacheContext): Promise<void> {
    for await (const { message, partition, position } of context.read('retractions', { ...positions })) {
      if (message) put(message)
      positions[partition] = position
    }
  }

  return {
    catchUp: createCatchUp(read),
    put,
    of(documentId) {
      const known = newest.get(documentId)
      if (!known) return undefined
      const { reason, versionTime, kept } = known
      // A processor of the version before knows no times: what it adds to a document that stays must not get lost.
      const from = reason === 'superseded' ? 1 : 0
      return { documentId, from, upTo: versionTime, kept: keySet(kept) }
    },
  }
}

/** The keys are sorted. */
function keySet(keys: string): KeySet {
  const at = (index: number) => keys.slice(index * keyLength, (index + 1) * keyLength)
  const size = Math.floor(keys.length / keyLength)
  return {
    size,
    has(key) {
      let low = 0
      let high = size
      while (low < high) {
        const middle = (low + high) >> 1
        const found = at(middle)
        if (found === key) return true
        if (found < key) low = middle + 1
        else high = middle
      }
      return false
    },
    *[Symbol.iterator]() {
      for (let index = 0; index < size; index++) yield at(index)
    },
  }
}
