// How a flow reaches its model and its store: each call waits for the circuit of the model or store, and calls of the model then wait
// for the rate limiter.
import { type ErrorCode, toGraphmillError } from '../../errors.ts'
import { limitedStream } from '../../llm/limits/limited-stream.ts'
import type { Caller, RateLimiter } from '../../llm/limits/rate-limiter.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../llm/llm.ts'
import type { CompletedCall } from '../../observe/extraction-metrics.ts'
import type { StoreMetrics } from '../../observe/store-metrics.ts'
import type { TripleStore } from '../../rdf/store.ts'
import type { RowStore } from '../../rows/appended-rows.ts'
import type { Circuits } from './circuits.ts'
import { operatorPauseMs } from './retry.ts'

export interface CircuitGuardOptions {
  readonly rateLimiter: RateLimiter
  readonly circuits: Circuits
  readonly caller: Caller
  /** Aborted when the flow drains: calls that wait for an unavailable model fail, so that their messages go back to their topic. */
  readonly drains: AbortSignal
  /** Called for each call of the model that ends well, with its duration. */
  readonly called: (call: CompletedCall) => void
}

/** What opens the circuit of a model, besides faults for the operator. Limits of the rate are the rate limiter's. */
const unavailableCodes: ReadonlySet<ErrorCode> = new Set([
  'llm_unavailable',
  'llm_model_loading',
  'proxy_failed',
])

/** The same model; every call waits for its turn, and while the model is unavailable. */
export function guardLlm(llm: Llm, options: CircuitGuardOptions): Llm {
  const { rateLimiter, circuits, caller, drains, called } = options
  const asked = timed(llm, called)
  async function* stream(
    request: CompletionRequest,
    signal: AbortSignal,
  ): AsyncGenerator<CompletionEvent, void> {
    await circuits.enter(llm.circuit, signal, drains)
    try {
      for await (const event of limitedStream(asked, rateLimiter, request, caller, signal)) {
        if (event.type === 'end') circuits.succeeded(llm.circuit)
        yield event
      }
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry === 'operator') circuits.failed(llm.circuit, error, operatorPauseMs)
      else if (unavailableCodes.has(error.code)) circuits.failed(llm.circuit, error)
      // The server answers and accepts the key.
      else if (error.code === 'llm_rate_limited') circuits.succeeded(llm.circuit)
      throw thrown
    } finally {
      circuits.left(llm.circuit)
    }
  }
  return { ...llm, stream, ready: (signal) => llm.ready(signal) }
}

/** The same store; every batch and withdrawal waits while the store is unavailable, until the flow `drains`. */
export function guardStore(store: TripleStore, circuits: Circuits, drains: AbortSignal): TripleStore {
  return around(store, inCircuit(`store:${store.destination ?? 'the store'}`, circuits, drains))
}

/** The same store of rows, in the same way. */
export function guardRows(store: RowStore, circuits: Circuits, drains: AbortSignal): RowStore {
  const run = inCircuit(`store:${store.destination ?? 'the store of rows'}`, circuits, drains)
  return {
    ...store,
    write: (rows, tables, scope, signal) => run(() => store.write(rows, tables, scope, signal), signal),
  }
}

/** Runs acts on a store while it is available. */
function inCircuit(circuit: string, circuits: Circuits, drains: AbortSignal) {
  return async (act: () => Promise<void>, signal: AbortSignal | undefined): Promise<void> => {
    await circuits.enter(circuit, signal ?? new AbortController().signal, drains)
    try {
      await act()
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
  }
}

/** Acts on the store go through `run`; `triples` is the number of those that are written. */
function around(
  store: TripleStore,
  run: (act: () => Promise<void>, signal: AbortSignal | undefined, triples?: number) => Promise<void>,
): TripleStore {
  const { support } = store
  return {
    ...store,
    write: (triples, scope, signal) => run(() => store.write(triples, scope, signal), signal, triples.length),
    ...(support && {
      support: {
        state(statements, scope, signal) {
          const count = statements.reduce((sum, { triples }) => sum + triples.length, 0)
          return run(() => support.state(statements, scope, signal), signal, count)
        },
        withdraw: (withdrawal, scope, signal) =>
          run(() => support.withdraw(withdrawal, scope, signal), signal),
      },
    }),
  }
}

/** How long a store's circuit opens at its first failure, in milliseconds: it gets one batch at a time, so its first failure is enough. */
const storePauseMs = 1000

/** The same store; the batches of the processor are counted and timed, by a monotonic clock. */
export function meterStore(store: TripleStore, processor: string, metrics: StoreMetrics): TripleStore {
  return around(store, async (act, signal, triples) => {
    const start = performance.now()
    try {
      await act()
    } catch (thrown) {
      if (!signal?.aborted) metrics.failed(processor)
      throw thrown
    }
    if (triples === undefined) return
    metrics.wrote(processor, { triples, seconds: (performance.now() - start) / 1000 })
  })
}

/** The same model; calls that end well are timed by a monotonic clock. */
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
