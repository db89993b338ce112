// Reads the reply of the Messages API: deltas as they come, then the end. A stream is complete after `message_stop`, or after a
// stop reason; without either it broke off. Events of unknown types are ignored.
import type { EventSourceMessage } from 'eventsource-parser'
import { tryParseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { readEvents } from '../event-stream.ts'
import type { CompletionEvent, FinishReason, Usage } from '../llm.ts'
import { embeddedError } from '../provider-error.ts'
import { brokenOff, newWatch, type Peer, readWatched, type Watch } from '../transport.ts'
import { tokenCount, usageOf } from '../usage.ts'
import { recoded } from './error.ts'
import { notAnthropic } from './server.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface AnthropicReply {
  readonly response: Response
  /** The model that was asked for. */
  readonly model: string
  readonly peer: Peer
  /** The caller's signal. After an abort the events stop without an end. */
  readonly signal: AbortSignal
  /** The answer is the input of a tool. */
  readonly byTool: boolean
  /** Called with every event, before the deltas that it leads to. */
  readonly onEvent?: (event: Fields) => void
}

/** The longest wait for the end of the body after the stop reason. */
const patienceForEndMs = 5_000

interface End {
  begun: boolean
  over: boolean
  stop: unknown
  usage: Fields
  model: string
  /** The last event that says something about the whole message. */
  raw: unknown
}

/** The events of a stream, in batches of one read of the network each. The last one ends it. */
export async function* readBatches(reply: AnthropicReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer, signal } = reply
  const watch = newWatch()
  const end: End = {
    begun: false,
    over: false,
    stop: undefined,
    usage: {},
    model: reply.model,
    raw: undefined,
  }
  try {
    for await (const received of readEvents(response, peer, watch)) {
      const batch: CompletionEvent[] = []
      try {
        for (const event of received) {
          if (end.over) break
          batch.push(...deltasOf(eventOf(event, reply, watch), reply, end))
        }
      } finally {
        // What came before an invalid event is kept.
        if (batch.length > 0) yield batch
      }
      if (end.over) break
      if (end.stop != null) watch.patienceMs = patienceForEndMs
    }
  } catch (thrown) {
    // The answer is complete and paid for.
    if (end.stop == null && !signal.aborted) throw thrown
  }
  if (signal.aborted) return
  if (!end.begun) throw watch.head.trim() === '' ? brokenOff(peer) : notAnthropic(peer, watch.head)
  if (end.stop == null && !end.over) throw brokenOff(peer)
  yield [endOf(end, reply)]
}

/** The value of an event. Throws the error that it holds. */
function eventOf({ event, data }: EventSourceMessage, reply: AnthropicReply, watch: Watch): Fields {
  const value = tryParseJson(data)
  if (!isObject(value)) throw notAnthropic(reply.peer, watch.head)
  if ((value['type'] ?? event) === 'error') throw recoded(embeddedError(value['error'] ?? value, reply.peer))
  reply.onEvent?.(value)
  return value
}

/** The deltas of an event. What it says about the end goes into `end`. */
function deltasOf(event: Fields, { byTool }: AnthropicReply, end: End): CompletionEvent[] {
  switch (event['type']) {
    case 'message_start':
      end.begun = true
      note(fieldsOf(event['message']), end)
      return []
    case 'content_block_start': {
      const { text, thinking } = fieldsOf(event['content_block'])
      return [...deltaOf('reasoning', thinking), ...deltaOf('content', text)]
    }
    case 'content_block_delta': {
      const { text, thinking, partial_json: input } = fieldsOf(event['delta'])
      return [
        ...deltaOf('reasoning', thinking),
        ...deltaOf('content', text),
        ...deltaOf('content', byTool ? input : undefined),
      ]
    }
    case 'message_delta':
      note({ ...fieldsOf(event['delta']), usage: event['usage'] }, end)
      end.raw = event
      return []
    case 'message_stop':
      end.over = true
      return []
    default:
      return []
  }
}

function deltaOf(kind: 'content' | 'reasoning', text: unknown): CompletionEvent[] {
  return typeof text === 'string' && text !== '' ? [{ type: 'delta', kind, text }] : []
}

function note(message: Fields, end: End): void {
  end.raw = message
  end.stop = message['stop_reason'] ?? end.stop
  if (typeof message['model'] === 'string' && message['model'] !== '') end.model = message['model']
  const counts = Object.entries(fieldsOf(message['usage'])).filter(([, count]) => count != null)
  end.usage = { ...end.usage, ...Object.fromEntries(counts) }
}

/** The events of a reply that came as one JSON body: some servers ignore `stream`. */
export async function* readWhole(reply: AnthropicReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer, model, byTool } = reply
  const text = await readWatched(response, peer)
  const body = tryParseJson(text)
  if (!isObject(body)) throw notAnthropic(peer, text)
  if (body['type'] === 'error') throw recoded(embeddedError(body['error'], peer))
  const blocks = body['content']
  if (!Array.isArray(blocks)) throw notAnthropic(peer, text)
  const end: End = { begun: true, over: true, stop: undefined, usage: {}, model, raw: body }
  note(body, end)
  const deltas = blocks.map(fieldsOf).flatMap(({ type, text, thinking, input }) => {
    const answer = byTool && type === 'tool_use' ? JSON.stringify(input) : text
    return [...deltaOf('reasoning', thinking), ...deltaOf('content', answer)]
  })
  yield [...deltas, endOf(end, reply)]
}

function endOf({ stop, usage, model, raw }: End, { byTool }: AnthropicReply): CompletionEvent {
  // A paused turn is not at its end: the flow continues it like a reply that was cut off.
  const finish = stop === 'pause_turn' ? 'length' : finishReason(stop, byTool)
  return { type: 'end', finishReason: finish, usage: paidUsage(usage), model, raw }
}

/** `byTool`: the call of the tool is the answer. A reason that is not known is an error. */
export function finishReason(stop: unknown, byTool: boolean): FinishReason {
  switch (stop) {
    case 'end_turn':
    case 'stop_sequence':
    case 'pause_turn':
      return 'stop'
    case 'tool_use':
      return byTool ? 'stop' : 'tool_calls'
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'length'
    case 'refusal':
      return 'content_filter'
    default:
      return 'error'
  }
}

/** All prompt tokens, those that were written to a cache or read from it too: Anthropic counts them apart. */
function paidUsage(usage: Fields): Usage {
  const prompt = tokenCount(usage['input_tokens'])
  const cached = ['cache_creation_input_tokens', 'cache_read_input_tokens'].map(
    (name) => tokenCount(usage[name]) ?? 0,
  )
  const total = prompt === null ? null : cached.reduce((sum, count) => sum + count, prompt)
  return usageOf(total, tokenCount(usage['output_tokens']))
}

function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {}
}
