// A model behind its rate limiter: a call waits for its turn, and its slot is free again when the model has ended, even if the
// reader has not.
import { GraphmillError } from '../../errors.ts'
import { createEventBuffer } from '../event-buffer.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import type { Caller, CallOutcome, RateLimiter } from './rate-limiter.ts'

/** The average length of a token. */
export const charactersPerToken = 3.5

/** Characters that a model may be ahead of its reader: a whole reply, unless it is very long. */
const mostAhead = 1024 * 1024

/** An estimate of a request's tokens: those of its text, and its output limit if it has one. */
export function estimateTokens(request: CompletionRequest): number {
  const characters = request.messages.reduce((sum, { content }) => sum + content.length, 0)
  return Math.ceil(characters / charactersPerToken) + (request.sampling?.maxTokens ?? 0)
}

/** The events of `llm.stream`, started when the limiter allows, and read ahead of the consumer. */
export async function* limitedStream(
  llm: Llm,
  rateLimiter: RateLimiter,
  request: CompletionRequest,
  caller: Caller,
  signal: AbortSignal,
): AsyncGenerator<CompletionEvent> {
  const slot = await rateLimiter.acquire({ ...caller, tokens: estimateTokens(request), signal })
  const stopping = new AbortController()
  const stop = () => stopping.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()

  const buffer = createEventBuffer()

  async function readAhead(): Promise<void> {
    try {
      for await (const event of llm.stream(request, stopping.signal)) {
        slot.accepted()
        if (event.type === 'end')
          slot.release({ type: 'done', tokens: event.usage.totalTokens, usage: event.usage })
        buffer.push(event)
        while (buffer.size() > mostAhead && !stopping.signal.aborted) await buffer.changed()
      }
      slot.release({ type: 'failed' })
      buffer.end()
    } catch (thrown) {
      slot.release(outcomeOf(thrown))
      buffer.end(thrown)
    }
  }

  void readAhead()
  try {
    while (!buffer.isOver()) {
      signal.throwIfAborted()
      const events = buffer.take()
      if (events.length === 0) await buffer.changed()
      for (const event of events) {
        signal.throwIfAborted()
        buffer.passed(event)
        yield event
      }
    }
  } finally {
    signal.removeEventListener('abort', stop)
    if (!buffer.hasEnded()) stopping.abort()
    buffer.wake()
  }
}

function outcomeOf(thrown: unknown): CallOutcome {
  if (!(thrown instanceof GraphmillError) || thrown.code !== 'llm_rate_limited') return { type: 'failed' }
  return { type: 'limited', error: thrown }
}
