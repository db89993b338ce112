// The reply to a text prompt: what the model writes, as it writes it.
import { GraphmillError } from '../../errors.ts'
import type { CallEnd } from './calls.ts'
import { brokenOff } from './incompleteness.ts'
import { maxPart, nothing, type ReplyEvent, type ReplyStream, type RunContext, unpaid } from './reply.ts'

export async function* hearText({ calls, request, terms }: RunContext): ReplyStream {
  const call = calls.open(request(terms), 'first')
  let reasoned = false
  let blank = true
  let end: CallEnd | undefined
  try {
    for await (const event of call.events) {
      if (event.type === 'end') end = { ...event, reasoned }
      else if (event.kind === 'reasoning') {
        reasoned = true
        call.hear(event.text, 'reasoning')
      } else {
        call.hear(event.text)
        blank &&= event.text.trim() === ''
        yield [...slices(event.text)]
      }
    }
  } catch (thrown) {
    call.fail(thrown)
    yield [{ type: 'end', end: unpaid(thrown, calls) }]
    return
  }
  if (!end) throw new GraphmillError('llm_response_invalid', 'The reply had no end.')
  call.end(end)
  const { finishReason, model } = end
  const cause = brokenOff(finishReason)
  const truncated = finishReason === 'length' || cause !== undefined
  if (finishReason === 'length' && blank && reasoned)
    throw new GraphmillError(
      'reasoning_too_long',
      'The model spent its whole output limit thinking, and wrote nothing.',
    )
  if (!blank && (finishReason === 'length' || finishReason === 'stop')) calls.keep()
  const incomplete = truncated ? 'truncated' : finishReason === 'content_filter' ? 'refused' : undefined
  const known = { finishReason, model, truncated, incomplete, cause }
  yield [{ type: 'end', end: { ...nothing, ...known, usage: calls.usage(), spent: calls.spent() } }]
}

/** Pieces that fit a part; a surrogate pair stays whole. */
function* slices(text: string): Generator<ReplyEvent> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + maxPart, text.length)
    const code = text.charCodeAt(end - 1)
    if (end < text.length && code >= 0xd800 && code < 0xdc00) end--
    yield { type: 'text', text: text.slice(at, end) }
    at = end
  }
}
