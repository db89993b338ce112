// The work on deliveries in flight, and what aborts it: the delivery is no longer owned, the grace period is over, or one of the
// outputs failed.
import type { Delivery } from '../../broker/broker.ts'
import { GraphmillError } from '../../errors.ts'
import type { Clock } from '../processor.ts'

/** The work on one delivery. */
export interface InFlightDelivery {
  /** Milliseconds since 1970. */
  readonly takenAt: number
  readonly signal: AbortSignal
  abort(reason: unknown): void
}

export interface InFlight {
  /** Runs `act`; the delivery is in flight until it has settled. */
  run<T>(delivery: Pick<Delivery, 'signal'>, act: (work: InFlightDelivery) => Promise<T>): Promise<T>
  /** Aborts all work, also what begins from now on. */
  abortAll(): void
  readonly aborted: boolean
}

export function createInFlight(clock: Clock): InFlight {
  const all = new Set<() => void>()
  /** The same, by the signal of the delivery's ownership. */
  const byOwner = new WeakMap<AbortSignal, Set<() => void>>()
  let aborted = false

  // Many deliveries share the signal of their partition, and each listener would be compared with all before it.
  function ownedBy(signal: AbortSignal): Set<() => void> {
    const known = byOwner.get(signal)
    if (known) return known
    const drops = new Set<() => void>()
    byOwner.set(signal, drops)
    signal.addEventListener('abort', () => {
      for (const drop of drops) drop()
    })
    return drops
  }

  return {
    async run(delivery, act) {
      const work = new AbortController()
      const drop = () => work.abort(new GraphmillError('aborted', 'The work is no longer wanted here.'))
      if (delivery.signal.aborted || aborted) drop()
      const owned = ownedBy(delivery.signal)
      owned.add(drop)
      all.add(drop)
      try {
        return await act({
          takenAt: clock.now(),
          signal: work.signal,
          abort: (reason) => work.abort(reason),
        })
      } finally {
        owned.delete(drop)
        all.delete(drop)
      }
    },
    abortAll() {
      aborted = true
      for (const drop of all) drop()
    },
    get aborted() {
      return aborted
    },
  }
}
