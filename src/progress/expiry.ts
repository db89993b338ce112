// What becomes of units whose messages may be among records that were deleted before they were read. Nobody knows any more
// which messages these were. So all that may have waited for one of them is dead, `expired`, until it is done all the same.
import { parseTopic } from '../broker/topics.ts'
import type { LostRecords } from '../messages/generated.ts'
import { foldDead, isFolded } from './compaction.ts'
import { type Document, isDone, stateOfUnit, unitKey } from './document-progress.ts'

const reason = 'expired'

/**
 * A part counts as cut this much earlier than its entry says, in milliseconds: clocks differ, and its chunks come before
 * the entry. A unit that is ended though nothing of it was lost is corrected when it is done; one that is not ended would
 * run for ever.
 */
const slackMs = 10_000

/** Ends what waits in the document, or in one part of it, for records that were lost. What has ended stays as it is. */
export function expire(document: Document, losses: Iterable<LostRecords>, only?: number): void {
  for (const lost of losses) {
    const { role, units: isOf } = hurtBy(lost)
    const end = lost.before + slackMs
    if (role === 'document' || role === 'progress') expireParts(document, lost, end)
    if (isOf === undefined) continue
    for (const [part, { chunks, units, time = 0 }] of document.chunksOfPart) {
      if (time > end || (only !== undefined && part !== only)) continue
      for (const unit of units.filter(isOf))
        for (let index = 0; index < chunks; index++) expireUnit(document, unit, { part, index }, lost)
    }
  }
}

/** The topic's role, and which units its messages are of; none where units are done before these messages are handled. */
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
    // Older than whatever comes of the part after all.
    document.deadParts.set(`${reason} ${part}`, { part, time: -1, reason: { type: reason, message } })
  }
}

function expireUnit(
  document: Document,
  unit: string,
  place: { readonly part: number; readonly index: number },
  { topic, partition, next }: LostRecords,
): void {
  const { part, index } = place
  if (isDone(document, unit, place)) return
  const open = document.open.get(unitKey(unit, `${document.id}/${part}/${index}`))
  if (!open) {
    if (!isFolded(document, unit, place)) foldDead(document, unit, place, reason)
  } else if (stateOfUnit(open) === 'running') open.wholeDead.set(`${topic}:${partition}:${next}`, reason)
}
