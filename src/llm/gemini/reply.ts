// Reads Gemini's replies: deltas as they come, then the end. Some models give a finish reason with every event, so a reply has
// ended only when its body has, and a body without a finish reason broke off.
import { tryParseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { readEvents } from '../event-stream.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError, notACompletion } from '../provider-error.ts'
import { brokenOff, newWatch, type Peer, readWatched } from '../transport.ts'
import { tokenCount, usageOf } from '../usage.ts'
import { promptBlocked } from './error.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface GeminiReply {
  readonly response: Response
  /** The model that was asked for. */
  readonly model: string
  readonly peer: Peer
  /** The function whose arguments are the reply. Default: the reply is text. */
  readonly form?: string | undefined
  /** Called with every chunk, before the events that it leads to. */
  readonly onChunk?: (chunk: Fields) => void
}

/** The events of a reply, in batches of one read of the network each. The last one ends it. */
export async function* readBatches(reply: GeminiReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer } = reply
  const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
  const end: End = { model: reply.model, begun: false, calls: false }
  const watch = newWatch()
  const read = (data: string) => noted(chunkOf(tryParseJson(data), data, reply), reply, end)
  if (isJson) {
    watch.head = await readWatched(response, peer)
    yield wholeChunks(watch.head, reply).flatMap((chunk) => noted(chunk, reply, end))
  } else
    for await (const received of readEvents(response, peer, watch)) {
      const batch: CompletionEvent[] = []
      try {
        for (const { data } of received) if (data !== '[DONE]') batch.push(...read(data))
      } finally {
        // What came before an invalid event is kept.
        if (batch.length > 0) yield batch
      }
    }
  if (end.finish === undefined)
    throw end.begun || watch.head.trim() === '' ? brokenOff(peer) : notACompletion(peer, watch.head)
  yield [endOf(end)]
}

/** The chunks of a body that is no event stream: one of them, or a list. */
function wholeChunks(text: string, reply: GeminiReply): Fields[] {
  const body = tryParseJson(text)
  return (Array.isArray(body) ? body : [body]).map((chunk) => chunkOf(chunk, text, reply))
}

/** Throws the error that a chunk holds, and `llm_response_invalid` for what is no chunk. */
function chunkOf(chunk: unknown, text: string, { peer, onChunk }: GeminiReply): Fields {
  if (!isObject(chunk)) throw notACompletion(peer, text)
  if (chunk['error']) throw embeddedError(chunk['error'], peer)
  checkPrompt(chunk, peer)
  onChunk?.(chunk)
  return chunk
}

/** Throws `llm_prompt_blocked` when a filter blocked the prompt. */
export function checkPrompt({ promptFeedback: feedback, candidates }: Fields, peer: Peer): void {
  const isEmpty = !Array.isArray(candidates) || candidates.length === 0
  if (isEmpty && isObject(feedback) && feedback['blockReason']) throw promptBlocked(peer, feedback)
}

interface End {
  model: string
  /** A candidate has come. */
  begun: boolean
  /** The model called a function that is not the reply's form. */
  calls: boolean
  finish?: unknown
  usage?: unknown
  /** The last chunk. */
  raw?: Fields
}

/** The deltas of a chunk; what it says about the end is written into `end`. */
function noted(chunk: Fields, { form }: GeminiReply, end: End): CompletionEvent[] {
  const { modelVersion, usageMetadata, candidates } = chunk
  end.raw = chunk
  if (typeof modelVersion === 'string' && modelVersion !== '') end.model = modelVersion
  end.usage = usageMetadata ?? end.usage
  const candidate: unknown = Array.isArray(candidates) ? candidates[0] : undefined
  if (!isObject(candidate)) return []
  end.begun = true
  end.finish = candidate['finishReason'] ?? end.finish
  return partsOf(candidate).flatMap((part): CompletionEvent[] => {
    const { text, thought, functionCall: call } = part
    if (isObject(call)) {
      const isReply = form !== undefined && call['name'] === form
      end.calls ||= !isReply
      return isReply ? [{ type: 'delta', kind: 'content', text: JSON.stringify(call['args'] ?? {}) }] : []
    }
    if (typeof text !== 'string' || text === '') return []
    return [{ type: 'delta', kind: thought === true ? 'reasoning' : 'content', text }]
  })
}

/** The parts of a candidate; none when a filter removed them. */
export function partsOf({ content }: Fields): readonly Fields[] {
  const parts = isObject(content) ? content['parts'] : undefined
  return Array.isArray(parts) ? parts.filter(isObject) : []
}

/** `calls`: whether the reply calls functions, which counts more than the reason. An unknown reason is `error`. */
export function finishReason(reported: unknown, calls: boolean): FinishReason {
  if (calls) return 'tool_calls'
  switch (reported) {
    case 'STOP':
      return 'stop'
    case 'MAX_TOKENS':
      return 'length'
    case 'SAFETY':
    case 'RECITATION':
    case 'BLOCKLIST':
    case 'PROHIBITED_CONTENT':
    case 'SPII':
      return 'content_filter'
    default:
      return 'error'
  }
}

/** Counts as reported. */
export function reportedUsage(usage: unknown): Usage {
  const fields = isObject(usage) ? usage : {}
  return usageOf(
    tokenCount(fields['promptTokenCount']),
    tokenCount(fields['candidatesTokenCount']),
    fields['totalTokenCount'],
  )
}

/** Thoughts are paid for as written tokens. A reply that is only thoughts has no count of its own. */
function paidUsage(usage: unknown): Usage {
  const fields = isObject(usage) ? usage : {}
  const { candidatesTokenCount: written, thoughtsTokenCount: thoughts } = fields
  const counted = written === undefined && thoughts !== undefined ? 0 : tokenCount(written)
  const thought = thoughts === undefined ? 0 : tokenCount(thoughts)
  const completion = counted === null || thought === null ? null : counted + thought
  return usageOf(tokenCount(fields['promptTokenCount']), completion, fields['totalTokenCount'])
}

function endOf({ finish, calls, usage, model, raw }: End): CompletionEvent {
  return { type: 'end', finishReason: finishReason(finish, calls), usage: paidUsage(usage), model, raw }
}
