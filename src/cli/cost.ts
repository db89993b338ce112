// The cost of an extraction by the configured prices: its limit and its total.
import type { Config } from '../config/config.ts'
import { GraphmillError } from '../errors.ts'
import { createBudget } from '../llm/limits/budget.ts'
import { costOf, type Prices, priceOf, readPrices } from '../llm/limits/prices.ts'
import type { Llm } from '../llm/llm.ts'
import type { TokenUsageRow } from '../progress/token-usage.ts'

export const costOptions = ['prices', 'max-cost'] as const

/** The model, limited to `--max-cost`. Throws `configuration_invalid` if that is not an amount or the model has no price. */
export function limitCost(llm: Llm, { options }: Config): Llm {
  // A model in this process costs nothing.
  if (options['max-cost'] === undefined || llm.isLocal) return llm
  const maxCost = Number(options['max-cost'])
  if (!(maxCost > 0))
    throw new GraphmillError(
      'configuration_invalid',
      `max-cost: must be an amount above 0, not ${options['max-cost']}.`,
    )
  const price = priceOf(llm.model, readPrices(options.prices))
  if (!price)
    throw new GraphmillError(
      'configuration_invalid',
      `max-cost needs a price of ${llm.model}: --prices ${llm.model}=IN/OUT, per million tokens.`,
    )
  return createBudget({ maxCost, price }).limit(llm)
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
