// What of a document has not ended yet, from the state that the ledger stores.

import { expectedUnits, isForeign, openKey } from './chunk-places.ts'
import { isFolded } from './compaction.ts'
import { isDone } from './document-progress.ts'
import { readState } from './snapshot.ts'
import { stateOfUnit } from './unit-state.ts'

export interface Running {
  /** Whether nobody has announced its chunks: further ones may come. */
  readonly isForeign: boolean
  /** Whether its parts were not all published yet. */
  readonly loading: boolean
  /** Parts that were not cut into chunks yet. */
  readonly uncutParts: number
  /** The number of chunks for each running unit. */
  readonly units: ReadonlyMap<string, number>
}

/** Throws `bytes_undecodable` for a state that no ledger of this version wrote. */
export function runningUnits(state: Uint8Array): Running {
  const document = readState(state)
  const units = new Map<string, number>()
  for (const { unit, place } of expectedUnits(document)) {
    if (isDone(document, unit, place) || isFolded(document, unit, place)) continue
    const open = document.open.get(openKey(document, unit, place))
    if (!open || stateOfUnit(open) === 'running') units.set(unit, (units.get(unit) ?? 0) + 1)
  }
  if (isForeign(document)) return { isForeign: true, loading: false, uncutParts: 0, units }
  const { parts } = document
  const uncutParts = Math.max(0, (parts ?? 0) - document.chunksOfPart.size)
  return { isForeign: false, loading: parts === undefined, uncutParts, units }
}
