// What the ways to read a reply have in common: what they are given, the events that they report, and what is known at the end.
import type { ResolvedMode } from '../../config/models.ts'
import { GraphmillError } from '../../errors.ts'
import type { CompletionRequest, FinishReason, Usage } from '../../llm/llm.ts'
import type { GroundingInit, RejectionInit } from '../../messages/generated.ts'
import type { Prompt } from '../catalogue/prompt.ts'
import type { Terms } from '../catalogue/terms.ts'
import type { Calls, Spent } from './calls.ts'
import type { ItemJudge } from './examples.ts'
import type { ItemsForm } from './items-form.ts'

/** How far a run may go. */
export interface RunLimits {
  /** How often a reply that stopped at the token limit is continued, unless the prompt says so itself. Default 3. */
  readonly maxContinuations: number
  /** Model calls of a run; calls that were refused because the prompt did not fit are not counted. Default 8. */
  readonly maxCalls: number
}

export const defaultLimits: RunLimits = { maxContinuations: 3, maxCalls: 8 }

/** What a reply is read with. */
export interface RunContext {
  readonly prompt: Prompt
  readonly terms: Terms
  /** For jsonl prompts. */
  readonly form: ItemsForm
  /** The first request of a run about these terms. */
  readonly request: (terms: Terms) => CompletionRequest
  readonly calls: Calls
  /** For jsonl prompts with a text. */
  readonly judge: ItemJudge | undefined
  readonly limits: RunLimits
  /** Takes what the operator may want to know about how the model is asked. */
  readonly note: (text: string) => void
  readonly signal: AbortSignal
}

/** The largest text of a reply part, in characters: with escapes and four-byte characters it still fits a message. */
export const maxPart = 170_000

/** A piece of a reply, in the order in which it became known. */
export type ReplyEvent =
  | { readonly type: 'text'; readonly text: string }
  /** `rejected`: how many were rejected before it. */
  | {
      readonly type: 'item'
      readonly json: string
      readonly rejected: number
      readonly grounding?: GroundingInit | undefined
    }
  | { readonly type: 'value'; readonly json: string }
  | { readonly type: 'end'; readonly end: ReplyEnd }

/** The events of a reply, as many at a time as became known together; never none. Throws what the model throws. */
export type ReplyStream = AsyncGenerator<readonly ReplyEvent[], void>

/** Why a reply is not whole: a code of the table of errors. */
export interface IncompleteCause {
  readonly type: string
  readonly message: string
}

/** What is known of a reply when it is over. */
export interface ReplyEnd {
  readonly finishReason: FinishReason
  /** All calls of the run together, remembered ones included. */
  readonly usage: Usage
  /** The same by reason and model. */
  readonly spent: readonly Spent[]
  readonly model: string
  /** The reply stayed cut off. */
  readonly truncated: boolean
  /** Why the reply counts as partial: see schemas/prompt-response.avsc. */
  readonly incomplete: string | undefined
  /** What kept it from being whole, when that is known. */
  readonly cause: IncompleteCause | undefined
  readonly accepted: number
  readonly rejected: number
  /** The first ten thousand of the rejected ones. */
  readonly rejections: readonly RejectionInit[]
  /** The counts of all rejected ones, by reason. */
  readonly rejectedBy: Readonly<Record<string, number>>
  readonly repaired: number
  readonly duplicates: number
  /** How many accepted items were rejected at first and came back valid when the model was asked again. They come last. */
  readonly reasked: number
  /** How JSON was asked for; undefined for a text. */
  readonly outputMode: ResolvedMode | undefined
}

/** The end of a reply without items, as far as `known` does not say otherwise. */
export function endWithoutItems(
  calls: Calls,
  known: Pick<ReplyEnd, 'finishReason' | 'model' | 'truncated' | 'incomplete'> & Partial<ReplyEnd>,
): ReplyEnd {
  return {
    accepted: 0,
    rejected: 0,
    rejections: [],
    rejectedBy: {},
    repaired: 0,
    duplicates: 0,
    reasked: 0,
    cause: undefined,
    outputMode: undefined,
    usage: calls.usage(),
    spent: calls.spent(),
    ...known,
  }
}

/**
 * The end of a text or a value that was not asked for because of the cost limit: it is partial, and may be asked for another
 * time. Throws anything else that was thrown.
 */
export function endAtCostLimit(thrown: unknown, calls: Calls): ReplyEnd {
  if (!(thrown instanceof GraphmillError) || thrown.code !== 'cost_limit_reached') throw thrown
  return endWithoutItems(calls, {
    finishReason: 'stop',
    model: calls.model,
    truncated: true,
    incomplete: 'max_cost',
    cause: { type: thrown.code, message: thrown.message },
  })
}
