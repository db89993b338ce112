// Calls to a worker thread, from the side that answers: the program of such a thread calls `answerCalls` once.
import { parentPort } from 'node:worker_threads'
import { dataOf } from './error-data.ts'
import type { CallOrder, CallReport } from './worker-calls.ts'

/** A call that is being answered. */
export interface AnsweredCall {
  /** Aborts when nobody waits for the answer any more. */
  readonly signal: AbortSignal
}

const say = (report: CallReport) => parentPort!.postMessage(report)

/** Calls the handler for each task; its value or its error is the answer. */
export function answerCalls<T>(handle: (task: T, call: AnsweredCall) => unknown): void {
  const calls = new Map<number, AnsweredCall & { readonly stopping: AbortController }>()

  async function answer(id: number, task: T): Promise<void> {
    const stopping = new AbortController()
    const call = { stopping, signal: stopping.signal }
    calls.set(id, call)
    try {
      say({ id, value: await handle(task, call) })
    } catch (thrown) {
      const error = dataOf(thrown)
      try {
        say({ id, error })
      } catch {
        say({ id, error: { ...error, details: {} } }) // they hold what cannot be sent to another thread
      }
    } finally {
      calls.delete(id)
    }
  }

  parentPort!.on('message', (order: CallOrder) => {
    if ('task' in order) void answer(order.id, order.task as T)
    else calls.get(order.id)?.stopping.abort()
  })
}

/** Reports an event that belongs to no call. */
export function notify(event: unknown): void {
  say({ event })
}
