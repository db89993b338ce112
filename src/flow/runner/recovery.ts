// What becomes of a message that failed, by the table of errors: it is tried again, waits for its operator, or is given up.
import type { Delivery } from '../../broker/broker.ts'
import { type GraphmillError, toGraphmillError } from '../../errors.ts'
import type { Outcome } from '../../observe/metrics.ts'
import type { Clock, Outputs } from '../processor.ts'
import type { DeadLetterer } from './dead-letterer.ts'
import { causeOf, type FailedDelivery, placeOf } from './failed-delivery.ts'
import type { FlowEntries } from './flow-entries.ts'
import type { InFlight } from './in-flight.ts'
import { createLogThrottle } from './log-throttle.ts'
import { backoff, type NextStep, nextStep, operatorPauseMs } from './retry.ts'
import type { RunHandler } from './run-handler.ts'

export interface RecoveryOptions {
  readonly clock: Clock
  readonly inFlight: InFlight
  readonly runHandler: RunHandler
  readonly deadLetter: DeadLetterer
  readonly entries: FlowEntries
  /** Topics of the flows that are gone. */
  readonly missing: ReadonlySet<string>
  /** See `RunnerOptions`. */
  readonly onOperatorFault: ((error: GraphmillError) => void) | undefined
}

export interface Recovery {
  /** Settles a delivery that failed. Resolves with what became of it. */
  recover(failure: FailedDelivery): Promise<Outcome>
  /** It has come to its end: should it come again, its failures count from none. */
  forget(delivery: Delivery): void
}

/** How often the same wait is reported on `progress`, in milliseconds. */
const betweenWaitingMs = 30_000

export function createRecovery(options: RecoveryOptions): Recovery {
  const { clock, inFlight, runHandler, deadLetter, entries, missing, onOperatorFault } = options
  /** How often a message failed unexpectedly, by its place. */
  const unexpected = new Map<string, number>()
  const due = createLogThrottle(clock)
  const waitingIsDue = createLogThrottle(clock, betweenWaitingMs)

  /** Says it once in a while, and for every message at the level `debug`. */
  function say(
    level: 'warn' | 'error',
    { binding, error, message }: FailedDelivery,
    phrase: string,
    more: object,
  ): void {
    const alike = due(`${phrase} ${binding.topic} ${binding.group} ${error.code}`)
    const fields = { messageId: message?.id, err: error, ...more, ...(alike ? { alike } : {}) }
    binding.log[alike === undefined ? 'debug' : level](fields, phrase)
  }

  /** Reports once in a while what the processor waits for; what can not be reported now is so later. */
  async function sayWaiting({ binding, error }: FailedDelivery): Promise<void> {
    if (error.code === 'unexpected' || error.code === 'aborted' || error.code === 'broker_unavailable') return
    if (waitingIsDue(`${binding.topic} ${binding.group} ${error.code}`) === undefined) return
    await entries
      .waiting(binding, error)
      .catch((thrown) => binding.log.debug({ err: toGraphmillError(thrown) }, 'a wait could not be reported'))
  }

  function countUnexpected({ delivery, error }: FailedDelivery): number {
    if (error.code !== 'unexpected') return 0
    const count = (unexpected.get(placeOf(delivery)) ?? 0) + 1
    unexpected.set(placeOf(delivery), count)
    return count
  }

  function forget(delivery: Delivery): void {
    unexpected.delete(placeOf(delivery))
  }

  async function tryAgain(failure: FailedDelivery, delayMs: number): Promise<Outcome> {
    const { delivery, message, error } = failure
    say('warn', failure, 'message will be tried again', { delayMs })
    await sayWaiting(failure)
    const left = message?.deadline ? message.deadline - clock.now() : Number.POSITIVE_INFINITY
    const outcome = await handBack(delivery, Math.max(0, Math.min(delayMs, left)))
    return error.code === 'llm_rate_limited' ? 'limited' : outcome
  }

  async function pause(failure: FailedDelivery): Promise<Outcome> {
    const { binding, delivery, error } = failure
    if (onOperatorFault) {
      onOperatorFault(error)
      return await handBack(delivery, operatorPauseMs)
    }
    say('error', failure, 'flow is paused until its operator acts', { remedy: error.remedy })
    const held = inFlight.take(delivery)
    await runHandler(pausedEntry(error), { binding, cause: causeOf(failure), held })
      .catch((thrown) =>
        binding.log.error({ err: toGraphmillError(thrown) }, 'pause could not be said on progress'),
      )
      .finally(held.free)
    await sayWaiting(failure)
    return await handBack(delivery, operatorPauseMs * (0.5 + Math.random() / 2))
  }

  async function giveUp(failure: FailedDelivery): Promise<Outcome> {
    const { binding, delivery, message } = failure
    try {
      await deadLetter(failure)
      forget(delivery)
      return 'dead'
    } catch (thrown) {
      binding.log.error(
        { messageId: message?.id, err: toGraphmillError(thrown) },
        'dead letter could not be written yet',
      )
      return await handBack(delivery, backoff(delivery.attempt))
    }
  }

  return {
    async recover(failure) {
      const { delivery, error } = failure
      if (delivery.signal.aborted) return 'dropped'
      if (inFlight.aborted || (error.code === 'topic_missing' && missing.size > 0))
        return await handBack(delivery, 0)
      const count = countUnexpected(failure)
      // Of a topic that is gone nobody gets a message again.
      const next: NextStep = missing.has(delivery.topic)
        ? { step: 'dead' }
        : nextStep(error, delivery.attempt, count)
      switch (next.step) {
        case 'retry':
          return await tryAgain(failure, next.delayMs)
        case 'operator':
          return await pause(failure)
        case 'dead':
          return await giveUp(failure)
        default:
          return next satisfies never
      }
    },
    forget,
  }
}

async function handBack(delivery: Delivery, delayMs: number): Promise<'retried'> {
  await delivery.retryLater(delayMs)
  return 'retried'
}

async function* pausedEntry({ code: type, message }: GraphmillError): Outputs<'progress'> {
  yield { to: 'progress', payload: { kind: 'paused', error: { type, message } } }
}
