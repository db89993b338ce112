// What the engine's ways of reading a reply have in common: what they are given, what they hear, and what is known at the end.
import { GraphmillError } from '../../errors.ts'
import type { CallReason } from '../../llm/cache/entry.ts'
import type { CompletionRequest, FinishReason, Usage } from '../../llm/llm.ts'
import type { ResolvedMode } from '../../llm/structured-output/modes.ts'
import type { RejectionInit } from '../../messages/generated.ts'
import type { Prompt } from '../catalogue/catalogue.ts'
import type { Terms } from '../catalogue/terms.ts'
import type { Calls } from './calls.ts'
import type { ItemsForm } from './items-form.ts'

/** How far a run may go. */
export interface RunLimits {
  /** How often a reply that stopped at the token limit is continued, unless the prompt says so itself. Default 3. */
  readonly maxContinuations: number
  /** Model calls of a run, those refused because the prompt did not fit not counted. Default 8. */
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
  readonly limits: RunLimits
  readonly signal: AbortSignal
}

/** The largest text of a part, in characters: with escapes and four-byte characters it still fits a message. */
export const maxPart = 170_000

/** A piece of a reply, in the order in which it became known. */
export type ReplyEvent =
  | { readonly type: 'text'; readonly text: string }
  /** `rejected`: how many were rejected before it. */
  | { readonly type: 'item'; readonly json: string; readonly rejected: number }
  | { readonly type: 'value'; readonly json: string }
  | { readonly type: 'end'; readonly end: ReplyEnd }

/** What is heard of a reply, as much at a time as became known together; never nothing. Throws what the model throws. */
export type ReplyStream = AsyncGenerator<readonly ReplyEvent[], void>

/** Tokens of calls of one kind; null where the server did not report them. */
export interface Spent {
  readonly reason: CallReason
  readonly model: string
  readonly calls: number
  readonly promptTokens: number | null
  readonly completionTokens: number | null
}

/** What is known of a reply when it is over. */
export interface ReplyEnd {
  readonly finishReason: FinishReason
  /** Of all calls of the run together, those that were remembered too. */
  readonly usage: Usage
  /** The same by reason and model. */
  readonly spent: readonly Spent[]
  readonly model: string
  /** The reply stayed cut off. */
  readonly truncated: boolean
  /** Why the reply counts as partial: see schemas/prompt-response.avsc. */
  readonly incomplete: string | undefined
  /** What kept it from being whole, where that is known. */
  readonly cause: { readonly type: string; readonly message: string } | undefined
  readonly accepted: number
  readonly rejected: number
  /** Of the rejected ones the first ten thousand. */
  readonly rejections: readonly RejectionInit[]
  /** All of them, by reason. */
  readonly rejectedBy: Readonly<Record<string, number>>
  readonly repaired: number
  readonly duplicates: number
  /** Of the accepted items the last so many were rejected at first, and came back valid when the model was asked again. */
  readonly reasked: number
  /** How JSON was asked for; undefined for a text. */
  readonly outputMode: ResolvedMode | undefined
}

/** An end without items. */
export const nothing = {
  accepted: 0,
  rejected: 0,
  rejections: [],
  rejectedBy: {},
  repaired: 0,
  duplicates: 0,
  reasked: 0,
  cause: undefined,
  outputMode: undefined,
} as const satisfies Partial<ReplyEnd>

/**
 * The end of a text or a value that was not asked for because of the cost limit: partial, for another time. Throws what else
 * was thrown.
 */
export function unpaid(thrown: unknown, calls: Calls): ReplyEnd {
  if (!(thrown instanceof GraphmillError) || thrown.code !== 'cost_limit_reached') throw thrown
  return {
    ...nothing,
    finishReason: 'stop',
    usage: calls.usage(),
    spent: calls.spent(),
    model: calls.model,
    truncated: true,
    incomplete: 'max_cost',
    cause: { type: thrown.code, message: thrown.message },
  }
}
