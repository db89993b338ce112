// Calls to a worker thread, from the side that asks; `answer-calls.ts` is the side that answers. A call is a task that goes to the
// thread, which answers with a value or an error. The thread may also report events that belong to no call.
// A thread is never restarted here: the caller starts another when `ended` says why this one is over.
import { Worker, type WorkerOptions } from 'node:worker_threads'
import { GraphmillError } from '../errors.ts'
import { unlessAborted } from '../wait.ts'
import { type ErrorData, errorOf } from './error-data.ts'

/** What goes to the thread. */
export type CallOrder = { readonly id: number } & ({ readonly task: unknown } | { readonly abort: true })

/** What comes back. An event belongs to no call. */
export type CallReport =
  | { readonly event: unknown }
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: ErrorData }

export interface CallListener {
  readonly onValue: (value: unknown) => void
  /** What the thread threw, or `ended`. */
  readonly onError: (error: GraphmillError) => void
}

export interface WorkerCall {
  /** Stops listening. When the thread has not answered yet, the call is aborted there. */
  close(): void
}

export interface CallableWorker {
  /** Why all calls fail from now on: `aborted` after `close`, `unexpected` with a cause when the thread broke down. */
  readonly ended: GraphmillError | undefined
  /** The caller must close the call, also after an answer: an open call keeps the process alive. */
  open(task: unknown, listener: CallListener): WorkerCall
  /** Resolves to the value of a call. Throws what the thread threw, `ended`, or the signal's reason. */
  call<T>(task: unknown, signal?: AbortSignal): Promise<T>
  close(): Promise<void>
}

export interface CallableWorkerOptions extends Pick<WorkerOptions, 'execArgv' | 'resourceLimits'> {
  /** The subject of messages about its end, such as `The offline model`. */
  readonly subject: string
  /** Called with events that belong to no call. */
  readonly onNotice?: (event: unknown) => void
}

/** The thread keeps the process alive only while a call is open. */
export function startWorker(
  program: URL,
  { subject, onNotice, ...options }: CallableWorkerOptions,
): CallableWorker {
  const worker = new Worker(program, options)
  const calls = new Map<number, CallListener & { isSettled: boolean }>()
  let last = 0
  let ended: GraphmillError | undefined

  function end(cause?: Error): void {
    if (ended) return
    ended = cause
      ? new GraphmillError('unexpected', `${subject} broke down: ${cause.message}.`, { cause })
      : new GraphmillError('aborted', `${subject} was closed.`)
    for (const [id, { isSettled }] of calls) if (!isSettled) settle(id, undefined, ended)
  }

  function settle(id: number, value: unknown, error?: GraphmillError): void {
    const call = calls.get(id)
    if (!call) return
    call.isSettled = true
    if (error) call.onError(error)
    else call.onValue(value)
  }

  worker.on('message', (report: CallReport) => {
    if ('error' in report) settle(report.id, undefined, errorOf(report.error))
    else if ('value' in report) settle(report.id, report.value)
    else onNotice?.(report.event)
  })
  worker.on('error', end)
  worker.on('exit', (code) => end(new Error(`it ended with ${code}`)))
  worker.unref() // after the listeners: each of them would keep the process alive

  function open(task: unknown, listener: CallListener): WorkerCall {
    const id = ++last
    const call = { ...listener, isSettled: false }
    const tell = (order: CallOrder) => worker.postMessage(order)
    if (!ended) tell({ id, task })
    calls.set(id, call)
    worker.ref()
    if (ended) settle(id, undefined, ended)
    return {
      close() {
        if (!calls.delete(id)) return
        if (!call.isSettled) tell({ id, abort: true })
        if (calls.size === 0) worker.unref()
      },
    }
  }

  return {
    get ended() {
      return ended
    },
    open,
    call: (task, signal) => call(open, task, signal),
    async close() {
      end()
      await worker.terminate()
    },
  }
}

async function call<T>(open: CallableWorker['open'], task: unknown, signal?: AbortSignal): Promise<T> {
  signal?.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  const { close } = open(task, { onValue: resolve, onError: reject })
  try {
    return (await (signal ? unlessAborted(promise, signal) : promise)) as T
  } finally {
    close()
  }
}
