// Models whose calls are made in a thread of their own, one for all of a process. What is asked of a model besides, such as
// whether it is ready, is asked here.
import { Worker } from 'node:worker_threads'
import { GraphmillError } from '../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from './llm.ts'
import { errorOf, type ModelSpec, mostOnTheWay, type Order, type Report } from './thread-protocol.ts'

/** The thread is told of what was taken in pieces of so many characters. */
const tellingStep = mostOnTheWay / 4

export interface ModelThread {
  /** Starts the thread where it does not run yet; the first call would, too. */
  start(): void
  stream(spec: ModelSpec, request: CompletionRequest, signal: AbortSignal): AsyncIterable<CompletionEvent>
}

interface Call {
  readonly events: CompletionEvent[]
  over: boolean
  failure: GraphmillError | undefined
  /** Called when there is more, or it is over. */
  wake: () => void
}

const file = `./model-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`

/**
 * The thread keeps the process alive only while a call is in work. Should it break down, the calls in work fail with
 * `unexpected`, and the next one starts another.
 */
export function createModelThread(program = new URL(file, import.meta.url)): ModelThread {
  const calls = new Map<number, Call>()
  let worker: Worker | undefined
  let last = 0

  function begin(): Worker {
    const started = new Worker(program, {
      // Flags of the process hold here too, such as those for proxies and certificates; but this runs a file.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--input-type')),
      // What a call leaves behind dies young; more room for it is only more memory.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
    })
    started.on('message', hear)
    started.on('error', (cause) => breakDown(started, cause))
    started.on('exit', (code) => breakDown(started, new Error(`it ended with ${code}`)))
    started.unref() // after the listeners: each would hold the process
    return started
  }

  function hear(report: Report): void {
    const call = calls.get(report.id)
    if (!call) return
    if ('event' in report) call.events.push(report.event)
    else call.over = true
    if ('error' in report) call.failure = errorOf(report.error)
    call.wake()
  }

  function breakDown(broken: Worker, cause: Error): void {
    if (worker !== broken) return
    worker = undefined
    for (const call of calls.values()) {
      const text = `The thread that calls models broke down: ${cause.message}.`
      call.failure ??= call.over ? undefined : new GraphmillError('unexpected', text, { cause })
      call.over = true
      call.wake()
    }
  }

  async function* stream(
    spec: ModelSpec,
    request: CompletionRequest,
    signal: AbortSignal,
  ): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    const id = ++last
    const call: Call = { events: [], over: false, failure: undefined, wake() {} }
    const stop = () => call.wake()
    worker ??= begin()
    const own = worker
    const tell = (order: Order) => own.postMessage(order)
    calls.set(id, call)
    own.ref()
    signal.addEventListener('abort', stop, { once: true })
    let taken = 0
    try {
      const { origin: _, ...sent } = request
      tell({ id, spec, request: sent })
      for (;;) {
        for (const event of call.events.splice(0)) {
          signal.throwIfAborted()
          if (event.type === 'delta') taken += event.text.length
          yield event
        }
        signal.throwIfAborted()
        if (call.events.length > 0) continue
        if (call.over) break
        if (taken >= tellingStep) {
          tell({ id, taken })
          taken = 0
        }
        await new Promise<void>((resolve) => {
          call.wake = resolve
        })
      }
      if (call.failure) throw call.failure
    } finally {
      signal.removeEventListener('abort', stop)
      calls.delete(id)
      if (!call.over) tell({ id, abort: true })
      if (calls.size === 0) own.unref()
    }
  }

  return {
    start() {
      worker ??= begin()
    },
    stream,
  }
}

const shared = createModelThread()

/** The model `llm`, with every call made in the thread, by `spec`, which says the same model as data. The thread is started. */
export function threaded(llm: Llm, spec: ModelSpec, thread = shared): Llm {
  thread.start()
  return { ...llm, stream: (request, signal) => thread.stream(spec, request, signal) }
}
