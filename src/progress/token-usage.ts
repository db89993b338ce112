// What runs spent, from `Progress` messages: tokens by document, unit, model and reason.
import type { Message } from '../messages/envelope.ts'
import type { Progress, Spent } from '../messages/generated.ts'

export interface TokenUsageRow {
  readonly documentId: string
  readonly unit: string
  readonly model: string
  /** See schemas/spent.avsc. */
  readonly reason: string
  calls: number
  /** As far as they were reported. */
  promptTokens: number
  completionTokens: number
  /** Calls whose tokens were not reported. */
  unreported: number
}

export interface TokenUsage {
  /** Takes in one message of the progress topic. Every run counts, also one that was done before. */
  add(message: Message<'Progress'>): void
  rows(): TokenUsageRow[]
}

export function createTokenUsage(): TokenUsage {
  const rows = new Map<string, TokenUsageRow>()

  function rowOf(entry: Progress, documentId: string, { model, reason }: Spent): TokenUsageRow {
    const unit = entry.unit ?? ''
    const key = JSON.stringify([documentId, unit, model, reason])
    const row = rows.get(key) ?? {
      documentId,
      unit,
      model,
      reason,
      calls: 0,
      promptTokens: 0,
      completionTokens: 0,
      unreported: 0,
    }
    rows.set(key, row)
    return row
  }

  return {
    add({ documentId, payload }) {
      for (const spent of payload.usage?.spent ?? []) {
        const row = rowOf(payload, documentId, spent)
        row.calls += spent.calls
        row.promptTokens += spent.promptTokens ?? 0
        row.completionTokens += spent.completionTokens ?? 0
        if (spent.promptTokens === null || spent.completionTokens === null) row.unreported += spent.calls
      }
    },
    rows: () => [...rows.values()],
  }
}
