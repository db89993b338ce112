// Token counts: of one call as servers report them, and of several calls together.
import type { Usage } from './llm.ts'

/** Counts as reported; a reported 0 differs from absent. */
export interface ProviderUsage extends Usage {
  /** Prompt tokens that came from the server's cache. */
  readonly cachedTokens?: number | null
  readonly cacheCreationTokens?: number | null
}

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

/** A count as a server reports it; null when it is absent or malformed. */
export function tokenCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

/** The counts of one call. A total that is not reported is the sum, if both counts are known. */
export function usageOf(
  promptTokens: number | null,
  completionTokens: number | null,
  total?: unknown,
): Usage {
  const sum = promptTokens === null || completionTokens === null ? null : promptTokens + completionTokens
  return { promptTokens, completionTokens, totalTokens: total == null ? sum : tokenCount(total) }
}
