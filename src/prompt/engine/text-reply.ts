// The reply to a text prompt: what the model writes, as it writes it.
import { GraphmillError } from '../../errors.ts'
import { onlyThought, reasoningTooLong } from './calls.ts'
import { brokenOff } from './incompleteness.ts'
import { endAtCostLimit, endWithoutItems, maxPart, type ReplyStream, type RunContext } from './reply.ts'

export async function* readText({ calls, request, terms }: RunContext): ReplyStream {
  const call = calls.open(request(terms), 'first')
  try {
    for await (const event of call.events) {
      const text = calls.count(call, event)
      if (text !== '') yield Array.from(textPieces(text), (piece) => ({ type: 'text', ...piece }))
    }
  } catch (thrown) {
    calls.fail(call, thrown)
    yield [{ type: 'end', end: endAtCostLimit(thrown, calls) }]
    return
  }
  if (!call.end) throw new GraphmillError('llm_response_invalid', 'The reply had no end.')
  if (onlyThought(call)) throw reasoningTooLong()
  const { finishReason, model } = call.end
  const cause = brokenOff(finishReason)
  const truncated = finishReason === 'length' || cause !== undefined
  if (!call.isBlank && (finishReason === 'length' || finishReason === 'stop')) calls.keep()
  const incomplete = truncated ? 'truncated' : finishReason === 'content_filter' ? 'refused' : undefined
  yield [{ type: 'end', end: endWithoutItems(calls, { finishReason, model, truncated, incomplete, cause }) }]
}

/** Pieces of a text that fit a reply part. A surrogate pair is not split. */
export function* textPieces(text: string): Generator<{ readonly text: string }> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + maxPart, text.length)
    const code = text.charCodeAt(end - 1)
    if (end < text.length && code >= 0xd800 && code < 0xdc00) end--
    yield { text: text.slice(at, end) }
    at = end
  }
}
