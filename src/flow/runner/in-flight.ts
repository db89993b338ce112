// What is in hand, and what aborts the work on it: its ownership is lost, the grace period is over, or one of its outputs failed.
import type { Delivery } from '../../broker/broker.ts'
import { GraphmillError } from '../../errors.ts'
import type { Clock } from '../processor.ts'

/** The work on one delivery. */
export interface InFlightDelivery {
  /** Milliseconds since 1970. */
  readonly takenAt: number
  readonly signal: AbortSignal
  abort(reason: unknown): void
  /** The work is over. */
  free(): void
}

export interface InFlight {
  take(delivery: Pick<Delivery, 'signal'>): InFlightDelivery
  /** Aborts all that is in hand, and whatever is taken from now on. */
  abortAll(): void
  readonly aborted: boolean
}

export function createInFlight(clock: Clock): InFlight {
  const all = new Set<() => void>()
  /** The same, by the signal of whoever owns the delivery. */
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
    take(delivery) {
      const held = new AbortController()
      const drop = () => held.abort(new GraphmillError('aborted', 'The work is not wanted here any more.'))
      if (delivery.signal.aborted || aborted) drop()
      const owned = ownedBy(delivery.signal)
      owned.add(drop)
      all.add(drop)
      const free = () => {
        owned.delete(drop)
        all.delete(drop)
      }
      return { takenAt: clock.now(), signal: held.signal, abort: (reason) => held.abort(reason), free }
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
