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

/** A call that may be made. Only the first word on how it ended counts. */
export interface Admission {
  /** The model has written so many more characters, thoughts among them. */
  hear(characters: number): void
  /** It came to its end, and this is what it used. */
  settle(usage: Usage): void
  /** It was refused or broke off: what was heard of it is paid for, and where that is nothing, it cost nothing. */
  giveUp(): void
}

const charactersPerToken = 3.5
/** A reply is expected to be so much of its prompt at least. */
const leastShare = 0.25
/** The next reply may be longer than any before. */
const margin = 1.2

interface OpenCall {
  /** Estimated from the request. */
  readonly promptTokens: number
  readonly maxTokens: number | undefined
  /** What the model has written of it. */
  characters: number
}

export function createBudget({
  maxCost,
  price,
}: {
  readonly maxCost: number
  readonly price: Price
}): Budget {
  let spent = 0
  let replies = 0
  /** Tokens of the longest reply so far. */
  let longest = 0
  /** How many tokens a prompt had where one was estimated, at most so far: there are languages with a token a character. */
  let density = 1
  const open = new Set<OpenCall>()
  let changed = Promise.withResolvers<void>()

  const cost = (promptTokens: number, completionTokens: number) =>
    costOf({ promptTokens, completionTokens }, price) ?? 0

  function expected({ promptTokens, maxTokens = Number.POSITIVE_INFINITY, characters }: OpenCall): number {
    const prompt = density * promptTokens
    const usual = Math.max(margin * longest, leastShare * prompt)
    return cost(prompt, Math.max(Math.min(usual, maxTokens), characters / charactersPerToken))
  }

  function fits(call: OpenCall): boolean {
    // The first call goes alone, and every reply makes room for one more: few replies tell little of how long the others are.
    if (open.size > replies) return false
    return [...open, call].reduce((sum, each) => sum + expected(each), spent) <= maxCost
  }

  function enter(call: OpenCall): Admission {
    open.add(call)

    function pay(usage: Usage): void {
      const completionTokens = usage.completionTokens ?? call.characters / charactersPerToken
      if (usage.promptTokens) density = Math.max(density, usage.promptTokens / call.promptTokens)
      spent += cost(usage.promptTokens ?? density * call.promptTokens, completionTokens)
      longest = Math.max(longest, completionTokens)
      replies++
    }

    function leave(usage: Usage | undefined): void {
      if (!open.delete(call)) return
      if (usage) pay(usage)
      changed.resolve()
      changed = Promise.withResolvers()
    }

    return {
      hear(characters) {
        call.characters += characters
      },
      settle: leave,
      giveUp: () => leave(call.characters > 0 ? unreported : undefined),
    }
  }

  return {
    get spent() {
      return spent
    },
    async admit(request, signal) {
      const { messages, sampling } = request
      const promptTokens = Math.max(1, estimateTokens({ messages }))
      const call = { promptTokens, maxTokens: sampling?.maxTokens, characters: 0 }
      for (;;) {
        signal.throwIfAborted()
        if (fits(call)) return enter(call)
        if (open.size === 0)
          throw new GraphmillError(
            'cost_limit_reached',
            `Another call might cost more than the limit of ${maxCost}.`,
          )
        await unlessAborted(changed.promise, signal)
      }
    },
  }
}

const unreported: Usage = { promptTokens: null, completionTokens: null, totalTokens: null }
