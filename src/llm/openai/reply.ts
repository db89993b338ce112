// Reads the reply of an OpenAI-compatible server: deltas as they come, then the end.
// An event stream is over when it said why (finish_reason) or said [DONE]; anything less is a stream that broke off.
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { GraphmillError } from '../../errors.ts'
import { parseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { redactCut } from '../../redact.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError, providerError } from '../provider-error.ts'
import { newWatch, type Peer, readWatched, type Watch, watched } from '../transport.ts'
import { type ContentPattern, matchPattern, patternOf } from './pattern.ts'

export interface OpenAiReply {
  readonly response: Response
  /** The model that was asked for. */
  readonly model: string
  readonly peer: Peer
  /** The caller's: aborting it ends the events without an end. */
  readonly signal: AbortSignal
  /** Sees every chunk before the events that it makes. */
  readonly onChunk?: (chunk: Fields) => void
}

/** A server whose every event is another one in more than its content is not asked for a pattern for ever. */
const patternAttempts = 3

/** After the finish reason only usage is awaited, and not for long. */
const patienceForUsageMs = 5_000

const lineFeed = 10
/** Largest piece of a reply without a line end, in bytes, and largest event, in characters. */
export const lineLimit = 16 * 1024 * 1024

export type Fields = Readonly<Record<string, unknown>>

/**
 * The events of an SSE reply, those that came with one read of the network together; the last holds the end. Memory is
 * bounded by the largest event.
 */
export async function* readBatches(reply: OpenAiReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer } = reply
  const watch = newWatch()
  const end = newEnd(reply.model)
  const read = eventReader(reply, watch, end)
  const said: EventSourceMessage[] = []
  const parser = createParser({
    maxBufferSize: lineLimit,
    onEvent: (event) => said.push(event),
    onError(error) {
      if (error.type === 'max-buffer-size-exceeded') throw notACompletion(reply, watch.head)
    },
  })
  const decoder = new TextDecoder()
  let openLine = 0
  let over = false
  try {
    for await (const part of watched(response, peer, watch)) {
      openLine = part.lastIndexOf(lineFeed) < 0 ? openLine + part.length : 0
      if (openLine > lineLimit) throw notACompletion(reply, watch.head)
      parser.feed(decoder.decode(part, { stream: true }))
      const batch: CompletionEvent[] = []
      try {
        for (const event of said.splice(0)) {
          over = event.data === '[DONE]'
          if (over) break
          read(event, batch)
        }
      } finally {
        // What came before nonsense is not lost with it.
        if (batch.length > 0) yield batch
      }
      if (over) break
      if (end.finish) watch.patienceMs = patienceForUsageMs
    }
  } catch (thrown) {
    // The answer is complete and paid for: what broke afterwards cost at most the usage.
    if (!end.finish && !reply.signal.aborted) throw thrown
  }
  if (reply.signal.aborted) return
  // Without an end of the body it was [DONE] that ended the stream.
  if (!end.finish && watch.ended && end.begun) throw brokenOff(peer)
  if (!end.begun) throw watch.head.trim() === '' ? brokenOff(peer) : notACompletion(reply, watch.head)
  yield [endOf(end)]
}

/** Appends what an event says to a batch, and writes what it says about the end into `end`. */
function eventReader(reply: OpenAiReply, watch: Watch, end: End) {
  let pattern: ContentPattern | undefined
  let attempts = 0
  return (event: EventSourceMessage, batch: CompletionEvent[]): void => {
    // Whoever wants every chunk, and an error, gets it parsed.
    const known = reply.onChunk || event.event === 'error' ? undefined : pattern
    const text = known && matchPattern(known, event.data)
    if (known && text) {
      note(known.chunk, end)
      end.raw = event.data
      batch.push({ type: 'delta', kind: 'content', text })
      return
    }
    const chunk = chunkOf(event, reply, watch)
    const deltas = deltasOf(chunk)
    note(chunk, end)
    batch.push(...deltas)
    const [only, more] = deltas
    const isPlain = only?.type === 'delta' && only.kind === 'content' && !more
    if (isPlain && attempts++ < patternAttempts) pattern = patternOf(event.data, chunk)
  }
}

/** The body of an event. Throws the error that it holds. */
function chunkOf({ event, data }: EventSourceMessage, reply: OpenAiReply, watch: Watch): Fields {
  const chunk = parsed(data)
  if (chunk === undefined) throw notACompletion(reply, watch.head)
  const error = isObject(chunk) ? (chunk['error'] ?? (event === 'error' ? chunk : undefined)) : undefined
  if (error) {
    const { destination, circuit } = reply.peer
    throw embeddedError(error, destination, circuit)
  }
  const fields = isObject(chunk) ? chunk : {}
  reply.onChunk?.(fields)
  return fields
}

/** The events of a reply that came as one JSON body: some servers ignore `stream`. */
export async function* readWhole(reply: OpenAiReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer } = reply
  const text = await readWatched(response, peer)
  const body = objectOf(text)
  if (body?.['error']) throw embeddedError(body['error'], peer.destination, peer.circuit)
  if (!body || !Array.isArray(body['choices']) || !isObject(body['choices'][0]))
    throw notACompletion(reply, text)
  const end = newEnd(reply.model)
  note(body, end)
  yield [...deltasOf(body), endOf(end)]
}

interface End {
  /** A choice was seen. */
  begun: boolean
  finish: FinishReason | undefined
  usage: unknown
  model: string
  /** The last chunk; as text where it was not parsed. */
  raw: unknown
}

function newEnd(model: string): End {
  return { begun: false, finish: undefined, usage: undefined, model, raw: undefined }
}

/** Writes what a chunk says about the end into `end`. */
function note(chunk: Fields, end: End): void {
  end.raw = chunk
  if (typeof chunk['model'] === 'string' && chunk['model'] !== '') end.model = chunk['model']
  end.usage = chunk['usage'] ?? end.usage
  const choice = choiceOf(chunk)
  if (!choice) return
  end.begun = true
  if (choice['finish_reason'] != null) end.finish = finishReason(choice['finish_reason'])
}

function deltasOf(chunk: Fields): CompletionEvent[] {
  const choice = choiceOf(chunk)
  const delta = choice?.['delta'] ?? choice?.['message']
  if (!isObject(delta)) return []
  const reasoning = textOf(delta['reasoning_content'] ?? delta['reasoning'])
  // A refusal is what the model said instead.
  const content = textOf(delta['content']) || textOf(delta['refusal'])
  const deltas: CompletionEvent[] = []
  if (reasoning) deltas.push({ type: 'delta', kind: 'reasoning', text: reasoning })
  if (content) deltas.push({ type: 'delta', kind: 'content', text: content })
  return deltas
}

function choiceOf({ choices }: Fields): Fields | undefined {
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  return isObject(choice) ? choice : undefined
}

/** Content is text, or a list of parts of which only text is for us. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('')
}

/** A reason as one of ours, with the names that text-generation-inference and Mistral have for them; an unknown one is `error`. */
export function finishReason(said: unknown): FinishReason {
  switch (said) {
    case 'eos_token':
    case 'stop_sequence':
      return 'stop'
    case 'model_length':
      return 'length'
    case 'stop':
    case 'length':
    case 'tool_calls':
    case 'content_filter':
      return said
    case 'function_call':
      return 'tool_calls'
    default:
      return 'error'
  }
}

function endOf(end: End): CompletionEvent {
  const { finish = 'stop', usage, model, raw } = end
  const body = typeof raw === 'string' ? JSON.parse(raw) : raw
  return { type: 'end', finishReason: finish, usage: usageOf(usage), model, raw: body }
}

/** Counters as reported. A malformed one is null; a total that was not reported is the sum, where both addends are known. */
export function usageOf(usage: unknown): Usage {
  const fields = isObject(usage) ? usage : {}
  const promptTokens = counter(fields['prompt_tokens'])
  const completionTokens = counter(fields['completion_tokens'])
  const sum = promptTokens === null || completionTokens === null ? null : promptTokens + completionTokens
  const total = fields['total_tokens']
  return { promptTokens, completionTokens, totalTokens: total == null ? sum : counter(total) }
}

function counter(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

function brokenOff(peer: Peer): GraphmillError {
  return providerError('llm_unavailable', `${peer.destination} broke off its reply.`, {
    circuit: peer.circuit,
  })
}

/** The error for an answer of another shape. */
export function notACompletion(
  reply: Pick<OpenAiReply, 'peer'>,
  text: string,
  cause?: unknown,
): GraphmillError {
  const { destination, circuit } = reply.peer
  const said = redactCut(text, 200)
  const answer = said.replace(/\s+/g, ' ').trim()
  return providerError(
    'llm_response_invalid',
    `${destination} gave an answer that is no completion: ${answer}`,
    {
      cause,
      circuit,
      details: { text: said },
    },
  )
}

function objectOf(text: string): Fields | undefined {
  const value = parsed(text)
  return isObject(value) ? value : undefined
}

/** JSON, or undefined where it is none. */
function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}
