// What an extraction has done so far, and its summary: from the progress of its documents and the tokens of its calls. All plain JSON
// but the errors of what is waited for.
import { addCounts } from '../counts.ts'
import { type ErrorCode, errorTable, type GraphmillError } from '../errors.ts'
import type { Prices } from '../llm/limits/prices.ts'
import type { DocumentStatus } from '../progress/document-status.ts'
import { type TokenUsageRow, totalCost } from '../progress/token-usage.ts'
import type { Counts } from '../progress/totals.ts'

/** Numbers of units: the work of one extractor on one chunk, for rows that of one row schema. */
export interface UnitCounts {
  readonly expected: number
  readonly done: number
  /** The reply was cut off, refused, or had no accepted fact. */
  readonly partial: number
  /** Given up. */
  readonly dead: number
}

/** An error as plain JSON. */
export interface ErrorResult {
  readonly code: string
  readonly message: string
  /** What can be done about it. */
  readonly remedy: string
}

/** What became of a document. */
export interface DocumentResult {
  readonly documentId: string
  readonly title: string
  /** The names of its sources: the same text with the same title is one document. */
  readonly names: readonly string[]
  /** `queued` and `running` when the extraction was stopped before its end. */
  readonly state: DocumentStatus['state']
  readonly chunks: number
  readonly units: UnitCounts
  /** By kind. */
  readonly facts: Readonly<Counts>
  /** Items that are no facts, by reason. */
  readonly rejected: Readonly<Counts>
  /** Units that are partial or dead, by reason. */
  readonly incomplete: Readonly<Counts>
  /** Why it failed. */
  readonly error: ErrorResult | null
}

/** A source that could not be loaded. */
export interface FailedSource extends ErrorResult {
  readonly name: string
}

/** Sums over all documents. */
export interface ExtractionCounts {
  readonly chunks: number
  readonly units: UnitCounts
  /** By kind. */
  readonly facts: Readonly<Counts>
  /** Facts that do not stand in the text. */
  readonly ungrounded: number
  /** Items that are no facts, by reason. */
  readonly rejected: Readonly<Counts>
  readonly repaired: number
  readonly duplicates: number
  /** Units that are partial or dead, by reason. */
  readonly incomplete: Readonly<Counts>
  /** Calls of the model, by what they were for: `first`, `continuation`, `reask`, `cached` and so on. */
  readonly calls: Readonly<Counts>
  readonly tokens: {
    readonly promptTokens: number
    readonly completionTokens: number
    /** Calls whose tokens the server did not report. */
    readonly unreported: number
  }
  /** By the given prices; null when one of them, or the tokens of a call, is not known. */
  readonly cost: number | null
  /** Since the beginning. */
  readonly seconds: number
}

/** Something that is unavailable; the work that needs it waits. */
export interface Waiting {
  /** A model, a store or a topic, by its name for people. */
  readonly resource: string
  readonly error: GraphmillError
  /** Milliseconds until the next try, when it is known. */
  readonly retryInMs: number | undefined
}

/** How far an extraction is. */
export interface ExtractionProgress extends ExtractionCounts {
  readonly documents: { readonly loaded: number; readonly ended: number; readonly failed: number }
  readonly waiting: readonly Waiting[]
}

/** What an extraction has done. The same object is the output of `graphmill extract --json`. */
export interface ExtractionSummary extends ExtractionCounts {
  /**
   * `done`: every chunk is done. `partial`: some replies were cut off, refused or empty. `failed`: a source or document failed, or a
   * chunk was given up. `stopped`: the extraction ended before its work was done.
   */
  readonly outcome: 'done' | 'partial' | 'failed' | 'stopped'
  readonly documents: readonly DocumentResult[]
  /** Sources that could not be loaded. */
  readonly failed: readonly FailedSource[]
  /** Whether chunks or documents were left out for `limit`. */
  readonly limited: boolean
}

export interface CountSources {
  readonly statuses: readonly DocumentStatus[]
  readonly usage: readonly TokenUsageRow[]
  readonly prices: Prices
  /** Whether calls cost nothing. */
  readonly isFree: boolean
  readonly seconds: number
}

/** The sums over all documents. */
export function countsOf({ statuses, usage, prices, isFree, seconds }: CountSources): ExtractionCounts {
  const { total, unknown } = totalCost(usage, prices)
  return {
    ...documentCounts(statuses),
    calls: addCounts(usage.map(({ reason, calls }) => ({ [reason]: calls }))),
    cost: isFree ? 0 : unknown.size > 0 || prices.size === 0 ? null : total,
    seconds,
  }
}

/** The sums that need no more than the progress of the documents. */
export function documentCounts(statuses: readonly DocumentStatus[]) {
  const sum = (value: (document: DocumentStatus) => number) =>
    statuses.reduce((total, document) => total + value(document), 0)
  const units = (name: keyof UnitCounts) => sum((document) => document.units[name])
  const totals = (
    name: 'repaired' | 'duplicates' | 'ungrounded' | 'promptTokens' | 'completionTokens' | 'unreported',
  ) => sum((document) => document.totals[name])
  return {
    chunks: sum(({ chunks }) => chunks),
    units: {
      expected: units('expected'),
      done: units('done'),
      partial: units('partial'),
      dead: units('dead'),
    },
    facts: addCounts(statuses.map(({ totals }) => totals.facts)),
    ungrounded: totals('ungrounded'),
    rejected: addCounts(statuses.map(({ totals }) => totals.rejected)),
    repaired: totals('repaired'),
    duplicates: totals('duplicates'),
    incomplete: addCounts(statuses.map(({ incomplete }) => incomplete)),
    tokens: {
      promptTokens: totals('promptTokens'),
      completionTokens: totals('completionTokens'),
      unreported: totals('unreported'),
    },
  }
}

export interface SummarySources extends CountSources {
  /** The names of the sources, by document id. */
  readonly names: ReadonlyMap<string, ReadonlySet<string>>
  readonly failed: readonly FailedSource[]
  readonly limited: boolean
  /** Whether all work is done. */
  readonly ended: boolean
}

export function summaryOf(sources: SummarySources): ExtractionSummary {
  const { statuses, names, failed, limited, ended } = sources
  // A source that was not loaded has a status by its place, but is no document.
  const loaded = statuses.filter(({ documentId }) => names.has(documentId))
  const documents = loaded.map((status) => resultOf(status, names))
  const counts = countsOf(sources)
  return { outcome: outcomeOf({ statuses, failed, ended }), documents, failed, limited, ...counts }
}

function outcomeOf({
  statuses,
  failed,
  ended,
}: Pick<SummarySources, 'statuses' | 'failed' | 'ended'>): ExtractionSummary['outcome'] {
  if (!ended) return 'stopped'
  if (failed.length > 0 || statuses.some(({ state, units }) => state === 'failed' || units.dead > 0))
    return 'failed'
  return statuses.some(({ units }) => units.partial > 0) ? 'partial' : 'done'
}

/** What became of a document. */
export function resultOf(status: DocumentStatus, names: SummarySources['names']): DocumentResult {
  const { documentId, title, state, chunks, units, totals, incomplete } = status
  const error =
    state === 'failed' ? (status.error ?? { type: 'dead', message: 'every chunk is dead' }) : undefined
  return {
    documentId,
    title,
    names: [...(names.get(documentId) ?? [])],
    state,
    chunks,
    units,
    facts: { ...totals.facts },
    rejected: { ...totals.rejected },
    incomplete: { ...incomplete },
    error: error ? errorResult(error.type, error.message) : null,
  }
}

/** An error that a message names. */
export function errorResult(code: string, message: string): ErrorResult {
  const remedy = Object.hasOwn(errorTable, code) ? errorTable[code as ErrorCode].remedy : ''
  return { code, message, remedy }
}
