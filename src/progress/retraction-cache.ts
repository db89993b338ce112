// What the documents of a flow no longer state, read from the compacted topic `retractions`: of each document that was replaced or
// removed the newest message, in about 6 bytes for each of its chunks.
import { keyLength } from '../messages/emission.ts'
import type { Message } from '../messages/envelope.ts'
import { createTopicReader, type TopicReaderContext } from './topic-reader.ts'

export type RetractionCacheContext = TopicReaderContext<'retractions', 'Retractions'>

/** The truth about a document: emissions from `from` to `upTo` are withdrawn, unless their key is kept. */
export interface Retraction {
  readonly documentId: string
  readonly reason: string
  /** 1 when emissions without a time are not meant, otherwise 0. */
  readonly from: number
  readonly upTo: number
  readonly keeps: (key: string) => boolean
  readonly kept: () => ReadonlySet<string>
}

export interface RetractionCache {
  /** Resolves when everything that was stored before the call was read. */
  catchUp(context: RetractionCacheContext): Promise<void>
  /** As far as the topic was read; undefined when nothing of the document was withdrawn. */
  of(documentId: string): Retraction | undefined
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

  return {
    catchUp: createTopicReader('retractions', put),
    of(documentId) {
      const known = newest.get(documentId)
      if (!known) return undefined
      const { reason, versionTime, kept } = known
      const from = reason === 'superseded' ? 1 : 0
      return {
        ...{ documentId, reason, from, upTo: versionTime },
        keeps: (key) => contains(kept, key),
        kept: () => new Set(keysOf(kept)),
      }
    },
  }
}

function* keysOf(kept: string): Generator<string> {
  for (let at = 0; at + keyLength <= kept.length; at += keyLength) yield kept.slice(at, at + keyLength)
}

/** The keys are sorted. */
function contains(kept: string, key: string): boolean {
  let low = 0
  let high = Math.floor(kept.length / keyLength)
  while (low < high) {
    const middle = (low + high) >> 1
    const found = kept.slice(middle * keyLength, (middle + 1) * keyLength)
    if (found === key) return true
    if (found < key) low = middle + 1
    else high = middle
  }
  return false
}
