// The reply to a json prompt: one checked value. A reply that cannot be used is asked for once more.
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../llm/llm.ts'
import { answerJson, type JsonAnswer } from '../../llm/structured-output/json-answer.ts'
import { type Calls, onlyThought, reasoningTooLong } from './calls.ts'
import { brokenOff, repetition } from './incompleteness.ts'
import { endAtCostLimit, endWithoutItems, maxPart, type ReplyStream, type RunContext } from './reply.ts'

/** The largest value as JSON text, in characters: it must fit one message. */
const maxValue = 2 * maxPart
/** A reply may say more than its value. */
const maxReply = 4 * maxValue

export async function* readJson({ calls, prompt, request, terms, note, signal }: RunContext): ReplyStream {
  let answer: JsonAnswer
  try {
    answer = await answerJson({
      ...request(terms),
      llm: calledThrough(calls),
      schema: prompt.jsonSchema,
      mode: prompt.outputMode,
      aid: calls.aid,
      onWay: (aid) => calls.startWith(aid),
      onNote: note,
      mayAsk: () => calls.left > 0,
      reask: calls.left > 1 ? 1 : 0,
      maxCharacters: maxReply,
      signal,
    })
  } catch (thrown) {
    yield [{ type: 'end', end: endAtCostLimit(thrown, calls) }]
    return
  }
  const json = JSON.stringify(answer.value)
  if (json.length > maxValue)
    throw new GraphmillError('reply_not_json', `The value is longer than ${maxValue} characters.`)
  const { finishReason, model, outputMode, repairs, repeats } = answer
  const broken = brokenOff(finishReason)
  if (!broken) calls.keep()
  const cause = repeats ? repetition : broken
  const truncated = finishReason === 'length' || cause !== undefined
  const incomplete = repeats ? repetition.type : truncated ? 'truncated' : undefined
  const known = {
    finishReason,
    model,
    outputMode,
    truncated,
    incomplete,
    cause,
    accepted: 1,
    repaired: repairs.length > 0 ? 1 : 0,
  }
  yield [
    { type: 'value', json },
    { type: 'end', end: endWithoutItems(calls, known) },
  ]
}

/** The run's model, each of its calls counted and remembered. */
function calledThrough(calls: Calls): Llm {
  async function* stream(request: CompletionRequest): AsyncGenerator<CompletionEvent> {
    const call = calls.open(request, calls.spent().length === 0 ? 'first' : 'reask')
    let failed = false
    try {
      for await (const event of call.events) {
        calls.count(call, event)
        if (onlyThought(call)) throw reasoningTooLong()
        yield event
      }
    } catch (thrown) {
      failed = true
      calls.fail(call, thrown)
      throw thrown
    } finally {
      // A reader that has enough leaves early.
      if (!failed) calls.close(call)
    }
  }
  return { ...calls.llm, stream }
}
