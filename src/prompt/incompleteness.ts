// Why a reply with items counts as partial, if it does. An empty reply is honest only where the model stopped by itself and
// wrote nothing, or an empty list.
import type { FinishReason } from '../llm/llm.ts'

/** Characters at the beginning of a reply that are looked at. */
export const refusalLength = 200

const refusal =
  /^\W*(i(['’]?m| am) sorry|sorry|i can(no|['’])t|i (am|['’]?m) (unable|not able)|i['’]?m (unable|not able)|as an ai\b)/i

export function incompleteness(reply: {
  readonly finishReason: FinishReason
  readonly truncated: boolean
  readonly empty: boolean
  readonly opening: string
  /** Items, accepted or rejected. */
  readonly found: number
  readonly cause: { readonly type: string } | undefined
}): string | undefined {
  if (reply.cause?.type === 'cost_limit_reached') return 'max_cost'
  if (reply.finishReason === 'content_filter') return 'refused'
  if (reply.truncated) return 'truncated'
  if (reply.found > 0 || reply.empty) return undefined
  return refusal.test(reply.opening) ? 'refused' : 'no_items'
}
