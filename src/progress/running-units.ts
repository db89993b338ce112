// What of a document has not ended yet, from the state that the ledger stores.
import { isFolded } from './compaction.ts'
import { isDone, unitKey } from './document-progress.ts'
import { readState } from './snapshot.ts'
import { stateOfUnit } from './unit-state.ts'

export interface Running {
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
  for (const [part, size] of document.chunksOfPart)
    for (const unit of size.units) {
      let running = 0
      for (let index = 0; index < size.chunks; index++) {
        const place = { part, index }
        if (isDone(document, unit, place) || isFolded(document, unit, place)) continue
        const open = document.open.get(unitKey(unit, `${document.id}/${part}/${index}`))
        if (!open || stateOfUnit(open) === 'running') running++
      }
      if (running > 0) units.set(unit, (units.get(unit) ?? 0) + running)
    }
  const { parts } = document
  const uncutParts = Math.max(0, (parts ?? 0) - document.chunksOfPart.size)
  return { loading: parts === undefined, uncutParts, units }
}
