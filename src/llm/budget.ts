// A limit of what the calls of a process may cost. A call is admitted when what was spent, what the calls in work are
// expected to cost, and what this one is expected to cost, all fit; while calls in work stand against it, it waits for them.
import { GraphmillError } from '../errors.ts'
import { estimateTokens } from './governed.ts'
import type { CompletionRequest, Usage } from './llm.ts'
import { costOf, type Price } from './prices.ts'
import { unlessAborted } from './unless-aborted.ts'

export interface Budget {
  /** What was spent so far; where the server reports no tokens, what was expected. */
  readonly spent: number
  /**
   * Resolves when the call may be made. Throws `cost_limit_reached` for one that might cost too much, and the signal's
   * reason when it aborts.
   */
  admit(request: CompletionRequest, signal: AbortSignal): Promise<Admission>
}

export interface Admission {
  /** The call is over: what it used, and how many characters it wrote. Only the first word counts. */
  settle(usage: Usage, characters: number): void
}

const charactersPerToken = 3.5
/** Until a reply tells better, it is so much of its prompt. */
const firstGuess = 0.25
/** Replies may be longer than the usual one. */
const margin = 1.2

export function createBudget({
  maxCost,
  price,
}: {
  readonly maxCost: number
  readonly price: Price
}): Budget {
  let spent = 0
  let expected = 0
  let written = 0
  let calls = 0
  let open = 0
  let settled = Promise.withResolvers<void>()

  function guess({ messages, sampling }: CompletionRequest): Tokens {
    const promptTokens = estimateTokens({ messages })
    const usual = calls > 0 ? (margin * written) / calls : firstGuess * promptTokens
    return { promptTokens, completionTokens: Math.min(usual, sampling?.maxTokens ?? usual) }
  }

  const costIn = (tokens: Tokens) => costOf(tokens, price) ?? 0

  function enter(tokens: Tokens): Admission {
    const cost = costIn(tokens)
    let over = false
    expected += cost
    open++
    return {
      settle(usage, characters) {
        if (over) return
        over = true
        open--
        expected = open === 0 ? 0 : expected - cost
        const completionTokens = usage.completionTokens ?? characters / charactersPerToken
        spent += costIn({ promptTokens: usage.promptTokens ?? tokens.promptTokens, completionTokens })
        written += completionTokens
        calls++
        settled.resolve()
        settled = Promise.withResolvers()
      },
    }
  }

  return {
    get spent() {
      return spent
    },
    async admit(request, signal) {
      for (;;) {
        signal.throwIfAborted()
        const tokens = guess(request)
        // The first call goes alone: it tells how long replies are.
        const fits = spent + expected + costIn(tokens) <= maxCost && (calls > 0 || open === 0)
        if (fits) return enter(tokens)
        if (open === 0)
          throw new GraphmillError(
            'cost_limit_reached',
            `Another call might cost more than the limit of ${maxCost}.`,
          )
        await unlessAborted(settled.promise, signal)
      }
    },
  }
}

interface Tokens {
  readonly promptTokens: number
  readonly completionTokens: number
}
