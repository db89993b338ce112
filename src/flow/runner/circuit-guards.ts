// A flow's way to what is elsewhere: to its model through the model's circuit, then the governor's queue; to its store through
// the store's circuit.
import { type ErrorCode, toGraphmillError } from '../../errors.ts'
import { governedStream } from '../../llm/limits/limited-stream.ts'
import type { Caller, RateLimiter } from '../../llm/limits/rate-limiter.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../llm/llm.ts'
import type { CompletedCall } from '../../observe/extraction-metrics.ts'
import type { StoreMetrics } from '../../observe/store-metrics.ts'
import type { TripleStore } from '../../rdf/store.ts'
import type { Circuits } from './circuits.ts'
import { operatorPauseMs } from './retry.ts'

export interface CircuitGuardOptions {
  readonly rateLimiter: RateLimiter
  readonly circuits: Circuits
  readonly caller: Caller
  /** Aborted when the flow drains: what waits for a model that is away is handed back to its topic. */
  readonly drains: AbortSignal
  /** Told of each call of the model that comes to its end, timed from asking it. */
  readonly called: (call: CompletedCall) => void
}

/** What opens the circuit of a model, beside what needs its operator. A limit of the rate is the governor's. */
const awayCodes: ReadonlySet<ErrorCode> = new Set(['llm_unavailable', 'llm_model_loading', 'proxy_failed'])

/** The same model, with every call waiting for its turn, and for the model to be back where it is away. */
export function guardLlm(llm: Llm, options: CircuitGuardOptions): Llm {
  const { rateLimiter, circuits, caller, drains, called } = options
  const asked = timed(llm, called)
  async function* stream(
    request: CompletionRequest,
    signal: AbortSignal,
  ): AsyncGenerator<CompletionEvent, void> {
    await circuits.enter(llm.circuit, signal, drains)
    try {
      for await (const event of governedStream(asked, rateLimiter, request, caller, signal)) {
        if (event.type === 'end') circuits.succeeded(llm.circuit)
        yield event
      }
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry === 'operator') circuits.failed(llm.circuit, error, operatorPauseMs)
      else if (awayCodes.has(error.code)) circuits.failed(llm.circuit, error)
      // It is there, and takes the key.
      else if (error.code === 'llm_rate_limited') circuits.succeeded(llm.circuit)
      throw thrown
    } finally {
      circuits.left(llm.circuit)
    }
  }
  return { ...llm, stream, ready: (signal) => llm.ready(signal) }
}

/** The same store, with every batch waiting for it to be back where it is away, until the flow `drains`. */
export function guardStore(store: TripleStore, circuits: Circuits, drains: AbortSignal): TripleStore {
  const circuit = `store:${store.destination ?? 'the store'}`
  return {
    ...store,
    async write(triples, scope, signal) {
      await circuits.enter(circuit, signal ?? new AbortController().signal, drains)
      try {
        await store.write(triples, scope, signal)
        circuits.succeeded(circuit)
      } catch (thrown) {
        const error = toGraphmillError(thrown)
        if (error.retry === 'operator') circuits.failed(circuit, error, operatorPauseMs)
        else if (error.code === 'store_failed' || error.code === 'proxy_failed')
          circuits.failed(circuit, error, error.retryAfterMs ?? storePauseMs)
        throw thrown
      } finally {
        circuits.left(circuit)
      }
    },
  }
}

/** A store gets one batch at a time: its first failure says enough. In milliseconds. */
const storePauseMs = 1000

/** The same store, with every batch that a processor sends it counted, and timed by a clock that never goes back. */
export function meterStore(store: TripleStore, processor: string, metrics: StoreMetrics): TripleStore {
  return {
    ...store,
    async write(triples, scope, signal) {
      const start = performance.now()
      try {
        await store.write(triples, scope, signal)
      } catch (thrown) {
        if (!signal?.aborted) metrics.failed(processor)
        throw thrown
      }
      metrics.wrote(processor, { triples: triples.length, seconds: (performance.now() - start) / 1000 })
    },
  }
}

/** The same model, with every call that comes to its end timed by a clock that never goes back. */
function timed(llm: Llm, called: CircuitGuardOptions['called']): Llm {
  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    const start = performance.now()
    for await (const event of llm.stream(request, signal)) {
      if (event.type === 'end') {
        const { temperature } = request.sampling ?? {}
        called({ model: event.model, temperature, seconds: (performance.now() - start) / 1000 })
      }
      yield event
    }
  }
  return { ...llm, stream, ready: (signal) => llm.ready(signal) }
}
