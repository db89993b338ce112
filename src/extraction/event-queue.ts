// Events between a flow and the program that reads them. A writer waits while too many are unread: a slow reader slows the flow.
import { createQueue } from '../broker/window/queue.ts'
import { createWake } from '../broker/window/wake.ts'
import { unlessAborted } from '../wait.ts'

export interface EventQueue<E> {
  /** Resolves when there is room for the event and it was added. Rejects with the reason of the signal. */
  push(event: E, signal: AbortSignal): Promise<void>
  /** Adds an event without waiting. */
  put(event: E): void
  /** Resolves when a writer would not wait. Rejects with the reason of the signal. */
  room(signal: AbortSignal): Promise<void>
  /** Resolves to the next event; to undefined after the last one. */
  next(): Promise<E | undefined>
  /** No event follows. */
  end(): void
}

/** `most`: the number of unread events from which writers wait. */
export function createEventQueue<E>(most: number): EventQueue<E> {
  const events = createQueue<E>()
  const added = createWake()
  const taken = createWake()
  let unread = 0
  let ended = false

  async function room(signal: AbortSignal): Promise<void> {
    while (unread >= most && !ended) await unlessAborted(taken.wait(), signal)
    signal.throwIfAborted()
  }

  function put(event: E): void {
    if (ended) return
    unread++
    events.push(event)
    added.notify()
  }

  return {
    put,
    room,
    async push(event, signal) {
      await room(signal)
      put(event)
    },
    async next() {
      while (unread === 0 && !ended) await added.wait()
      if (unread === 0) return undefined
      unread--
      taken.notify()
      return events.shift()
    },
    end() {
      ended = true
      added.notify()
      taken.notify()
    },
  }
}
