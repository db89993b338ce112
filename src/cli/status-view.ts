// A status as `graphmill status` prints it: one object for programs, a row or some lines for people.

import { countsText, sumOf } from '../counts.ts'
import { costOf, type Prices, priceOf } from '../llm/limits/prices.ts'
import type { Message } from '../messages/envelope.ts'
import type { Status, Tokens } from '../messages/generated.ts'
import type { Counts } from '../progress/totals.ts'
import { shortId } from './document-names.ts'
import { fitted, hanging } from './table.ts'
import { unitsIn } from './waits.ts'

/** What `--json` prints: one object per document. */
export interface StatusView {
  readonly documentId: string
  readonly title: string
  readonly state: string
  readonly error: Status['error']
  readonly chunks: number
  /** Units of chunks: a chunk has one for each extractor. `expected` is null when nobody has announced the chunks. */
  readonly units: Readonly<Record<'done' | 'partial' | 'dead', number>> & { readonly expected: number | null }
  readonly facts: Counts
  readonly rejected: Counts
  /** Units that are not done, by reason. */
  readonly incomplete: Counts
  readonly truncated: number
  readonly continuations: number
  readonly repaired: number
  readonly duplicates: number
  /** Facts that do not stand in the text. */
  readonly ungrounded: number
  readonly calls: Counts
  /** By model. */
  readonly tokens: Readonly<Record<string, Tokens>>
  /** By `--prices`; null if a price or a count of tokens is unknown. */
  readonly cost: number | null
  /**
   * What a document waits for if it has not ended or has expired units, one sentence each. Null in the changes that `--watch`
   * prints, because the broker is not asked.
   */
  readonly waitsFor: readonly string[] | null
  readonly collection: string
  /** The last versions, from the newest, with when they were loaded (ISO 8601). Empty when nobody said them. */
  readonly versions: readonly {
    readonly version: string
    readonly loadedAt: string
    readonly state: string
  }[]
  /** What of older versions stays in the stores, and why; null when nothing does. */
  readonly toRetract: string | null
  /** ISO 8601. */
  readonly updatedAt: string
}

export function viewStatus(
  { documentId, time, payload }: Message<'Status'>,
  prices: Prices,
  waitsFor: StatusView['waitsFor'],
): StatusView {
  const { title, error, chunks, done, partial, dead } = payload
  const known = payload.state === 'running' && payload.expected === 0 ? unitsIn(payload.ledger) : undefined
  const expected = known?.isForeign ? null : payload.expected
  const isIdle = expected === null && known?.units.size === 0 && time < Date.now() - idleMs
  const state = isIdle ? 'idle' : payload.state
  const { facts, rejected, incomplete, truncated, repaired, duplicates, ungrounded, calls, tokens } = payload
  return {
    documentId,
    title,
    state,
    error,
    chunks,
    units: { expected, done, partial, dead },
    facts,
    rejected,
    incomplete,
    truncated,
    continuations: calls['continuation'] ?? 0,
    repaired,
    duplicates,
    ungrounded,
    calls,
    tokens,
    cost: costOfAll(tokens, prices),
    waitsFor,
    collection: payload.collection,
    versions: payload.versions.map(({ version, versionTime, state }) => ({
      version,
      loadedAt: new Date(versionTime).toISOString(),
      state,
    })),
    toRetract: toRetract(payload),
    updatedAt: new Date(time).toISOString(),
  }
}

function toRetract({ notWithdrawn, versions, currentVersion, currentTime, state }: Status): string | null {
  if (notWithdrawn) return `what older versions stated. ${notWithdrawn.message} [${notWithdrawn.type}]`
  if (
    versions[0]?.state !== 'pending' ||
    versions.every((each) => each.state !== 'superseded' && each.state !== 'current')
  )
    return null
  const what =
    currentTime > 0 ? `what only ${currentVersion.slice(0, 8)} states` : 'what only older versions state'
  const isOver = state === 'partial' || state === 'failed'
  return isOver
    ? `${what}: it stays, because the newest version is ${state}`
    : `${what}, when the newest version is done`
}

/** Chunks that nobody announces may still come: their document is idle when no unit waits and nothing has changed for so long. */
const idleMs = 60_000

function costOfAll(tokens: StatusView['tokens'], prices: Prices): number | null {
  let sum = 0
  for (const [model, used] of Object.entries(tokens)) {
    const cost = used.unreported > 0 ? null : costOf(used, priceOf(model, prices))
    if (cost === null) return null
    sum += cost
  }
  return sum
}

/** The table of documents: their titles are as long as it allows. */
export function statusRows(views: readonly StatusView[]): Record<string, string | number>[] {
  return fitted(views.map(statusRow), 'document')
}

/** The row of a document in the table of all documents. */
export function statusRow(view: StatusView): Record<string, string | number> {
  const { units } = view
  return {
    document: view.title,
    state: view.state,
    chunks: view.chunks,
    done: `${units.done}/${units.expected ?? '?'}`,
    partial: units.partial,
    dead: units.dead,
    facts: sumOf(view.facts),
    rejected: sumOf(view.rejected),
    id: shortId(view.documentId),
  }
}

/** Everything that is known about one document. The cost is left out unless there are prices. */
export function statusLines(view: StatusView, prices: Prices): string[] {
  const { units, cost } = view
  const tokens = Object.entries(view.tokens).map(
    ([model, { promptTokens, completionTokens, unreported }]) =>
      `${promptTokens} in, ${completionTokens} out${unreported > 0 ? ` (${unreported} calls without a count)` : ''}${model && ` by ${model}`}`,
  )
  const lines: [string, string][] = [
    ...(view.title ? [['document', view.title] satisfies [string, string]] : []),
    ['id', view.documentId],
    ['state', `${view.state}${view.error ? `: ${view.error.message} [${view.error.type}]` : ''}`],
    ...view.versions.map(({ version, loadedAt, state }): [string, string] => [
      'version',
      `${version.slice(0, 8) || 'none'} of ${loadedAt}: ${state}`,
    ]),
    ...(view.toRetract ? [['to retract', view.toRetract] satisfies [string, string]] : []),
    ['chunks', String(view.chunks)],
    [
      'units',
      `${units.done} of ${units.expected ?? 'an unknown number'} done, ${units.partial} partial, ${units.dead} dead${inBrackets(countsText(view.incomplete))}`,
    ],
    [
      'facts',
      `${sumOf(view.facts)}${inBrackets(countsText(view.facts))}${view.ungrounded > 0 ? `, ${view.ungrounded} of them ungrounded` : ''}`,
    ],
    ['rejected', `${sumOf(view.rejected)}${inBrackets(countsText(view.rejected))}`],
    ['repaired', `${view.repaired}, ${view.duplicates} repeated`],
    ['calls', `${sumOf(view.calls)}${inBrackets(countsText(view.calls))}`],
    ['tokens', tokens.join('; ') || 'none'],
    ...(prices.size > 0 ? [['cost', cost?.toFixed(4) ?? 'unknown'] satisfies [string, string]] : []),
    ...(view.waitsFor ?? []).map((text): [string, string] => ['waits for', text]),
    ['updated', view.updatedAt],
  ]
  return lines.map(([name, text]) => hanging(name, text))
}

const inBrackets = (text: string) => text && ` (${text})`
