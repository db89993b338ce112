// The versions of a document. Its parts are those of the newest version that was announced; chunks that this version shares with those
// before keep what is done of them. When the newest version is processed, it becomes the current one, and everything that only older
// versions stated is withdrawn.
import { compareVersions, emissionKey, joinKeys, splitKeys } from '../messages/emission.ts'
import type { RetractionsInit, Version } from '../messages/generated.ts'
import { byId, forgetUnannounced, isCut, readOpenKey, writeKeys } from './chunk-places.ts'
import {
  type Document,
  type DocumentVersions,
  keepOnly,
  type OtherVersion,
  type ProgressEntry,
  readUnitKey,
} from './document-progress.ts'
import { statusOf } from './document-status.ts'
import { addTotals } from './totals.ts'

/** A version that becomes the current one: what the document consists of from now on, and which version that is. */
export interface Settlement {
  readonly version: string
  /** Everything up to this time is withdrawn, except for what is kept. */
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
  const { version, collection, payload } = entry
  const versionTime = entry.versionTime || timeAfterRemoval(versions, entry)
  if (!versionTime) return true
  const newest = { version: versions.version, versionTime: versions.time }
  // What is known of a message from its headers alone has a time and no version.
  const isNamed = version !== '' || versionTime !== newest.versionTime || payload.kind === 'removed'
  const age = isNamed ? compareVersions({ version, versionTime }, newest) : 0
  if (age < 0 && payload.kind === 'late') addOther(versions, { version, time: versionTime, kind: 'late' })
  if (age < 0 || payload.kind === 'late') return false
  if (collection) versions.collection = collection
  if (age > 0) {
    versions.wasRemoved ||= versions.removed !== undefined
    versions.replaces ||= versions.time > 0 || document.chunksOfPart.size > 0 || document.known.size > 0
    forgetParts(document)
    const kind = versions.removed === undefined ? 'version' : 'removal'
    if (versions.time > 0) addOther(versions, { version: versions.version, time: versions.time, kind })
    Object.assign(versions, { version, time: versionTime, removed: undefined })
  }
  if (payload.kind === 'removed') versions.removed = payload.reason ?? 'removed'
  if (versions.removed === 'erased') document.title = ''
  return true
}

/** When a document without versions was removed and is loaded again, chunk-text gives its parts this time: entries of its source have none. */
function timeAfterRemoval({ removed, time }: DocumentVersions, entry: ProgressEntry): number {
  const isOfSource = ['loading', 'document', 'failed'].includes(entry.payload.kind)
  return removed !== undefined && isOfSource && entry.time > time ? time + 1 : 0
}

/** How many versions before the newest one a status names. */
const maxOthers = 9

function addOther(versions: DocumentVersions, other: OtherVersion): void {
  const isSame = ({ version, time }: OtherVersion) => version === other.version && time === other.time
  if (!versions.others.some(isSame)) versions.others = [...versions.others, other].slice(-maxOthers)
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
  if (versionTime > 0 && (removed !== undefined || isCut(document))) forgetUnannounced(document)
  if (versionTime <= versions.currentTime) return undefined
  const { state } = statusOf(document)
  if (state !== 'removed' && state !== 'done' && !(partial && state === 'partial')) return undefined
  versions.currentVersion = version
  versions.currentTime = versionTime
  if (!replaces) return { version, versionTime, collection, retractions: undefined }
  // Chunks that are known by their place alone can't be named. They are all of this version.
  const isNamed = [...document.chunksOfPart.values()].every(({ chunks, indexes }) => chunks === 0 || indexes)
  const upTo = isNamed ? versionTime : versionTime - 1
  versions.withdrawnUpTo = upTo
  versions.notWithdrawn = undefined
  const own = emissionKey({ documentId: id, chunkId: '', versionTime })
  const kept = removed === undefined ? keptKeys(document, own) : Buffer.of()
  // Of several messages, readers may find only the last: it withdraws all that those before have withdrawn.
  const unversioned = removed !== undefined || versions.wasRemoved
  const retractions = { reason: removed ?? 'superseded', kept, unversioned }
  return { version, versionTime: upTo, collection, retractions }
}

/** The versions that a status names, from the newest. */
export function versionsSaid({ version, time, removed, currentTime, others }: DocumentVersions): Version[] {
  if (time === 0) return []
  const isCurrent = time === currentTime
  const newest = removed !== undefined ? 'removed' : isCurrent ? 'current' : 'pending'
  const stateOf = ({ kind, time }: OtherVersion) => {
    if (kind !== 'version') return kind
    return time === currentTime ? 'current' : 'superseded'
  }
  const before = others.map((other) => ({
    version: other.version,
    versionTime: other.time,
    state: stateOf(other),
  }))
  return [{ version, versionTime: time, state: newest }, ...before.reverse()]
}

function keptKeys({ known, unitsOfKnown }: Document, own: string): Buffer {
  const announced = [...known].filter(([, index]) => unitsOfKnown[index] !== undefined).map(([key]) => key)
  return joinKeys([own, ...splitKeys(writeKeys(announced))])
}
