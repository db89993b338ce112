// Circuits remember which servers and topics are unavailable. While a circuit is open, callers wait, and one at a time probes it.
import { setTimeout as wait } from 'node:timers/promises'
import type { GraphmillError } from '../../errors.ts'
import { backoff } from './retry.ts'

export interface Circuits {
  /**
   * Resolves when `key` may be tried: as the probe or after a probe has succeeded; undefined when the circuit is closed. When
   * `leaves` is aborted, rejects with the error that opened the circuit instead of waiting.
   */
  enter(key: string, signal: AbortSignal, leaves?: AbortSignal): Promise<void> | undefined
  /** `key` worked: the circuit closes. */
  succeeded(key: string): void
  /** `key` failed. The circuit opens after five failures without a success between them, or at once for at least `forMs`. */
  failed(key: string, error: GraphmillError, forMs?: number): void
  /** The call ended without a result for `key`: another may probe at once. */
  left(key: string): void
  /** The keys of the open circuits. */
  open(): string[]
  /** The last failure of `key`, until it works again. */
  reason(key: string): GraphmillError | undefined
}

interface Circuit {
  error: GraphmillError
  failures: number
  openUntil: number
  probing: boolean
  closed: AbortController
}

export interface CircuitsOptions {
  /** A monotonic clock, in milliseconds. Default `performance.now`. */
  readonly now?: () => number
  /** From 0 up to 1. Default `Math.random`. */
  readonly random?: () => number
}

export function createCircuits({
  now = () => performance.now(),
  random = Math.random,
}: CircuitsOptions = {}): Circuits {
  const circuits = new Map<string, Circuit>()

  const openCircuit = (key: string): Circuit | undefined => {
    const circuit = circuits.get(key)
    return circuit?.openUntil === 0 ? undefined : circuit
  }

  async function waitFor(key: string, signal: AbortSignal, leaves: AbortSignal | undefined): Promise<void> {
    for (let circuit = openCircuit(key); circuit; circuit = openCircuit(key)) {
      const left = circuit.openUntil - now()
      if (left <= 0 && !circuit.probing) {
        circuit.probing = true
        return
      }
      if (leaves?.aborted) throw circuit.error
      // A probe that never reports, since its handler was aborted, must not block the others for ever.
      if (left <= -probeMs) circuit.probing = false
      const ends = [signal, circuit.closed.signal, ...(leaves ? [leaves] : [])]
      await wait(Math.max(1, Math.min(left > 0 ? left : 100, 1000)), undefined, {
        signal: AbortSignal.any(ends),
      }).catch((error) => {
        if (signal.aborted) throw signal.reason ?? error
      })
    }
  }

  return {
    enter: (key, signal, leaves) => (openCircuit(key) ? waitFor(key, signal, leaves) : undefined),
    succeeded(key) {
      const circuit = circuits.get(key)
      if (!circuit) return
      circuits.delete(key)
      circuit.closed.abort()
    },
    failed(key, error, forMs = 0) {
      const circuit = circuits.get(key) ?? {
        error,
        failures: 0,
        openUntil: 0,
        probing: false,
        closed: new AbortController(),
      }
      circuits.set(key, circuit)
      circuit.error = error
      // Calls that were in flight when the circuit opened fail for the same reason.
      if (circuit.openUntil > now() && forMs === 0) return
      circuit.failures++
      circuit.probing = false
      if (circuit.failures >= failuresToOpen || forMs > 0)
        circuit.openUntil =
          now() + Math.max(forMs, backoff(Math.max(0, circuit.failures - failuresToOpen), random))
    },
    left(key) {
      const circuit = circuits.get(key)
      if (circuit) circuit.probing = false
    },
    reason: (key) => circuits.get(key)?.error,
    open: () => [...circuits].filter(([, circuit]) => circuit.openUntil > 0).map(([key]) => key),
  }
}

const failuresToOpen = 5

/** How long a probe may take before it counts as lost, in milliseconds. */
const probeMs = 150_000
