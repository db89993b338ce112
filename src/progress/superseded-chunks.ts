// Which chunks the newest version of their document no longer has, from the topic `contents`: nobody waits for the answers about them, so
// the model need not be asked. The ledger passes over such answers, and a store does not keep what they state, whether or not a process
// knows in time. It keeps some 230 bytes of each document, and 6 for each chunk that an older version has sent.
import { GraphmillError } from '../errors.ts'
import { compareVersions, emissionKey, joinKeys, keySet, splitKeys } from '../messages/emission.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { Contents } from '../messages/generated.ts'

type Sender = Pick<Header, 'documentId' | 'chunkId' | 'versionTime'>

export interface SupersededChunks {
  /** A signal that aborts when the chunk is superseded; undefined for what is of no chunk. The caller ends the watch. */
  watch(chunk: Sender): ChunkWatch | undefined
  /** Takes the newest message of a document. */
  take(contents: Message<'Contents'>): void
}

export interface ChunkWatch {
  readonly signal: AbortSignal
  end(): void
}

/** The newest version of a document. */
interface NewestVersion {
  readonly version: string
  readonly versionTime: number
  /** The keys of what it has of the versions before, for `keySet`; undefined as long as that is not known. */
  readonly kept: string | undefined
  /** Then nothing is left of what it had without a version. */
  readonly wasRemoved: boolean
}

export function createSupersededChunks(): SupersededChunks {
  const newest = new Map<string, NewestVersion>()
  const watched = new Map<string, Map<AbortController, Sender>>()

  function isSuperseded(chunk: Sender): boolean {
    const known = newest.get(chunk.documentId)
    if (chunk.versionTime === 0) return known?.wasRemoved ?? false
    const isOlder = known !== undefined && chunk.versionTime < known.versionTime
    return isOlder && known.kept !== undefined && !keySet(known.kept).has(emissionKey(chunk))
  }

  function check(chunk: Sender, stop: AbortController): void {
    if (isSuperseded(chunk))
      stop.abort(new GraphmillError('aborted', 'Its document no longer has the chunk.'))
  }

  return {
    watch(chunk) {
      const { documentId, chunkId, versionTime } = chunk
      if (documentId === '' || chunkId === '') return undefined
      const stop = new AbortController()
      check(chunk, stop)
      const ofDocument = watched.get(documentId) ?? new Map<AbortController, Sender>()
      watched.set(documentId, ofDocument.set(stop, { documentId, chunkId, versionTime }))
      return {
        signal: stop.signal,
        end() {
          ofDocument.delete(stop)
          if (ofDocument.size === 0 && watched.get(documentId) === ofDocument) watched.delete(documentId)
        },
      }
    },
    take({ documentId, version, versionTime, payload }) {
      const known = newest.get(documentId)
      if (known && compareVersions({ version, versionTime }, known) < 0) return
      const wasRemoved = payload.cause !== '' || payload.removals.length > 0
      newest.set(documentId, { version, versionTime, kept: keptBy(payload, versionTime), wasRemoved })
      for (const [stop, chunk] of watched.get(documentId) ?? []) check(chunk, stop)
    },
  }
}

/** Whether all parts of the version were cut, or the document was removed. */
export function isWhole({ cause, parts }: Contents): boolean {
  const last = parts.find((part) => part.last)
  return cause !== '' || (last !== undefined && parts.length === last.part + 1)
}

/** A part without chunks was given up, or its chunks are known by their place only. */
function keptBy(contents: Contents, versionTime: number): string | undefined {
  const isKnown = isWhole(contents) && contents.parts.every(({ emissions }) => emissions.length > 0)
  if (!isKnown) return undefined
  const older = contents.parts.flatMap(({ emissions }) =>
    emissions.filter((sent) => sent.versionTime < versionTime),
  )
  return joinKeys(older.flatMap(({ keys }) => splitKeys(keys))).toString('latin1')
}
