// The records of Ollama's stream, as events. A metric of zero is absent from the last record.
import { isObject } from '../../is-object.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError, type ProviderError, serverError, unexpectedAnswer } from '../provider-error.ts'
import { createPairing } from '../surrogate-pairs.ts'
import type { Peer } from '../transport.ts'
import { tokenCount, usageOf } from '../usage.ts'
import { recoded } from './error.ts'

export interface RecordContext {
  /** The model that was asked for. */
  readonly model: string
  /** The context length that was asked for, in tokens. */
  readonly numCtx: number
  readonly peer: Peer
  /** Called for faults that do no harm. */
  readonly warn: (message: string) => void
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Turns records into events, in order. The record with `done` gives the end. Throws the error of a record with `error`,
 * `context_overflow` when the prompt did not fit and was cut, and `llm_response_invalid` for what is no record of Ollama's.
 */
export function recordReader(context: RecordContext): (record: unknown) => CompletionEvent[] {
  const { peer, warn } = context
  const onLone = () => warn(`${peer.destination} sent half of a character.`)
  const pairings = { reasoning: createPairing(onLone), content: createPairing(onLone) }
  let calledTools = false

  return (record) => {
    if (!isObject(record)) throw notOllama(peer, JSON.stringify(record))
    if (record['error']) throw recoded(embeddedError(record['error'], peer))
    // /api/chat has a message, /api/generate its fields beside the others.
    const message = isObject(record['message']) ? record['message'] : undefined
    const content = message ? message['content'] : record['response']
    if (!message && typeof content !== 'string' && record['done'] !== true)
      throw notOllama(peer, JSON.stringify(record))
    calledTools ||= Array.isArray(message?.['tool_calls']) && message['tool_calls'].length > 0
    const done = record['done'] === true
    const texts = { reasoning: (message ?? record)['thinking'], content }
    const events = (['reasoning', 'content'] as const).flatMap((kind): CompletionEvent[] => {
      const part = texts[kind]
      const text =
        pairings[kind].join(typeof part === 'string' ? part : '') + (done ? pairings[kind].end() : '')
      return text === '' ? [] : [{ type: 'delta', kind, text }]
    })
    return done ? [...events, endOf(record, calledTools, context)] : events
  }
}

function endOf(
  record: Fields,
  calledTools: boolean,
  { model, numCtx, peer }: RecordContext,
): CompletionEvent {
  const usage = reportedUsage(record)
  const { promptTokens } = usage
  // A prompt that fits leaves room for a reply: one that fills the context was cut.
  if (promptTokens !== null && promptTokens >= numCtx)
    throw serverError('context_overflow', peer, `cut the prompt to its context of ${numCtx} tokens.`, {
      details: { promptTokens, numCtx },
    })
  const named = record['model']
  return {
    type: 'end',
    finishReason: finishReason(record['done_reason'], calledTools),
    usage,
    model: typeof named === 'string' && named !== '' ? named : model,
    raw: record,
  }
}

/** `load` and `unload` mean that nothing was generated, and no reason that the model's connection closed: all are errors. */
function finishReason(reported: unknown, calledTools: boolean): FinishReason {
  if (reported === 'length') return 'length'
  if (reported === 'stop') return calledTools ? 'tool_calls' : 'stop'
  return 'error'
}

const metrics = ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration']

/**
 * The `eval_count` of an empty reply is absent, so it counts as 0 when any metric was reported. A prompt never has 0 tokens:
 * without `prompt_eval_count` it came from the server's cache, and its size is unknown.
 */
function reportedUsage(record: Fields): Usage {
  const promptTokens = tokenCount(record['prompt_eval_count'])
  const isMeasured = promptTokens !== null || metrics.some((name) => tokenCount(record[name]) !== null)
  const count = record['eval_count']
  return usageOf(promptTokens, count === undefined && isMeasured ? 0 : tokenCount(count))
}

/** The error for an answer that is not Ollama's. */
export function notOllama(peer: Peer, answer: string, cause?: unknown): ProviderError {
  return unexpectedAnswer(peer, "is not Ollama's", answer, cause)
}
