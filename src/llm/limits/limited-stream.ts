// A model behind its rate limiter: a call waits for its turn, and its slot is free again when the model has ended, even if the
// reader has not.
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import type { Caller, CallOutcome, RateLimiter } from './rate-limiter.ts'

/** The average length of a token. */
const charactersPerToken = 3.5

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

  const ahead: CompletionEvent[] = []
  let characters = 0
  let turn = Promise.withResolvers<void>()
  /** Wakes the reader and the consumer after something was read or taken, and at the end. */
  const changed = () => {
    turn.resolve()
    turn = Promise.withResolvers()
  }

  async function read(): Promise<void> {
    try {
      for await (const event of llm.stream(request, stopping.signal)) {
        slot.accepted()
        if (event.type === 'end') slot.release({ type: 'done', tokens: event.usage.totalTokens })
        ahead.push(event)
        characters += sizeOf(event)
        changed()
        while (characters > mostAhead && !stopping.signal.aborted) await turn.promise
      }
    } catch (thrown) {
      slot.release(outcomeOf(thrown))
      throw thrown
    } finally {
      slot.release({ type: 'failed' })
    }
  }

  let over = false
  const reading = read().finally(() => {
    over = true
    changed()
  })
  // A failure is thrown below, once the consumer has got that far.
  reading.catch(() => {})
  try {
    for (;;) {
      for (const event of ahead.splice(0)) {
        signal.throwIfAborted()
        characters -= sizeOf(event)
        changed()
        yield event
      }
      if (ahead.length > 0) continue
      if (over) break
      await turn.promise
    }
    await reading
  } finally {
    signal.removeEventListener('abort', stop)
    if (!over) stopping.abort()
    changed()
  }
}

function sizeOf(event: CompletionEvent): number {
  return event.type === 'delta' ? event.text.length : 0
}

function outcomeOf(thrown: unknown): CallOutcome {
  if (!(thrown instanceof GraphmillError) || thrown.code !== 'llm_rate_limited') return { type: 'failed' }
  return { type: 'limited', error: thrown }
}
