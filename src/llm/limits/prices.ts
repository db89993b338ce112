// What tokens cost, by the configuration: graphmill knows no prices of its own. Without a price the cost is unknown, never 0.
import { GraphmillError } from '../../errors.ts'

/** Per million tokens, in any currency. */
export interface Price {
  readonly prompt: number
  readonly completion: number
}

export type Prices = ReadonlyMap<string, Price>

/**
 * Prices from `MODEL=PROMPT/COMPLETION`, per million tokens. Throws `configuration_invalid`.
 * @example readPrices(['gpt-4o-mini=0.15/0.60'])
 */
export function readPrices(given: readonly string[]): Prices {
  return new Map(
    given.map((text) => {
      const [, model, prompt, completion] = /^(.+?)\s*=\s*([\d.]+)\/([\d.]+)$/.exec(text.trim()) ?? []
      const price = { prompt: Number(prompt), completion: Number(completion) }
      if (!model || !Number.isFinite(price.prompt) || !Number.isFinite(price.completion))
        throw new GraphmillError(
          'configuration_invalid',
          `prices: must be MODEL=PROMPT/COMPLETION in numbers per million tokens, not ${JSON.stringify(text)}.`,
        )
      return [model.trim(), price]
    }),
  )
}

/**
 * The price of a model by its name, else by the longest name without a date or version that has one: `gpt-4.1-2025-04-14` is
 * looked up as `gpt-4.1-2025-04`, `gpt-4.1-2025` and `gpt-4.1` too.
 */
export function priceOf(model: string, prices: Prices): Price | undefined {
  const price = prices.get(model)
  const shorter = /^(.+)[-:@](?:v?\d[\d.]*|latest)$/.exec(model)?.[1]
  return price ?? (shorter === undefined ? undefined : priceOf(shorter, prices))
}

/** What tokens cost; null if the price or a count is unknown. */
export function costOf(
  tokens: { readonly promptTokens: number | null; readonly completionTokens: number | null },
  price: Price | undefined,
): number | null {
  const { promptTokens, completionTokens } = tokens
  if (!price || promptTokens === null || completionTokens === null) return null
  return (promptTokens * price.prompt + completionTokens * price.completion) / 1_000_000
}
