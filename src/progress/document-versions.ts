// The versions of a document. Its parts are those of the newest version that was announced; chunks that this version shares with those
// before keep what is done of them. When the newest version is processed, it becomes the current one, and everything that only older
// versions stated is withdrawn.
import { emissionKey, joinKeys, splitKeys } from '../messages/emission.ts'
import type { RetractionsInit } from '../messages/generated.ts'
import { byId, readOpenKey, writeKeys } from './chunk-places.ts'
import { type Document, keepOnly, type ProgressEntry, readUnitKey } from './document-progress.ts'
import { statusOf } from './document-status.ts'
import { addTotals } from './totals.ts'

/** A version that becomes the current one: what the document consists of from now on, and which version that is. */
export interface Settlement {
  readonly version: string
  readonly versionTime: number
  readonly collection: string
  /** Undefined when there was no other version, so that nothing is withdrawn. */
  readonly retractions: RetractionsInit | undefined
}

/**
 * Whether an entry about the document itself is of its newest version. The first entry of a newer one starts it. Entries of processors that
 * know of no versions are of the newest.
 */
export function takeVersion(document: Document, entry: ProgressEntry): boolean {
  const { versions } = document
  const { version, versionTime, collection, payload } = entry
  if (!versionTime) return true
  const age =
    versionTime - versions.time || (version < versions.version ? -1 : version > versions.version ? 1 : 0)
  if (age < 0) return false
  if (collection) versions.collection = collection
  if (age > 0) {
    versions.replaces ||= versions.time > 0 || document.chunksOfPart.size > 0 || document.known.size > 0
    forgetParts(document)
    Object.assign(versions, { version, time: versionTime, removed: undefined })
  }
  if (payload.kind === 'removed') versions.removed = payload.reason ?? 'removed'
  if (versions.removed === 'erased') document.title = ''
  return true
}

/** What is known by its place alone says nothing of another text. What is known by its id stays. */
function forgetParts(document: Document): void {
  document.parts = undefined
  document.loadedAt = undefined
  document.failed = undefined
  document.deadParts.clear()
  document.chunksOfPart.clear()
  document.unitsOfKnown.length = 0
  document.seen.clear()
  document.seenAt = undefined
  document.unplaced = []
  for (const [key, open] of document.open) {
    if (readOpenKey(key).place.part === byId) continue
    if (open.counted) addTotals(document.totals, open.counted.totals, -1)
    document.open.delete(key)
  }
  for (const sets of [document.done, ...document.folds.map(({ units }) => units)])
    for (const [, part] of [...sets.keys()].map(readUnitKey))
      if (part !== byId) keepOnly(sets, part, { chunks: 0, units: [] })
}

/** Makes the newest version the current one when it is processed. Returns it, once. */
export function settleVersion(
  document: Document,
  { partial }: { readonly partial: boolean },
): Settlement | undefined {
  const { versions, id } = document
  const { version, time: versionTime, removed, collection, replaces } = versions
  if (versionTime === 0 || versionTime <= versions.currentTime) return undefined
  const { state } = statusOf(document)
  const isProcessed = state === 'removed' || state === 'done' || (partial && state === 'partial')
  // Chunks that are known by their place have the same place in another version.
  if (
    !isProcessed ||
    [...document.chunksOfPart.values()].some(({ chunks, indexes }) => chunks > 0 && !indexes)
  )
    return undefined
  versions.currentVersion = version
  versions.currentTime = versionTime
  if (!replaces) return { version, versionTime, collection, retractions: undefined }
  const reason = removed ?? 'superseded'
  const kept =
    removed === undefined
      ? keptKeys(document, emissionKey({ documentId: id, chunkId: '', versionTime }))
      : Buffer.of()
  return { version, versionTime, collection, retractions: { reason, kept } }
}

function keptKeys({ known, unitsOfKnown }: Document, own: string): Buffer {
  const announced = [...known].filter(([, index]) => unitsOfKnown[index] !== undefined).map(([key]) => key)
  return joinKeys([own, ...splitKeys(writeKeys(announced))])
}
