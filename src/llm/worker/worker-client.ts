// Models whose calls are made in a thread of their own, one for all of a process. What is asked of a model besides, such as
// whether it is ready, is asked here.
import { Worker } from 'node:worker_threads'
import { secretText } from '../../config/secret.ts'
import type { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import { providerError } from '../provider-error.ts'
import type { ModelSpec } from '../providers.ts'
import { errorOf, mostOnTheWay, type Order, type Report } from './protocol.ts'

/** The thread is told of what was taken in pieces of so many characters. */
const tellingStep = mostOnTheWay / 4

export interface ModelWorker {
  /** Starts the thread where it does not run yet; the first call would, too. */
  start(): void
  stream(call: ModelCall, signal: AbortSignal): AsyncIterable<CompletionEvent>
}

export interface ModelCall {
  readonly spec: ModelSpec
  readonly request: CompletionRequest
  /** Of the model. */
  readonly circuit: string
}

interface Call {
  readonly thread: Thread
  readonly circuit: string
  readonly events: CompletionEvent[]
  over: boolean
  failure: GraphmillError | undefined
  /** Called when there is more, or it is over. */
  wake: () => void
}

interface Thread {
  readonly worker: Worker
  /** Calls in work. */
  calls: number
}

const file = `./worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`

/**
 * The thread keeps the process alive only while a call is read. Should it break down, the calls in work fail with
 * `llm_unavailable`, as if their server had gone, and the next one starts another.
 */
export function createModelWorker(program = new URL(file, import.meta.url)): ModelWorker {
  const calls = new Map<number, Call>()
  let thread: Thread | undefined
  let last = 0

  function begin(): Thread {
    const worker = new Worker(program, {
      // Flags of the process hold here too, such as those for proxies; but one of them is not for a file.
      ...(process.execArgv.some((flag) => flag.startsWith('--input-type')) && { execArgv: [] }),
      // What a call leaves behind dies young; more room for it is only more memory.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
    })
    const started = { worker, calls: 0 }
    worker.on('message', hear)
    worker.on('error', (cause) => breakDown(started, cause))
    worker.on('exit', (code) => breakDown(started, new Error(`it ended with ${code}`)))
    worker.unref() // after the listeners: each would hold the process
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

  function breakDown(broken: Thread, cause: Error): void {
    if (thread !== broken) return
    thread = undefined
    for (const call of calls.values()) {
      if (call.over || call.thread !== broken) continue
      const text = `The thread that calls models broke down: ${cause.message}.`
      call.failure = providerError('llm_unavailable', text, { cause, circuit: call.circuit })
      call.over = true
      call.wake()
    }
  }

  async function* stream(
    { spec, request, circuit }: ModelCall,
    signal: AbortSignal,
  ): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    // What the server echoes of the key in a reply is redacted here, and only a key that was read here is known.
    if ('apiKey' in spec && spec.apiKey) secretText(spec.apiKey)
    const id = ++last
    thread ??= begin()
    const own = thread
    const call: Call = { thread: own, circuit, events: [], over: false, failure: undefined, wake() {} }
    const stop = () => call.wake()
    const tell = (order: Order) => own.worker.postMessage(order)
    calls.set(id, call)
    own.calls++
    own.worker.ref()
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
      if (--own.calls === 0) own.worker.unref()
    }
  }

  return {
    start() {
      thread ??= begin()
    },
    stream,
  }
}

const shared = createModelWorker()

/** The model `llm`, with every call made in the thread, by `spec`, which says the same model as data. The thread is started. */
export function inWorker(llm: Llm, spec: ModelSpec, thread = shared): Llm {
  thread.start()
  const { circuit } = llm
  return { ...llm, stream: (request, signal) => thread.stream({ spec, request, circuit }, signal) }
}
