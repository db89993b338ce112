// `extract --dry-run`: the same flow with a prompt processor that calls no model, adds up what the calls would cost, and replies
// with an empty list.

import { defineProcessor } from '../flow/processor.ts'
import { runKey } from '../llm/cache/run-key.ts'
import { charactersPerToken, estimateTokens } from '../llm/limits/limited-stream.ts'
import { costOf, type Price } from '../llm/limits/prices.ts'
import { decodeTerms } from '../prompt/catalogue/terms.ts'
import { chooseForm } from '../prompt/engine/items-form.ts'
import { cacheKeyRequest } from '../prompt/engine/request.ts'

export interface Estimate {
  requests: number
  /** Requests whose replies are cached; they cost nothing, and their tokens are not counted. */
  remembered: number
  promptTokens: number
  /** An estimate: as many as the text of the chunk has. */
  completionTokens: number
}

export function newEstimate(): Estimate {
  return { requests: 0, remembered: 0, promptTokens: 0, completionTokens: 0 }
}

/** A prompt processor that adds to `estimate`. */
export function estimator(estimate: Estimate) {
  return defineProcessor({
    name: 'prompt',
    inputs: ['prompt', 'prompt-live'],
    outputs: ['reply'],
    maxInFlight: 256,

    async *handle({ payload }, { prompts, ids, clock, llm, replies, scope, signal }) {
      const { promptId, context } = payload
      const terms = decodeTerms(payload.terms)
      const prompt = prompts.get(promptId)
      const {
        ways: [{ mode: form }],
      } = await chooseForm(prompt, llm, signal)
      const request = cacheKeyRequest(prompt, terms, llm, form)
      const remembered = await replies?.get(runKey(scope.workspace, llm, request))
      estimate.requests++
      if (remembered?.form !== undefined) estimate.remembered++
      else {
        const { text } = terms
        estimate.promptTokens += estimateTokens({ messages: request.messages })
        estimate.completionTokens +=
          typeof text === 'string' ? Math.ceil(text.length / charactersPerToken) : 0
      }
      const run = { id: ids.next(), startedAt: clock.now() }
      yield { to: 'reply', payload: { promptId, run, object: '[]', context } }
    },
  })
}

/** The output of `--dry-run --json`; the cost is null if the model has no price. */
export function estimateRow(estimate: Estimate, chunks: number, price: Price | undefined): object {
  return { chunks, ...estimate, cost: costOf(estimate, price) }
}

/** The output of `--dry-run`; without the cost if the model has no price. */
export function estimateLines(estimate: Estimate, chunks: number, price: Price | undefined): string[] {
  const { requests, remembered, promptTokens, completionTokens } = estimate
  const cost = costOf(estimate, price)
  return [
    `chunks     ${chunks}`,
    `requests   ${requests}${remembered > 0 ? `, ${remembered} of them cached` : ''}`,
    `tokens     about ${promptTokens} in, ${completionTokens} out`,
    ...(cost === null ? [] : [`cost       about ${cost.toFixed(4)}`]),
  ]
}
