// Why a reply of items counts as partial, if it does. An empty reply is honest only when the model stopped by itself and wrote
// nothing, or an empty list. A reply with items is complete only when one of them was accepted.
import type { FinishReason } from '../../llm/llm.ts'
import { isRefusalOfModel } from '../../llm/refusal-words.ts'
import type { IncompleteCause } from './reply.ts'

/** Why a call that ended did not end properly; undefined when it did. */
export function brokenOff(finishReason: FinishReason): IncompleteCause | undefined {
  if (finishReason !== 'error') return undefined
  return {
    type: 'llm_response_invalid',
    message: 'The server ended the reply for a reason that is an error, or that is unknown.',
  }
}

/** The model was stopped because it repeated itself. */
export const repetition = {
  type: 'repetition',
  message: 'The model repeated itself without end, and was stopped.',
} as const satisfies IncompleteCause

/** Characters at the beginning of a reply that are searched for a refusal. */
export const refusalLength = 200

export function incompleteness(reply: {
  readonly finishReason: FinishReason
  readonly truncated: boolean
  readonly empty: boolean
  readonly opening: string
  /** Items that were accepted before the model marked them as thoughts, and that the answer did not repeat. */
  readonly thoughts: number
  readonly accepted: number
  readonly rejected: number
  readonly cause: { readonly type: string } | undefined
}): string | undefined {
  if (reply.cause?.type === 'cost_limit_reached') return 'max_cost'
  if (reply.finishReason === 'content_filter') return 'refused'
  if (reply.truncated) return reply.cause?.type === repetition.type ? repetition.type : 'truncated'
  if (reply.thoughts > 0) return 'thoughts'
  if (reply.accepted > 0) return undefined
  if (reply.rejected > 0) return 'no_facts'
  if (reply.empty) return undefined
  return isRefusalOfModel(reply.opening) ? 'refused' : 'no_items'
}
