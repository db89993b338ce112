// The tokens that runs spent, from `Progress` messages, by document, unit, model and reason.
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
