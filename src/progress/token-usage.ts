// The tokens that runs spent, from `Progress` messages, by document, unit, model and reason.
import { costOf, type Prices, priceOf } from '../llm/limits/prices.ts'
import type { Message } from '../messages/envelope.ts'

export interface TokenUsageRow {
  readonly documentId: string
  readonly unit: string
  readonly model: string
  /** See schemas/spent.avsc. */
  readonly reason: string
  calls: number
  /** As far as the server reported them. */
  promptTokens: number
  completionTokens: number
  /** Calls whose tokens were not reported. */
  unreported: number
}

export interface TokenUsage {
  /** Adds a message of the topic `progress`. Every run counts, also a repeated one. */
  add(message: Message<'Progress'>): void
  rows(): TokenUsageRow[]
}

export function createTokenUsage(): TokenUsage {
  const rows = new Map<string, TokenUsageRow>()
  return {
    add({ documentId, payload }) {
      const unit = payload.unit ?? ''
      for (const { model, reason, calls, promptTokens, completionTokens } of payload.usage?.spent ?? []) {
        const key = JSON.stringify([documentId, unit, model, reason])
        const counts = { calls: 0, promptTokens: 0, completionTokens: 0, unreported: 0 }
        const row = rows.get(key) ?? { documentId, unit, model, reason, ...counts }
        rows.set(key, row)
        row.calls += calls
        row.promptTokens += promptTokens ?? 0
        row.completionTokens += completionTokens ?? 0
        if (promptTokens === null || completionTokens === null) row.unreported += calls
      }
    },
    rows: () => [...rows.values()],
  }
}

/** What calls have cost as far as it is known, and the models with calls of unknown cost. Cached replies cost nothing. */
export function totalCost(rows: readonly TokenUsageRow[], prices: Prices) {
  let total = 0
  const unknown = new Set<string>()
  for (const row of rows.filter(({ reason }) => reason !== 'cached')) {
    const cost = row.unreported > 0 ? null : costOf(row, priceOf(row.model, prices))
    if (cost === null) unknown.add(row.model)
    else total += cost
  }
  return { total, unknown }
}
