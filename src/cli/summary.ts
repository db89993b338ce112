// The summary at the end of `extract` and its line of progress, as text.
import { countsText, sumOf } from '../counts.ts'
import type { ExtractionCounts, ExtractionSummary } from '../extraction/summary.ts'

/** One sentence for each source that failed, before it was loaded or after; it begins with the name of the source. */
function failures({ documents, failed }: ExtractionSummary): string[] {
  const dead = documents.flatMap(({ names, error }) =>
    error ? names.map((name) => `${name}: ${error.message}`) : [],
  )
  return [...failed.map(({ message, remedy }) => `${message} ${remedy}`), ...dead]
}

/** The lines of the closing summary. */
export function summaryLines(summary: ExtractionSummary): string[] {
  const { chunks, units, facts, ungrounded, rejected, repaired, duplicates, incomplete, tokens } = summary
  const failed = failures(summary)
  const read = summary.documents.filter(({ state }) => state !== 'failed').flatMap(({ names }) => names)
  const open = Math.max(0, units.expected - units.done - units.partial - units.dead)
  const lines = [
    `documents  ${read.length} read${note(failed.length, 'failed')}`,
    `chunks     ${chunks} (${units.done} units done${note(units.partial, 'partial')}${note(units.dead, 'dead')}${note(open, 'not finished')})`,
    `facts      ${countsText(facts) || 'none'}${note(ungrounded, 'of them ungrounded')}${open > 0 ? ' (of units that have ended; others may have written some)' : ''}`,
    `rejected   ${countsText(rejected) || 'none'}${note(repaired, 'repaired')}${note(duplicates, 'repeated')}`,
    `cut off    ${incomplete['truncated'] ?? 'none'}`,
  ]
  if (Object.keys(incomplete).length > 0) lines.push(`incomplete ${countsText(incomplete)}`)
  const unreported = tokens.unreported > 0 ? ` (${tokens.unreported} calls without a count)` : ''
  lines.push(`tokens     ${tokens.promptTokens} in, ${tokens.completionTokens} out${unreported}`)
  lines.push(`time       ${summary.seconds.toFixed(1)} s`)
  for (const problem of failed) lines.push(`failed     ${problem}`)
  return lines
}

/** Documents that were named, at most. */
const mostNamed = 5

/** Which documents gave no fact at all, although nothing failed. */
export function emptyLines({ documents }: ExtractionSummary, isOffline: boolean): string[] {
  const empty = documents.filter(({ state, facts }) => state === 'done' && sumOf(facts) === 0)
  if (empty.length === 0) return []
  const names = empty.flatMap(({ names }) => names)
  const more = names.length > mostNamed ? ` and ${names.length - mostNamed} more` : ''
  const why = isOffline ? ': the offline rules read English prose only' : ''
  return [`nothing    was found in ${names.slice(0, mostNamed).join(', ')}${more}${why}`]
}

/** One line during the work. */
export function progressLine({
  chunks,
  units,
  facts,
}: Pick<ExtractionCounts, 'chunks' | 'units' | 'facts'>): string {
  const { expected, done, partial, dead } = units
  const ended = done + partial + dead
  const percent = expected > 0 ? ` ${Math.floor((100 * ended) / expected)}%` : ''
  return `${ended}/${expected} units of ${chunks} chunks${percent}, ${sumOf(facts)} facts${note(partial, 'partial')}${note(dead, 'dead')}`
}

const note = (count: number, word: string) => (count > 0 ? `, ${count} ${word}` : '')
