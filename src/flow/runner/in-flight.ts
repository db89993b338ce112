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
  /** The delivery is in flight until the work is ended. */
  begin(delivery: Pick<Delivery, 'signal'>): InFlightDelivery & { end(): void }
  /** Runs `act`; the delivery is in flight until it has settled. */
  run<T>(delivery: Pick<Delivery, 'signal'>, act: (work: InFlightDelivery) => Promise<T>): Promise<T>
  /** Aborts all work, also what begins from now on. */
  abortAll(): void
  readonly aborted: boolean
}

class Work {
  readonly takenAt: number
  readonly #controller = new AbortController()
  /** What it is a part of until it ends. */
  readonly #lists: readonly Set<Work>[]

  constructor(takenAt: number, lists: readonly Set<Work>[]) {
    this.takenAt = takenAt
    this.#lists = lists
    for (const list of lists) list.add(this)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  abort(reason: unknown): void {
    this.#controller.abort(reason)
  }

  drop(): void {
    this.abort(new GraphmillError('aborted', 'The work is no longer wanted here.'))
  }

  end(): void {
    for (const list of this.#lists) list.delete(this)
  }
}

export function createInFlight(clock: Clock): InFlight {
  const all = new Set<Work>()
  /** The same, by the signal of the delivery's ownership. */
  const byOwner = new WeakMap<AbortSignal, Set<Work>>()
  let aborted = false

  // Many deliveries share the signal of their partition, and each listener would be compared with all before it.
  function ownedBy(signal: AbortSignal): Set<Work> {
    const known = byOwner.get(signal)
    if (known) return known
    const owned = new Set<Work>()
    byOwner.set(signal, owned)
    signal.addEventListener('abort', () => {
      for (const work of owned) work.drop()
    })
    return owned
  }

  function begin({ signal }: Pick<Delivery, 'signal'>): Work {
    const work = new Work(clock.now(), [all, ownedBy(signal)])
    if (signal.aborted || aborted) work.drop()
    return work
  }

  return {
    begin,
    async run(delivery, act) {
      const work = begin(delivery)
      try {
        return await act(work)
      } finally {
        work.end()
      }
    },
    abortAll() {
      aborted = true
      for (const work of all) work.drop()
    },
    get aborted() {
      return aborted
    },
  }
}
