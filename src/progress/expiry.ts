// Units whose messages may be among records that were deleted before they were read. Which messages these were is unknown, so every unit
// that may have waited for one of them is dead, `expired`, until it is done after all.
import { parseTopic } from '../broker/topics.ts'
import type { LostRecords } from '../messages/generated.ts'
import { expectedUnits, openKey } from './chunk-places.ts'
import { foldDead, isFolded } from './compaction.ts'
import { type ChunkPlace, type Document, isDone } from './document-progress.ts'
import { stateOfUnit } from './unit-state.ts'

const reason = 'expired'

/**
 * How much earlier than its entry a part counts as cut, in milliseconds: clocks differ, and its chunks come before the entry. A unit
 * that is ended by mistake is corrected when it is done, but one that is missed would run for ever.
 */
const slackMs = 10_000

/** Ends the units of the document, or of one part of it, that wait for lost records. Units that have ended stay as they are. */
export function expire(document: Document, losses: Iterable<LostRecords>, only?: number): void {
  for (const lost of losses) {
    const { role, units: isHurt } = hurtBy(lost)
    const end = lost.before + slackMs
    if (role === 'document' || role === 'progress') expireParts(document, lost, end)
    if (isHurt === undefined) continue
    for (const { unit, place, time, part } of expectedUnits(document)) {
      if (time > end || (only !== undefined && part !== only)) continue
      if (isHurt(unit)) expireUnit(document, unit, place, lost)
    }
  }
}

/** The topic's role, and the units that its messages belong to; undefined when units are done before these messages are handled. */
function hurtBy({ topic, processor }: LostRecords): {
  readonly role: string | undefined
  readonly units: ((unit: string) => boolean) | undefined
} {
  const parts = parseTopic(topic)
  const role = parts?.role
  const ofProcessor = (unit: string) => unit === processor || unit.startsWith(`${processor}:`)
  if (parts?.class === 'response' || role === 'chunk') return { role, units: ofProcessor }
  if (role === 'prompt' || role === 'prompt-live' || role === 'progress') return { role, units: () => true }
  return { role, units: undefined }
}

/** Parts that were published and never cut. */
function expireParts(document: Document, lost: LostRecords, end: number): void {
  if (document.loadedAt === undefined || document.loadedAt > end) return
  for (let part = 0; part < document.parts!; part++) {
    if (document.chunksOfPart.has(part)) continue
    const message = `${lost.topic} has lost records before they were read`
    // Older than any later entry of the part.
    document.deadParts.set(`${reason} ${part}`, { part, time: -1, reason: { type: reason, message } })
  }
}

function expireUnit(
  document: Document,
  unit: string,
  place: ChunkPlace,
  { topic, partition, next }: LostRecords,
): void {
  if (isDone(document, unit, place)) return
  const open = document.open.get(openKey(document, unit, place))
  if (!open) {
    if (!isFolded(document, unit, place)) foldDead(document, unit, place, reason)
  } else if (stateOfUnit(open) === 'running') open.wholeDead.set(`${topic}:${partition}:${next}`, reason)
}
