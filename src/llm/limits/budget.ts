// A limit on the cost of all calls of a process. A call is admitted when the money spent and the expected costs of this call and
// of those in flight fit together. When they do not, it waits for the calls in flight.

import { GraphmillError } from '../../errors.ts'
import { unlessAborted } from '../../wait.ts'
import type { CompletionEvent, CompletionRequest, Llm, Usage } from '../llm.ts'
import { charactersPerToken, estimateTokens } from './limited-stream.ts'
import { costOf, type Price, type Prices, priceOf } from './prices.ts'

export interface Budget {
  /** The cost so far; an expected one for calls whose tokens the server did not report. */
  readonly spent: number
  /** The same model within the limit. `stream` throws `cost_limit_reached` for a call that might exceed it. */
  limit(llm: Llm): Llm
}

/** The least share of its prompt that a reply is expected to have. */
const leastShare = 0.25
/** How much longer than all before the next reply may be. */
const margin = 1.2

export interface BudgetOptions {
  readonly maxCost: number
  readonly price: Price
}

interface OpenCall {
  /** Estimated from the request. */
  readonly promptTokens: number
  readonly maxTokens: number | undefined
  /** Of the reply so far. */
  characters: number
}

export function createBudget({ maxCost, price }: BudgetOptions): Budget {
  let spent = 0
  let replies = 0
  /** Tokens of the longest reply so far. */
  let longest = 0
  /** The highest ratio so far of a prompt's tokens to their estimate: some languages have a token a character. */
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
    // The first call runs alone, and every reply admits one more: a few replies tell little about the length of others.
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

  /** Settles an ended call, by the usage that the server reported, if any. */
  function leave(call: OpenCall, usage?: Usage): void {
    if (!open.delete(call)) return
    // A refused call has no reply, and costs nothing.
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

/** The model, limited to a cost. Throws `configuration_invalid` for an amount that is not above 0, and when the model has no price. */
export function withinCost(llm: Llm, maxCost: number, prices: Prices): Llm {
  // A model in this process costs nothing.
  if (llm.isLocal) return llm
  if (!(maxCost > 0))
    throw new GraphmillError('configuration_invalid', 'max-cost: must be an amount above 0.')
  const price = priceOf(llm.model, prices)
  if (!price)
    throw new GraphmillError(
      'configuration_invalid',
      `max-cost needs a price of ${llm.model}: --prices ${llm.model}=IN/OUT, per million tokens.`,
    )
  return createBudget({ maxCost, price }).limit(llm)
}
