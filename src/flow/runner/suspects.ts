// A message with which processes may have died is a suspect: it is handled alone, and before each step the broker stores the number of
// deaths that counts if the process dies in that step. After three deaths alone the message is dead-lettered.
import type { Delivery, Suspect } from '../../broker/broker.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import type { DeliveryOutcome } from '../../observe/metrics.ts'
import { wait } from '../../wait.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { InFlight } from './in-flight.ts'
import type { Recovery } from './recovery.ts'
import type { Solitude } from './solitude.ts'

/** Deaths alone after which the message is dead-lettered. */
const maxDeathsAlone = 3
/**
 * How long nothing is handled before a message with which a process died alone is tried again, in milliseconds; twice that after
 * each further death. A process that is killed in this time was killed for another reason, and the count starts again.
 */
const quarantineMs = 5000

export interface SuspectsOptions {
  readonly inFlight: InFlight
  readonly solitude: Solitude
  readonly recovery: Recovery
  /** Aborted when the runner stops. */
  readonly stopping: AbortSignal
  /** Handles the delivery and acks it. */
  readonly complete: (binding: ConsumerBinding, delivery: Delivery) => Promise<DeliveryOutcome>
}

/** Settles a suspect. */
export type SettleSuspect = (
  binding: ConsumerBinding,
  delivery: Delivery,
  suspect: Suspect,
) => Promise<DeliveryOutcome>

export function createSuspects(options: SuspectsOptions): SettleSuspect {
  const { inFlight, solitude, recovery, stopping, complete } = options

  async function settle(
    binding: ConsumerBinding,
    delivery: Delivery,
    suspect: Suspect,
  ): Promise<DeliveryOutcome> {
    const restore = (count: number) =>
      suspect
        .record(count)
        .catch((err: unknown) => binding.log.debug({ err }, 'the count of deaths could not be stored'))
    let deaths: number | undefined
    try {
      deaths = await suspect.deaths()
      if (deaths > 0 && deaths < maxDeathsAlone) await quarantine(binding, delivery, { suspect, deaths })
      await suspect.record(deaths + 1)
      const outcome = await attempt(binding, delivery, deaths)
      await restore(outcome === 'ok' || outcome === 'dead' ? 0 : deaths)
      return outcome
    } catch (thrown) {
      if (deaths !== undefined) await restore(deaths)
      return await recovery.recover({ binding, delivery, thrown: unrecorded(thrown) })
    }
  }

  async function attempt(
    binding: ConsumerBinding,
    delivery: Delivery,
    deaths: number,
  ): Promise<DeliveryOutcome> {
    try {
      if (deaths >= maxDeathsAlone)
        throw new GraphmillError('killed_process', `${deaths} processes died while they handled it alone.`)
      return await complete(binding, delivery)
    } catch (thrown) {
      // The processor's `onDead` may be what kills: it has one attempt.
      return await recovery.recover({ binding, delivery, thrown, withoutMessage: deaths > maxDeathsAlone })
    }
  }

  async function quarantine(
    binding: ConsumerBinding,
    delivery: Delivery,
    { suspect, deaths }: { readonly suspect: Suspect; readonly deaths: number },
  ): Promise<void> {
    const { key, position, partition } = delivery
    const ms = quarantineMs * 2 ** (deaths - 1)
    binding.log.warn(
      { key, partition, position, deaths, ms },
      'a message with which processes died waits alone',
    )
    await suspect.record(0)
    await inFlight.run(delivery, ({ signal }) => wait(ms, AbortSignal.any([signal, stopping])))
  }

  return async (binding, delivery, suspect) => {
    await solitude.enter(true)
    return settle(binding, delivery, suspect).finally(solitude.leave)
  }
}

/** Whatever was thrown, the fault is the broker's and not the message's. */
function unrecorded(thrown: unknown): GraphmillError {
  const cause = toGraphmillError(thrown)
  if (cause.code === 'aborted') return cause
  return new GraphmillError('broker_unavailable', 'The count of deaths could not be stored.', { cause })
}
