// The summary at the end of `extract` and its line of progress, computed from the documents' progress.
import type { DocumentStatus } from '../progress/document-status.ts'
import { addCounts, countsText, sumOf } from './counts.ts'

/** The files of an `extract` command. */
export interface Files {
  /** The file names of each loaded document, by its id: the same text with the same title is one document. */
  readonly loaded: ReadonlyMap<string, ReadonlySet<string>>
  /** One sentence for each file that could not be loaded; it begins with the name of the file. */
  readonly unloaded: readonly string[]
}

/** One sentence for each file that failed, before it was loaded or after; it begins with the name of the file. */
function failedFiles(documents: readonly DocumentStatus[], { loaded, unloaded }: Files): string[] {
  const dead = documents.flatMap(({ documentId, state, error }) =>
    state === 'failed'
      ? [...(loaded.get(documentId) ?? [])].map(
          (name) => `${name}: ${error?.message ?? 'every chunk is dead'}`,
        )
      : [],
  )
  return [...unloaded, ...dead]
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
    `facts      ${countsText(total.facts) || 'none'}${note(total.ungrounded, 'of them ungrounded')}${total.open > 0 ? ' (of units that have ended; others may have written some)' : ''}`,
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

/** One line during the work. */
export function progressLine(documents: readonly DocumentStatus[]): string {
  const { chunks, expected, done, partial, dead, facts } = merge(documents)
  const ended = done + partial + dead
  const percent = expected > 0 ? ` ${Math.floor((100 * ended) / expected)}%` : ''
  return `${ended}/${expected} units of ${chunks} chunks${percent}, ${sumOf(facts)} facts${note(partial, 'partial')}${note(dead, 'dead')}`
}

function merge(documents: readonly DocumentStatus[]) {
  const sum = (value: (document: DocumentStatus) => number) =>
    documents.reduce((total, document) => total + value(document), 0)
  const units = (name: 'expected' | 'done' | 'partial' | 'dead') => sum((document) => document.units[name])
  type Total = 'repaired' | 'duplicates' | 'ungrounded' | 'promptTokens' | 'completionTokens' | 'unreported'
  const totals = (name: Total) => sum((document) => document.totals[name])
  const [expected, done, partial, dead] = [units('expected'), units('done'), units('partial'), units('dead')]
  return {
    chunks: sum(({ chunks }) => chunks),
    expected,
    done,
    partial,
    dead,
    open: Math.max(0, expected - done - partial - dead),
    repaired: totals('repaired'),
    duplicates: totals('duplicates'),
    ungrounded: totals('ungrounded'),
    promptTokens: totals('promptTokens'),
    completionTokens: totals('completionTokens'),
    unreported: totals('unreported'),
    facts: addCounts(documents.map(({ totals }) => totals.facts)),
    rejected: addCounts(documents.map(({ totals }) => totals.rejected)),
    incomplete: addCounts(documents.map(({ incomplete }) => incomplete)),
  }
}

const note = (count: number, word: string) => (count > 0 ? `, ${count} ${word}` : '')
