// Models whose calls are made in a thread, one for the whole process. Other requests, such as that of `ready`, are made here.
// On Kafka with a model that answers at once, the thread takes 13 to 21% of the main thread's CPU off it, which is what limits the rate
// where cores are free. It does not change the whole CPU, nor the rate on two busy cores. At 128 calls a second of 500 ms it changes
// neither rate nor CPU. At 64 streams of 50 tokens a second it cost 14% more CPU in the one pair that was measured, on a machine too
// busy to keep that speed; the main thread had 21% less of it. It takes 25 MiB when idle, and 50 to 130 MiB of 520 to 620 under load.
import { secretText } from '../../config/secret.ts'
import type { GraphmillError } from '../../errors.ts'
import { siblingModule } from '../../workers/sibling-module.ts'
import { type CallableWorker, startWorker } from '../../workers/worker-calls.ts'
import { createEventBuffer } from '../event-buffer.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import { type Category, ProviderError, providerError } from '../provider-error.ts'
import type { ModelSpec } from '../providers.ts'
import { type ModelTask, maxInTransit } from './protocol.ts'

/** How often the thread learns what was taken, in characters. */
const takenStep = maxInTransit / 4

export interface ModelWorker {
  /** Starts the thread unless it runs already. The first call would start it, too. */
  start(): void
  stream(call: ModelCall, signal: AbortSignal): AsyncIterable<CompletionEvent>
}

export interface ModelCall {
  readonly spec: ModelSpec
  readonly request: CompletionRequest
  /** The circuit of the model. */
  readonly circuit: string
}

/**
 * The thread keeps the process alive only while a call is read. When it breaks down, the calls in flight fail with
 * `llm_unavailable`, as if their server had gone, and the next call starts another thread.
 */
export function createModelWorker(program = siblingModule('worker', import.meta.url)): ModelWorker {
  let worker: CallableWorker | undefined

  function running(): CallableWorker {
    if (worker && !worker.ended) return worker
    worker = startWorker(program, {
      subject: 'The thread that calls models',
      // The thread inherits flags of the process, such as those for proxies. This one can't be used with a file.
      ...(process.execArgv.some((flag) => flag.startsWith('--input-type')) && { execArgv: [] }),
      // The garbage of a call dies young: a larger space would only take memory.
      resourceLimits: { maxYoungGenerationSizeMb: 24 },
    })
    return worker
  }

  async function* stream(
    { spec, request, circuit }: ModelCall,
    signal: AbortSignal,
  ): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    // A key that the server echoes is redacted in this thread, which knows only keys that it has read itself.
    if ('apiKey' in spec && spec.apiKey) secretText(spec.apiKey)
    const { origin: _, ...sent } = request
    const buffer = createEventBuffer()
    const own = running()
    const call = own.open({ spec, request: sent } satisfies ModelTask, {
      onEvent: (event) => buffer.push(event as CompletionEvent),
      onValue: () => buffer.end(),
      onError: (error) => buffer.end(error === own.ended ? unavailable(error, circuit) : modelError(error)),
    })
    signal.addEventListener('abort', buffer.wake, { once: true })
    let taken = 0
    try {
      yield* buffer.read(signal, (characters) => {
        taken += characters
        if (taken < takenStep) return
        call.send(taken)
        taken = 0
      })
    } finally {
      signal.removeEventListener('abort', buffer.wake)
      call.close()
    }
  }

  return { start: () => void running(), stream }
}

function unavailable({ message, cause }: GraphmillError, circuit: string): ProviderError {
  return providerError('llm_unavailable', message, { cause, circuit })
}

/** The error as it was in the thread. Those of a model have a category. */
function modelError(error: GraphmillError): GraphmillError {
  const category = error.details['category'] as Category | undefined
  if (!category) return error
  const copy = new ProviderError(error.code, category, error.message, { ...error, cause: error.cause })
  if (error.stack !== undefined) copy.stack = error.stack
  return copy
}

const shared = createModelWorker()

/** The model `llm`, with its calls made in the thread. `spec` is the same model as data. Starts the thread. */
export function inWorker(llm: Llm, spec: ModelSpec, thread = shared): Llm {
  thread.start()
  const { circuit } = llm
  return { ...llm, stream: (request, signal) => thread.stream({ spec, request, circuit }, signal) }
}
