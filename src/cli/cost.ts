// The cost of an extraction by the configured prices: its limit and its total.
import type { Config } from '../config/config.ts'
import { withinCost } from '../llm/limits/budget.ts'
import { type Prices, readPrices } from '../llm/limits/prices.ts'
import type { Llm } from '../llm/llm.ts'
import { type TokenUsageRow, totalCost } from '../progress/token-usage.ts'

export const costOptions = ['prices', 'max-cost'] as const

/** The model, limited to `--max-cost`. Throws `configuration_invalid` if that is not an amount or the model has no price. */
export function limitCost(llm: Llm, { options }: Config): Llm {
  const maxCost = options['max-cost']
  return maxCost === undefined ? llm : withinCost(llm, Number(maxCost), readPrices(options.prices))
}

/** Lines for the summary: calls by reason and, if any price is configured, their cost. */
export function costLines(rows: readonly TokenUsageRow[], prices: Prices): string[] {
  const calls = Object.entries(Object.groupBy(rows, ({ reason }) => reason)).map(
    ([reason, group = []]) => `${group.reduce((sum, row) => sum + row.calls, 0)} ${reason}`,
  )
  const lines = calls.length > 0 ? [`calls      ${calls.join(', ')}`] : []
  if (prices.size === 0) return lines
  const { total, unknown } = totalCost(rows, prices)
  const more = unknown.size > 0 ? `, and an unknown cost of ${[...unknown].join(', ')}` : ''
  return [...lines, `cost       ${total.toFixed(4)}${more}`]
}
