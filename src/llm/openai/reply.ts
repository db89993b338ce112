// Reads the reply of an OpenAI-compatible server: deltas as they come, then the end.
// An event stream is complete after a finish_reason or [DONE]. Without either it broke off.
import type { EventSourceMessage } from 'eventsource-parser'
import { tryParseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { readEvents } from '../event-stream.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError, notACompletion } from '../provider-error.ts'
import { brokenOff, newWatch, type Peer, readWatched, type Watch } from '../transport.ts'
import { tokenCount, usageOf } from '../usage.ts'
import { type ContentPattern, matchPattern, patternOf } from './pattern.ts'

export interface OpenAiReply {
  readonly response: Response
  /** The model that was asked for. */
  readonly model: string
  readonly peer: Peer
  /** The caller's signal. After an abort the events stop without an end. */
  readonly signal: AbortSignal
  /** Called with every chunk, before the events that it leads to. */
  readonly onChunk?: (chunk: Fields) => void
}

/** How many events are tried as a pattern: the events of some servers differ in more than their content. */
const patternAttempts = 3

/** After the finish reason only the usage is due, and it is not awaited for longer. */
const patienceForUsageMs = 5_000

export type Fields = Readonly<Record<string, unknown>>

/** The events of an SSE reply, in batches of one read of the network each. The last one ends it. Memory is bounded by the largest event. */
export async function* readBatches(reply: OpenAiReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer } = reply
  const watch = newWatch()
  const end = newEnd(reply.model)
  const read = eventReader(reply, watch, end)
  let over = false
  try {
    for await (const received of readEvents(response, peer, watch)) {
      const batch: CompletionEvent[] = []
      try {
        for (const event of received) {
          over = event.data === '[DONE]'
          if (over) break
          read(event, batch)
        }
      } finally {
        // What came before an invalid event is kept.
        if (batch.length > 0) yield batch
      }
      if (over) break
      if (end.finish) watch.patienceMs = patienceForUsageMs
    }
  } catch (thrown) {
    // The answer is complete and paid for. Only the usage may be missing.
    if (!end.finish && !reply.signal.aborted) throw thrown
  }
  if (reply.signal.aborted) return
  // If the body has not ended, [DONE] ended the stream.
  if (!end.finish && watch.ended && end.begun) throw brokenOff(peer)
  if (!end.begun) throw watch.head.trim() === '' ? brokenOff(peer) : notACompletion(peer, watch.head)
  yield [endOf(end)]
}

/** Appends the deltas of an event to a batch, and writes what it says about the end into `end`. */
function eventReader(reply: OpenAiReply, watch: Watch, end: End) {
  let pattern: ContentPattern | undefined
  let attempts = 0
  return (event: EventSourceMessage, batch: CompletionEvent[]): void => {
    // Errors, and every chunk when `onChunk` asks for them, are parsed.
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

/** The chunk of an event. Throws the error that it holds. */
function chunkOf({ event, data }: EventSourceMessage, reply: OpenAiReply, watch: Watch): Fields {
  const chunk = tryParseJson(data)
  if (chunk === undefined) throw notACompletion(reply.peer, watch.head)
  const error = isObject(chunk) ? (chunk['error'] ?? (event === 'error' ? chunk : undefined)) : undefined
  if (error) throw embeddedError(error, reply.peer)
  const fields = isObject(chunk) ? chunk : {}
  reply.onChunk?.(fields)
  return fields
}

/** The events of a reply that came as one JSON body: some servers ignore `stream`. */
export async function* readWhole(reply: OpenAiReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer } = reply
  const text = await readWatched(response, peer)
  const body = tryParseJson(text)
  if (!isObject(body)) throw notACompletion(peer, text)
  if (body['error']) throw embeddedError(body['error'], peer)
  if (!choiceOf(body)) throw notACompletion(peer, text)
  const end = newEnd(reply.model)
  note(body, end)
  yield [...deltasOf(body), endOf(end)]
}

interface End {
  /** A choice has come. */
  begun: boolean
  finish: FinishReason | undefined
  usage: unknown
  model: string
  /** The last chunk; as text if it was not parsed. */
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
  // A refusal is what the model wrote instead.
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

/** Content is text, or a list of parts of which only the texts count. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: unknown) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('')
}

/** A finish reason, also by the names of text-generation-inference and Mistral. An unknown one is `error`. */
export function finishReason(reported: unknown): FinishReason {
  switch (reported) {
    case 'eos_token':
    case 'stop_sequence':
      return 'stop'
    case 'model_length':
      return 'length'
    case 'stop':
    case 'length':
    case 'tool_calls':
    case 'content_filter':
      return reported
    case 'function_call':
      return 'tool_calls'
    default:
      return 'error'
  }
}

function endOf(end: End): CompletionEvent {
  const { finish = 'stop', usage, model, raw } = end
  const body = typeof raw === 'string' ? JSON.parse(raw) : raw
  return { type: 'end', finishReason: finish, usage: reportedUsage(usage), model, raw: body }
}

/** Counts as reported. A total that was not reported is the sum, if both addends are known. */
export function reportedUsage(usage: unknown): Usage {
  const fields = isObject(usage) ? usage : {}
  return usageOf(
    tokenCount(fields['prompt_tokens']),
    tokenCount(fields['completion_tokens']),
    fields['total_tokens'],
  )
}
