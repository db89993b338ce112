// Token counts of several calls together.
import type { Usage } from './llm.ts'

/** No count is known. */
export const unknownUsage: Usage = { promptTokens: null, completionTokens: null, totalTokens: null }

/** The sums; null when one of the counts is. */
export function sumOfUsages(usages: readonly Usage[]): Usage {
  const sum = (count: keyof Usage) =>
    usages.reduce<number | null>((total, { [count]: more }) => {
      return total === null || more === null ? null : total + more
    }, 0)
  return {
    promptTokens: sum('promptTokens'),
    completionTokens: sum('completionTokens'),
    totalTokens: sum('totalTokens'),
  }
}
