// What a person reads at the end of `extract`, and its exit code, both from the tally of progress.
import type { Counts } from '../progress/document-progress.ts'
import type { DocumentStatus } from '../progress/progress-aggregate.ts'

/** The files of a run. */
export interface Files {
  /** Where each document that was loaded came from, by its id: the same text under the same title is one document. */
  readonly loaded: ReadonlyMap<string, ReadonlySet<string>>
  /** What is wrong with each that could not be loaded; it begins with its name. */
  readonly unloaded: readonly string[]
}

/** What is wrong with each file that failed, before it was loaded or after; it begins with the file's name. */
function failedFiles(documents: readonly DocumentStatus[], { loaded, unloaded }: Files): string[] {
  // A document that was never loaded has failed in the tally too.
  const dead = documents.flatMap(({ documentId, state, error }) =>
    state === 'failed'
      ? [...(loaded.get(documentId) ?? [])].map(
          (name) => `${name}: ${error?.message ?? 'every chunk is dead'}`,
        )
      : [],
  )
  return [...unloaded, ...dead]
}

/** 4: some chunk dead or some document failed; 3: some partial, or with `strict` any item rejected; else 0. */
export function exitCodeOf(
  documents: readonly DocumentStatus[],
  { unloaded }: Files,
  strict: boolean,
): 0 | 3 | 4 {
  if (unloaded.length > 0 || documents.some(({ state, units }) => state === 'failed' || units.dead > 0))
    return 4
  const rejected = documents.some(({ totals }) => sum(totals.rejected) > 0)
  return documents.some(({ units }) => units.partial > 0) || (strict && rejected) ? 3 : 0
}

/** The lines of the closing summary. */
export function summaryLines(documents: readonly DocumentStatus[], files: Files, seconds: number): string[] {
  const total = merge(documents)
  const failed = failedFiles(documents, files)
  const read = documents
    .filter(({ state }) => state !== 'failed')
    .reduce((count, { documentId }) => count + (files.loaded.get(documentId)?.size ?? 1), 0)
  const lines = [
    `documents  ${read} read${note(failed.length, 'failed')}`,
    `chunks     ${total.chunks} (${total.done} units done${note(total.partial, 'partial')}${note(total.dead, 'dead')}${note(total.open, 'not finished')})`,
    `facts      ${countsText(total.facts) || 'none'}${total.open > 0 ? ' (of units that have ended; others may have written some)' : ''}`,
    `rejected   ${countsText(total.rejected) || 'none'}${note(total.repaired, 'repaired')}${note(total.duplicates, 'repeated')}`,
    `cut off    ${total.incomplete['truncated'] ?? 'none'}`,
  ]
  if (Object.keys(total.incomplete).length > 0) lines.push(`incomplete ${countsText(total.incomplete)}`)
  const unreported = total.unreported > 0 ? ` (${total.unreported} calls without a count)` : ''
  lines.push(`tokens     ${total.promptTokens} in, ${total.completionTokens} out${unreported}`)
  lines.push(`time       ${seconds.toFixed(1)} s`)
  for (const problem of failed) lines.push(`failed     ${problem}`)
  return lines
}

/** One line while the work goes on. */
export function progressLine(documents: readonly DocumentStatus[]): string {
  const { chunks, expected, done, partial, dead, facts } = merge(documents)
  const ended = done + partial + dead
  const percent = expected > 0 ? ` ${Math.floor((100 * ended) / expected)}%` : ''
  return `${ended}/${expected} units of ${chunks} chunks${percent}, ${sum(facts)} facts${note(partial, 'partial')}${note(dead, 'dead')}`
}

function merge(documents: readonly DocumentStatus[]) {
  const merged = {
    chunks: 0,
    expected: 0,
    done: 0,
    partial: 0,
    dead: 0,
    open: 0,
    repaired: 0,
    duplicates: 0,
    promptTokens: 0,
    completionTokens: 0,
    unreported: 0,
    facts: {} as Counts,
    rejected: {} as Counts,
    incomplete: {} as Counts,
  }
  for (const { chunks, units, totals, incomplete } of documents) {
    merged.chunks += chunks
    merged.expected += units.expected
    merged.done += units.done
    merged.partial += units.partial
    merged.dead += units.dead
    for (const name of ['repaired', 'duplicates', 'promptTokens', 'completionTokens', 'unreported'] as const)
      merged[name] += totals[name]
    add(merged.facts, totals.facts)
    add(merged.rejected, totals.rejected)
    add(merged.incomplete, incomplete)
  }
  merged.open = Math.max(0, merged.expected - merged.done - merged.partial - merged.dead)
  return merged
}

function add(counts: Counts, more: Counts): void {
  for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + count
}

const sum = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0)
const note = (count: number, word: string) => (count > 0 ? `, ${count} ${word}` : '')
const countsText = (counts: Counts) =>
  Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`)
    .join(', ')
