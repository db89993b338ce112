// One record of Ollama's stream, as events. The metrics of the last record are absent where they are zero.
import { isObject } from '../../is-object.ts'
import { redactCut } from '../../redact.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError, providerError } from '../provider-error.ts'
import { createPairing } from '../surrogate-pairs.ts'
import type { Peer } from '../transport.ts'
import { recoded } from './error.ts'

export interface RecordContext {
  /** The model that was asked for. */
  readonly model: string
  /** The context length that was asked for, in tokens. */
  readonly numCtx: number
  readonly peer: Peer
  /** Told of oddities that cost nothing. */
  readonly warn: (message: string) => void
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Turns records into events, in order; one that says `done` gives the end. Throws what a record with an `error` stands for,
 * `context_overflow` when the prompt did not fit and lost a part, `llm_response_invalid` for what is no record of Ollama's.
 */
export function recordReader(context: RecordContext): (record: unknown) => CompletionEvent[] {
  const { peer, warn } = context
  const onLone = () => warn(`${peer.destination} sent half of a character.`)
  const pairings = { reasoning: createPairing(onLone), content: createPairing(onLone) }
  let calledTools = false

  return (record) => {
    if (!isObject(record)) throw notOllama(peer, JSON.stringify(record))
    if (record['error']) throw recoded(embeddedError(record['error'], peer.destination, peer.circuit))
    // /api/chat has a message, /api/generate its fields beside the others.
    const message = isObject(record['message']) ? record['message'] : undefined
    const content = message ? message['content'] : record['response']
    if (!message && typeof content !== 'string' && record['done'] !== true)
      throw notOllama(peer, JSON.stringify(record))
    calledTools ||= Array.isArray(message?.['tool_calls']) && message['tool_calls'].length > 0
    const done = record['done'] === true
    const texts = { reasoning: (message ?? record)['thinking'], content }
    const events = (['reasoning', 'content'] as const).flatMap((kind): CompletionEvent[] => {
      const said = texts[kind]
      const text =
        pairings[kind].join(typeof said === 'string' ? said : '') + (done ? pairings[kind].end() : '')
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
  const usage = usageOf(record)
  // A prompt that fits leaves room for a reply; one that fills the context was cut to do so.
  if (usage.promptTokens !== null && usage.promptTokens >= numCtx)
    throw providerError(
      'context_overflow',
      `${peer.destination} cut the prompt to its context of ${numCtx} tokens.`,
      { circuit: peer.circuit, details: { promptTokens: usage.promptTokens, numCtx } },
    )
  const said = record['model']
  return {
    type: 'end',
    finishReason: finishReason(record['done_reason'], calledTools),
    usage,
    model: typeof said === 'string' && said !== '' ? said : model,
    raw: record,
  }
}

/** `load` and `unload` say that nothing was generated, no reason that the connection to the model closed: all are errors. */
function finishReason(said: unknown, calledTools: boolean): FinishReason {
  if (said === 'length') return 'length'
  if (said === 'stop') return calledTools ? 'tool_calls' : 'stop'
  return 'error'
}

const metrics = ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration']

/**
 * A reply without tokens has no `eval_count`, which is 0 where any metric was reported. A prompt is never of 0 tokens:
 * without `prompt_eval_count` it came from the server's cache uncounted, and its size is unknown.
 */
function usageOf(record: Fields): Usage {
  const promptTokens = counter(record['prompt_eval_count'])
  const isMeasured = promptTokens !== null || metrics.some((name) => counter(record[name]) !== null)
  const count = record['eval_count']
  const completionTokens = count === undefined && isMeasured ? 0 : counter(count)
  const isWhole = promptTokens !== null && completionTokens !== null
  return { promptTokens, completionTokens, totalTokens: isWhole ? promptTokens + completionTokens : null }
}

function counter(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

/** The error for an answer that is not Ollama's, with its text. */
export function notOllama({ destination, circuit }: Peer, text: string, cause?: unknown) {
  const said = redactCut(text, 200)
  return providerError(
    'llm_response_invalid',
    `${destination} gave an answer that is not Ollama's: ${said.replace(/\s+/g, ' ').trim()}`,
    { cause, circuit, details: { text: said } },
  )
}
