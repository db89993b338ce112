// The text-completion processor gives access to the model by a topic: it passes a TextCompletionRequest to the model, and answers
// on the reply topic in parts while the model writes. A reply that must fit a schema is checked before it is sent.
import { GraphmillError } from '../src/errors.ts'
import { completionReply, isForeign, reformed } from '../src/flow/foreign-replies.ts'
import { type Context, defineProcessor, type Outputs } from '../src/flow/processor.ts'
import { isObject } from '../src/is-object.ts'
import type { CompletionRequest, JsonSchema, Llm } from '../src/llm/llm.ts'
import { answerJson } from '../src/llm/structured-output/json-answer.ts'
import { jsonFormatOf } from '../src/llm/structured-output/modes.ts'
import type { Message } from '../src/messages/envelope.ts'
import type { TextCompletionRequest, TextCompletionResponseInit } from '../src/messages/generated.ts'
import { coalesce, collect } from '../src/prompt/engine/coalesce.ts'
import { maxPart } from '../src/prompt/engine/reply.ts'
import { textPieces } from '../src/prompt/engine/text-reply.ts'

export const textCompletion = defineProcessor({
  name: 'text-completion',
  inputs: ['text-completion'],
  outputs: ['text-reply'],
  maxInFlight: 128,

  async *handle(message: Message<'TextCompletionRequest'>, context: Context): Outputs<'text-reply'> {
    const { payload } = message
    const parts = payload.operation === 'completion' ? complete(payload, context) : perform(payload, context)
    yield* isForeign(message) ? reformed(parts, 'text-reply', (all) => completionReply(all, payload)) : parts
  },

  async *onDead(message, error, context) {
    yield {
      to: 'text-reply',
      payload: {
        run: newRun(context),
        endOfStream: true,
        error: { type: error.code, message: error.message },
        context: error.code === 'context_too_large' ? {} : message.payload.context,
      },
    }
  },
})

const newRun = ({ ids, clock }: Context) => ({ id: ids.next(), startedAt: clock.now() })

async function* complete(payload: TextCompletionRequest, context: Context): Outputs<'text-reply'> {
  const { streaming, schema, context: echo } = payload
  const run = newRun(context)
  const inParts = streaming && schema === null ? coalesce : collect
  let seq = 0
  for await (const batch of inParts(answer(payload, context), ({ text }) => text.length, maxPart)) {
    const response = batch.map(({ text }) => text).join('')
    const end = batch.at(-1)?.end
    const replyPart = { run, seq: seq++, response, endOfStream: end !== undefined, ...end, context: echo }
    await (yield { to: 'text-reply', payload: replyPart })
  }
}

/** An operation other than `completion`. */
async function* perform(payload: TextCompletionRequest, context: Context): Outputs<'text-reply'> {
  const { operation, context: echo } = payload
  const { llm, signal } = context
  const reply = { run: newRun(context), endOfStream: true, context: echo }
  if (operation === 'list-models' && llm.listModels) {
    const listed = await llm.listModels(signal)
    const models = listed.length > 0 ? listed : [llm.model]
    const described = models.map((id) => JSON.stringify({ ...unknownModel, id }))
    yield { to: 'text-reply', payload: { ...reply, models: described } }
    return
  }
  const error = { type: 'not-implemented', message: `The operation "${operation}" is not implemented.` }
  yield { to: 'text-reply', payload: { ...reply, error } }
}

/** A model of which nothing but its id is known, as TrustGraph describes it. */
const unknownModel = {
  ...{ id: '', name: null, owned_by: null, created: null, description: null },
  ...{ context_length: null, max_output_length: null },
  ...{ input_modalities: [], output_modalities: [], supported_features: [] },
  ...{ input_price: null, output_price: null },
  ...{ family: null, parameter_size: null, quantization: null, format: null },
}

/** A piece of a reply, at most `maxPart` characters long. The last one has `end`. */
interface Piece {
  readonly text: string
  readonly end?: Pick<TextCompletionResponseInit, 'finishReason' | 'usage' | 'model' | 'outputMode'>
}

async function* answer(asked: TextCompletionRequest, { llm, signal }: Context): AsyncGenerator<Piece[]> {
  const schema = asked.schema === null ? undefined : objectOf('schema', asked.schema)
  const request = requestOf(asked, llm)
  if (schema) {
    const { value, finishReason, usage, model, outputMode } = await answerJson({
      ...request,
      llm,
      // Any JSON fits an empty schema.
      schema: Object.keys(schema).length > 0 ? schema : undefined,
      // The caller's own format is kept. The schema is then a part of the system message.
      mode: request.extras ? 'fallback' : undefined,
      signal,
    })
    yield [
      ...textPieces(JSON.stringify(value)),
      { text: '', end: { finishReason, usage, model, outputMode } },
    ]
    return
  }
  for await (const event of llm.stream(request, signal)) {
    if (event.type === 'end') {
      const { finishReason, usage, model } = event
      yield [{ text: '', end: { finishReason, usage, model } }]
    } else if (event.kind === 'content') yield [...textPieces(event.text)]
  }
}

function requestOf({ system, prompt, responseFormat }: TextCompletionRequest, llm: Llm): CompletionRequest {
  const format = responseFormat === null ? undefined : objectOf('responseFormat', responseFormat)
  return {
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: prompt },
    ],
    ...(llm.sampling && { sampling: llm.sampling }),
    ...(format && { extras: jsonFormatOf(llm)?.translate(format) ?? {} }),
  }
}

function objectOf(field: 'schema' | 'responseFormat', text: string): JsonSchema {
  const code = field === 'schema' ? 'schema_invalid' : 'message_invalid'
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new GraphmillError(code, `The field ${field} is not JSON: ${(cause as Error).message}.`, { cause })
  }
  if (isObject(value)) return value as JsonSchema
  throw new GraphmillError(code, `The field ${field} is not a JSON object.`)
}
