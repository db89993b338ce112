// A buffer between the producer of a stream of events and its one reader, which takes all events that are there at once.
import type { CompletionEvent } from './llm.ts'

export function createEventBuffer() {
  const events: CompletionEvent[] = []
  const waiting: (() => void)[] = []
  /** Characters of the events that were not taken yet. */
  let size = 0
  let hasEnded = false
  let failure: unknown

  /** Ends all waits for a change. */
  function wake(): void {
    if (waiting.length > 0) for (const resolve of waiting.splice(0)) resolve()
  }

  /** Resolves at the next change: an event that came or was taken, the end, or a call of `wake`. */
  function changed(): Promise<void> {
    return new Promise((resolve) => waiting.push(resolve))
  }

  function push(event: CompletionEvent): void {
    events.push(event)
    size += sizeOf(event)
    wake()
  }

  /** No event follows. The reader throws `error`, if there is one, after the last event. */
  function end(error?: unknown): void {
    hasEnded = true
    failure = error
    wake()
  }

  /** The events up to the end. Throws the signal's reason at the next change after an abort. */
  async function* read(signal: AbortSignal): AsyncGenerator<CompletionEvent, void> {
    for (;;) {
      for (const event of events.splice(0)) {
        signal.throwIfAborted()
        size -= sizeOf(event)
        wake()
        yield event
      }
      if (events.length > 0) continue
      if (hasEnded) break
      signal.throwIfAborted()
      await changed()
    }
    if (failure !== undefined) throw failure
  }

  return { push, end, read, changed, wake, size: () => size, hasEnded: () => hasEnded }
}

function sizeOf(event: CompletionEvent): number {
  return event.type === 'delta' ? event.text.length : 0
}
