// The reply to a json prompt: one checked value. An unusable reply is asked for once more; then that is the end of it.
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../llm/llm.ts'
import { answerJson, type JsonAnswer } from '../../llm/structured-output/json-answer.ts'
import { withoutServer } from '../../llm/structured-output/path.ts'
import { type Calls, noUsage } from './calls.ts'
import { brokenOff } from './incompleteness.ts'
import { maxPart, nothing, type ReplyStream, type RunContext, unpaid } from './reply.ts'

/** The largest value as JSON text, in characters: it must fit one message. */
const maxValue = 2 * maxPart

export async function* hearJson({ calls, prompt, request, terms, signal }: RunContext): ReplyStream {
  let answer: JsonAnswer
  try {
    answer = await answerJson({
      ...request(terms),
      llm: calledThrough(calls),
      schema: prompt.jsonSchema,
      mode: prompt.outputMode,
      unaided: calls.unaided,
      reask: calls.left > 1 ? 1 : 0,
      maxCharacters: maxReply,
      signal,
    })
  } catch (thrown) {
    yield [{ type: 'end', end: unpaid(thrown, calls) }]
    return
  }
  const json = JSON.stringify(answer.value)
  if (json.length > maxValue)
    throw new GraphmillError('reply_not_json', `The value is longer than ${maxValue} characters.`)
  calls.unaided = withoutServer(answer.outputMode) === answer.outputMode
  const { finishReason, model, outputMode } = answer
  const cause = brokenOff(finishReason)
  if (!cause) calls.keep()
  const truncated = finishReason === 'length' || cause !== undefined
  const known = {
    finishReason,
    model,
    outputMode,
    truncated,
    incomplete: truncated ? 'truncated' : undefined,
    cause,
  }
  yield [
    { type: 'value', json },
    {
      type: 'end',
      end: { ...nothing, ...known, accepted: 1, usage: calls.usage(), spent: calls.spent() },
    },
  ]
}

/** A reply may say more than its value. */
const maxReply = 4 * maxValue

/** The run's model, each of its calls counted and remembered. */
function calledThrough(calls: Calls): Llm {
  async function* stream(request: CompletionRequest): AsyncGenerator<CompletionEvent> {
    const call = calls.open(request, calls.spent().length === 0 ? 'first' : 'reask')
    let reasoned = false
    let blank = true
    let over = false
    try {
      for await (const event of call.events) {
        if (event.type === 'delta') {
          reasoned ||= event.kind === 'reasoning'
          call.hear(event.text, event.kind)
          if (event.kind === 'content') blank &&= event.text.trim() === ''
        } else {
          over = true
          call.end({ ...event, reasoned })
          if (event.finishReason === 'length' && blank && reasoned)
            throw new GraphmillError(
              'reasoning_too_long',
              'The model spent its whole output limit thinking, and wrote nothing.',
            )
        }
        yield event
      }
    } catch (thrown) {
      over = true
      call.fail(thrown)
      throw thrown
    } finally {
      // Its reader has had enough of it.
      if (!over) call.end({ finishReason: 'length', usage: noUsage, model: calls.llm.model, reasoned })
    }
  }
  return { ...calls.llm, stream }
}
