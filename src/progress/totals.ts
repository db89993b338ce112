// What runs counted: facts, rejected items, calls and tokens; added up and taken back.
import type { Progress } from '../messages/generated.ts'

export type Counts = Record<string, number>

export interface Tokens {
  promptTokens: number
  completionTokens: number
  /** Calls whose tokens the server did not report. */
  unreported: number
}

/** Counts of complete runs, and the tokens and calls of failed runs. */
export interface Totals extends Tokens {
  readonly facts: Counts
  readonly rejected: Counts
  repaired: number
  duplicates: number
  /** Facts that do not stand in the text. */
  ungrounded: number
  /** Calls, by what they were for: first, continuation, reask and so on; see schemas/spent.avsc. */
  readonly calls: Counts
  /** The tokens by the model as the server names it, without replies from the cache, which cost nothing. */
  readonly models: Record<string, Tokens>
}

export function emptyTotals(): Totals {
  return {
    facts: named(),
    rejected: named(),
    repaired: 0,
    duplicates: 0,
    ungrounded: 0,
    calls: named(),
    models: named(),
    ...emptyTokens(),
  }
}

/** Names come from servers and messages, and must not reach a prototype. */
function named<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}

function emptyTokens(): Tokens {
  return { promptTokens: 0, completionTokens: 0, unreported: 0 }
}

/** Adds the counts of one reply part. */
export function addProgress(totals: Totals, entry: Progress): void {
  addCounts(totals.facts, entry.facts, 1)
  addCounts(totals.rejected, entry.rejected, 1)
  totals.repaired += entry.repaired
  totals.duplicates += entry.duplicates
  totals.ungrounded += entry.ungrounded ?? 0 // older states lack it
  if (entry.last) addUsage(totals, entry)
}

/** Adds the tokens and calls of a run. */
export function addUsage(totals: Totals, { usage, model }: Progress): void {
  const spent = usage?.spent ?? []
  if (spent.length === 0) {
    const tokens = reported(usage)
    addTokens(totals, tokens, 1)
    addTokens(tokensOf(totals, model ?? ''), tokens, 1)
  }
  for (const each of spent) {
    const tokens = reported(each, each.calls)
    addCounts(totals.calls, { [each.reason]: each.calls }, 1)
    addTokens(totals, tokens, 1)
    if (each.reason !== 'cached') addTokens(tokensOf(totals, each.model), tokens, 1)
  }
}

/** The tokens of some calls, as far as the server reported them. */
function reported(
  usage: { readonly promptTokens: number | null; readonly completionTokens: number | null } | null,
  calls = 1,
): Tokens {
  return {
    promptTokens: usage?.promptTokens ?? 0,
    completionTokens: usage?.completionTokens ?? 0,
    unreported: usage?.completionTokens == null ? calls : 0,
  }
}

export function addTotals(totals: Totals, more: Totals, sign: 1 | -1): void {
  addCounts(totals.facts, more.facts, sign)
  addCounts(totals.rejected, more.rejected, sign)
  addCounts(totals.calls, more.calls, sign)
  totals.repaired += sign * more.repaired
  totals.duplicates += sign * more.duplicates
  totals.ungrounded += sign * (more.ungrounded ?? 0)
  addTokens(totals, more, sign)
  for (const [model, tokens] of Object.entries(more.models)) addTokens(tokensOf(totals, model), tokens, sign)
}

function tokensOf({ models }: Totals, model: string): Tokens {
  models[model] ??= emptyTokens()
  return models[model]
}

function addTokens(tokens: Tokens, more: Tokens, sign: 1 | -1): void {
  tokens.promptTokens += sign * more.promptTokens
  tokens.completionTokens += sign * more.completionTokens
  tokens.unreported += sign * more.unreported
}

function addCounts(counts: Counts, more: Readonly<Counts>, sign: 1 | -1): void {
  for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + sign * count
}
