// A limit of what the calls of a process may cost. A call is admitted when what was spent, what the calls in work are
// expected to cost, and what this one is expected to cost, all fit; while calls in work stand against it, it waits for them.
import { GraphmillError } from '../../errors.ts'
import { unlessAborted } from '../../wait.ts'
import type { CompletionEvent, CompletionRequest, Llm, Usage } from '../llm.ts'
import { estimateTokens } from './limited-stream.ts'
import { costOf, type Price } from './prices.ts'

export interface Budget {
  /** What was spent so far; where the server reports no tokens, what was expected. */
  readonly spent: number
  /**
   * The same model, with every call waiting until it may be made. `stream` throws `cost_limit_reached` for a call that might
   * cost too much.
   */
  limit(llm: Llm): Llm
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

  /** Resolves when the call may be made. */
  async function admit(call: OpenCall, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted()
      if (fits(call)) break
      if (open.size === 0)
        throw new GraphmillError(
          'cost_limit_reached',
          `Another call might cost more than the limit of ${maxCost}.`,
        )
      await unlessAborted(changed.promise, signal)
    }
    open.add(call)
  }

  /** The call is over, however it ended: with what the server reports, where it came to its end. */
  function leave(call: OpenCall, usage?: Usage): void {
    if (!open.delete(call)) return
    // Of a call that was refused nothing is heard, and it cost nothing.
    if (usage || call.characters > 0) {
      const completionTokens = usage?.completionTokens ?? call.characters / charactersPerToken
      if (usage?.promptTokens) density = Math.max(density, usage.promptTokens / call.promptTokens)
      spent += cost(usage?.promptTokens ?? density * call.promptTokens, completionTokens)
      longest = Math.max(longest, completionTokens)
      replies++
    }
    changed.resolve()
    changed = Promise.withResolvers()
  }

  return {
    get spent() {
      return spent
    },
    limit(llm) {
      async function* stream(
        request: CompletionRequest,
        signal: AbortSignal,
      ): AsyncGenerator<CompletionEvent> {
        const { messages, sampling } = request
        const promptTokens = Math.max(1, estimateTokens({ messages }))
        const call: OpenCall = { promptTokens, maxTokens: sampling?.maxTokens, characters: 0 }
        await admit(call, signal)
        try {
          for await (const event of llm.stream(request, signal)) {
            if (event.type === 'end') leave(call, event.usage)
            else call.characters += event.text.length
            yield event
          }
        } finally {
          leave(call)
        }
      }
      return { ...llm, stream, ready: (signal) => llm.ready(signal) }
    },
  }
}
