// A model behind its governor: a call waits for its turn, and its slot is free again when the model ends, not when its reader does.
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import type { Caller, Outcome, RateLimiter } from './rate-limiter.ts'

/** Characters of a token, about. */
const charactersPerToken = 3.5

/** Characters that a model may be ahead of its reader: a whole reply, unless it is a very long one. */
const mostAhead = 1024 * 1024

/** What a request costs at most, in tokens: its text, and its output limit where one is set. */
export function estimateTokens(request: CompletionRequest): number {
  const characters = request.messages.reduce((sum, { content }) => sum + content.length, 0)
  return Math.ceil(characters / charactersPerToken) + (request.sampling?.maxTokens ?? 0)
}

/** The events of `llm.stream`, started when the governor allows, and read ahead of who takes them. */
export async function* governedStream(
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
  /** Something was read, or taken, or it is over: whoever waits looks again. */
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
  // Thrown to the reader when it gets there, and to nobody if it never does.
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
    // Of a model that has ended there is nothing to stop.
    if (!over) stopping.abort()
    changed()
  }
}

function sizeOf(event: CompletionEvent): number {
  return event.type === 'delta' ? event.text.length : 0
}

function outcomeOf(thrown: unknown): Outcome {
  if (!(thrown instanceof GraphmillError) || thrown.code !== 'llm_rate_limited') return { type: 'failed' }
  return { type: 'limited', error: thrown }
}
