// From the state of a document to its status: how many units are expected, done, partial and dead, and which phase follows.

import { chunksSeen, countUnits, isCounted, isForeign, readOpenKey } from './chunk-places.ts'
import { stateOfFold } from './compaction.ts'
import type { Document, DocumentVersions, Reason } from './document-progress.ts'
import type { Counts, Totals } from './totals.ts'
import { stateOfUnit } from './unit-state.ts'

export type DocumentPhase = 'queued' | 'running' | 'done' | 'partial' | 'failed' | 'removed'

export interface DocumentStatus {
  readonly documentId: string
  readonly title: string
  readonly state: DocumentPhase
  /** Why it failed. */
  readonly error: Reason | undefined
  readonly chunks: number
  /** Numbers of units, over all chunks. */
  readonly units: {
    readonly expected: number
    readonly done: number
    readonly partial: number
    readonly dead: number
  }
  /** Why units are partial, with their numbers. */
  readonly incomplete: Counts
  readonly totals: Totals
  readonly versions: DocumentVersions
}

/** The code is that of the specification; `load` calls a file without text `document_empty`. */
export const empty: Reason = { type: 'empty_document', message: 'it has no text' }

export function statusOf(document: Document): DocumentStatus {
  const { chunks, expected } = isForeign(document)
    ? { chunks: chunksSeen(document), expected: 0 }
    : sizeOf(document)
  const ended = { done: countUnits(document, document.done), partial: 0, dead: 0 }
  const incomplete: Counts = {}
  for (const [key, unit] of document.open) {
    const state = stateOfUnit(unit)
    const { unit: name, place } = readOpenKey(key)
    if (state === 'running' || !isCounted(document, name, place)) continue
    ended[state]++
    const [reason] = [unit.counted?.incomplete, ...unit.partDead.values(), ...unit.wholeDead.values()].filter(
      Boolean,
    )
    if (reason) incomplete[reason] = (incomplete[reason] ?? 0) + 1
  }
  for (const fold of document.folds) {
    const count = countUnits(document, fold.units)
    ended[stateOfFold(fold)] += count
    if (count > 0) incomplete[fold.reason] = (incomplete[fold.reason] ?? 0) + count
  }
  const known = document.parts !== undefined && document.chunksOfPart.size >= document.parts
  const over = known && ended.done + ended.partial + ended.dead >= expected
  // A document that was published completely once is loaded, also when another attempt failed.
  const unloaded = document.parts === undefined ? document.failed : undefined
  const error =
    unloaded ?? [...document.deadParts.values()][0]?.reason ?? (known && chunks === 0 ? empty : undefined)
  const units = { expected, ...ended }
  const isRemoved = document.versions.removed !== undefined
  const state = isRemoved
    ? 'removed'
    : error !== undefined
      ? 'failed'
      : over
        ? endState(units)
        : chunks > 0
          ? 'running'
          : 'queued'
  const { id: documentId, title, totals, versions } = document
  return { documentId, title, state, error, chunks, units, incomplete, totals, versions }
}

/** The chunks of all parts, and the units of each. */
function sizeOf({ parts = Number.POSITIVE_INFINITY, chunksOfPart, unitsOfKnown }: Document) {
  let chunks = 0
  let expected = 0
  for (const [part, size] of chunksOfPart) {
    // A document that was loaded again may have fewer parts.
    if (part >= parts) continue
    // Chunks that are known by their ids are counted below, because several parts may have the same; but not those beyond the limit.
    const counted = size.chunks - (size.indexes?.length ?? 0)
    chunks += counted
    expected += counted * size.units.length
  }
  for (const units of unitsOfKnown) {
    if (!units) continue
    chunks++
    expected += units.length
  }
  return { chunks, expected }
}

function endState({ expected, partial, dead }: DocumentStatus['units']): DocumentPhase {
  if (dead === expected) return 'failed'
  return partial + dead > 0 ? 'partial' : 'done'
}
