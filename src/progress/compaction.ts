// Units that have ended badly are folded into bits, so that a document with very many of them still fits a message. A folded unit loses
// its counts (when a complete run comes later, both runs are counted) and the ids of its dead messages (the replay of any message of its
// chunk brings it back).

import { readOpenKey } from './chunk-places.ts'
import {
  type ChunkPlace,
  clearBit,
  type Document,
  type Fold,
  hasBit,
  setBit,
  unitKey,
} from './document-progress.ts'
import { emptyTotals } from './totals.ts'
import { countedBefore, emptyUnit, type OpenUnit, stateOfUnit } from './unit-state.ts'

/** Stands for the id of a dead message that was folded away. */
export const anyDeath = ''

/** Folds the oldest units that have ended, all but `keep` of them. */
export function foldUnits(document: Document, keep: number): void {
  const ended = [...document.open].filter(([, unit]) => stateOfUnit(unit) !== 'running')
  for (const [key, unit] of ended.slice(0, Math.max(0, ended.length - keep))) {
    const { unit: name, place } = readOpenKey(key)
    setBit(foldFor(document, endingOf(unit)).units, unitKey(name, place.part), place.index)
    document.open.delete(key)
  }
}

/** Whether the unit is in a fold. */
export function isFolded({ folds }: Document, unit: string, { part, index }: ChunkPlace): boolean {
  return folds.some(({ units }) => hasBit(units, unitKey(unit, part), index))
}

/** Adds a unit of which only its death is known. */
export function foldDead(
  document: Document,
  unit: string,
  { part, index }: ChunkPlace,
  reason: string,
): void {
  setBit(foldFor(document, { ending: 'dead', reason }).units, unitKey(unit, part), index)
}

/** Takes the unit out of its fold. Returns an empty unit when it was in none. */
export function unfoldUnit(document: Document, unit: string, { part, index }: ChunkPlace): OpenUnit {
  const open = emptyUnit()
  const fold = document.folds.find(({ units }) => hasBit(units, unitKey(unit, part), index))
  if (!fold) return open
  clearBit(fold.units, unitKey(unit, part), index)
  const { ending, reason } = fold
  if (ending === 'cut') {
    open.counted = { seqs: new Set(), last: 0, incomplete: reason, totals: emptyTotals() }
    open.runs.set('', open.counted)
  }
  if (ending === 'hurt') open.counted = countedBefore
  if (ending === 'hurt' || ending === 'lost') open.partDead.set(anyDeath, reason)
  if (ending === 'dead') open.wholeDead.set(anyDeath, reason)
  return open
}

export const stateOfFold = ({ ending }: Fold) => (ending === 'dead' ? 'dead' : 'partial')

function endingOf({ counted, wholeDead, partDead }: OpenUnit): Pick<Fold, 'ending' | 'reason'> {
  const [death] = partDead.values()
  if (death !== undefined) return { ending: counted ? 'hurt' : 'lost', reason: death }
  if (counted) return { ending: 'cut', reason: counted.incomplete ?? '' }
  return { ending: 'dead', reason: [...wholeDead.values()][0] ?? '' }
}

function foldFor(document: Document, { ending, reason }: Pick<Fold, 'ending' | 'reason'>): Fold {
  const known = document.folds.find((fold) => fold.ending === ending && fold.reason === reason)
  if (known) return known
  const fresh = { ending, reason, units: new Map() }
  document.folds.push(fresh)
  return fresh
}
