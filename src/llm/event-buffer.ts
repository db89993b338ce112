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

  /** No event follows. `isOver` throws `error`, if there is one, after the last event. */
  function end(error?: unknown): void {
    hasEnded = true
    failure = error
    wake()
  }

  /** All events that are there. They count until they are `passed` on. */
  function take(): CompletionEvent[] {
    return events.splice(0)
  }

  function passed(event: CompletionEvent): void {
    size -= sizeOf(event)
    wake()
  }

  /** Whether no event follows those that were taken. Throws the error that the events ended with. */
  function isOver(): boolean {
    if (!hasEnded || events.length > 0) return false
    if (failure !== undefined) throw failure
    return true
  }

  return { push, end, take, passed, isOver, changed, wake, size: () => size, hasEnded: () => hasEnded }
}

function sizeOf(event: CompletionEvent): number {
  return event.type === 'delta' ? event.text.length : 0
}
