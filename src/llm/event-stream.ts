// Server-sent events of a reply, in batches of one read of the network each. Memory is bounded by the largest event.
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { CompletionEvent } from './llm.ts'
import { notACompletion } from './provider-error.ts'
import { beginCall, type Peer, type Watch, watched } from './transport.ts'

const lineFeed = 10
/** Largest stretch of a reply without a line end, in bytes, and largest event, in characters. */
export const lineLimit = 16 * 1024 * 1024

/** Throws as `watched` does, and `llm_response_invalid` for a line or an event without end. */
export async function* readEvents(
  response: Response,
  peer: Peer,
  watch: Watch,
): AsyncGenerator<EventSourceMessage[]> {
  const received: EventSourceMessage[] = []
  const parser = createParser({
    maxBufferSize: lineLimit,
    onEvent: (event) => received.push(event),
    onError(error) {
      if (error.type === 'max-buffer-size-exceeded') throw notACompletion(peer, watch.head)
    },
  })
  const decoder = new TextDecoder()
  let openLine = 0
  for await (const part of watched(response, peer, watch)) {
    openLine = part.lastIndexOf(lineFeed) < 0 ? openLine + part.length : 0
    if (openLine > lineLimit) throw notACompletion(peer, watch.head)
    parser.feed(decoder.decode(part, { stream: true }))
    yield received.splice(0)
  }
}

/** The events of one call, whose reply comes in batches. None follows an abort, which throws the caller's reason. */
export async function* callEvents(
  peer: Peer,
  signal: AbortSignal,
  reply: (upstream: AbortController) => Promise<AsyncIterable<readonly CompletionEvent[]>>,
): AsyncGenerator<CompletionEvent> {
  signal.throwIfAborted()
  const call = beginCall(peer, signal)
  try {
    for await (const batch of await reply(call.upstream))
      for (const event of joinDeltas(batch)) {
        call.over = event.type === 'end'
        yield event
        if (!call.over) signal.throwIfAborted()
      }
    signal.throwIfAborted()
  } catch (thrown) {
    throw call.explain(thrown)
  } finally {
    call.end()
  }
}

/** Joins neighbouring deltas of the same kind, so that what was read together is passed on together. */
export function* joinDeltas(batch: readonly CompletionEvent[]): Generator<CompletionEvent> {
  for (let at = 0; at < batch.length; ) {
    const event = batch[at++]!
    let text = event.type === 'delta' ? event.text : ''
    for (let next = batch[at]; next && isSameKind(event, next); next = batch[++at]) text += next.text
    yield event.type === 'delta' ? { ...event, text } : event
  }
}

type Delta = Extract<CompletionEvent, { type: 'delta' }>

function isSameKind(event: CompletionEvent, next: CompletionEvent): next is Delta {
  return event.type === 'delta' && next.type === 'delta' && event.kind === next.kind
}
