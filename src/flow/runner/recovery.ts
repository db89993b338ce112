// What becomes of a delivery that failed, by the table of errors: it is tried again, waits for its operator, or is dead-lettered.
import type { Delivery } from '../../broker/broker.ts'
import { type ErrorCode, type GraphmillError, toGraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import type { DeliveryOutcome } from '../../observe/metrics.ts'
import type { Outputs } from '../processor.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import { createDeadLetterer } from './dead-letterer.ts'
import { causeOf, type FailedDelivery, positionOf } from './failed-delivery.ts'
import type { FlowEntries } from './flow-entries.ts'
import { createLogThrottle } from './log-throttle.ts'
import type { RunnerResources } from './resources.ts'
import { backoff, nextStep, operatorPauseMs } from './retry.ts'
import { runHandler } from './run-handler.ts'

export interface RecoveryOptions {
  readonly entries: FlowEntries
  /** See `RunnerOptions`. */
  readonly onOperatorFault?: (error: GraphmillError) => void
}

export interface HandlingFailure {
  readonly binding: ConsumerBinding
  readonly delivery: Delivery
  readonly thrown: unknown
  /** Dead-letters the bytes without calling the processor's `onDead`. Default false. */
  readonly withoutMessage?: boolean
}

export interface Recovery {
  /** Settles a delivery that failed. */
  recover(failure: HandlingFailure): Promise<DeliveryOutcome>
  /** The delivery is settled: should the message come again, its failures count from none. */
  forget(delivery: Delivery): void
}

/** How often the same wait is reported on `progress`, in milliseconds. */
const waitingReportMs = 30_000

/** The errors of a message that waits for a limit: more replicas would only wait too. */
const limitCodes: ReadonlySet<ErrorCode> = new Set(['llm_rate_limited', 'budget_exhausted'])

export function createRecovery(
  resources: RunnerResources,
  { entries, onOperatorFault }: RecoveryOptions,
): Recovery {
  const { clock, codec, inFlight, topics } = resources
  const { missing } = topics
  const deadLetter = createDeadLetterer(resources)
  /** How often a message failed unexpectedly, by its position. */
  const unexpected = new Map<string, number>()
  const logThrottle = createLogThrottle(clock)
  const waitingThrottle = createLogThrottle(clock, waitingReportMs)

  // Decoded again, so that a message that waits takes no more memory than its delivery.
  function decodeAgain(delivery: Delivery): Message | undefined {
    try {
      return codec.decode(delivery.value, delivery.headers, delivery)
    } catch {
      return codec.answerable?.(delivery.headers, delivery)
    }
  }

  /** Logs one line in a while at `level`, and one for every message at the level `debug`. */
  function log(
    level: 'warn' | 'error',
    { binding, error, message }: FailedDelivery,
    phrase: string,
    more: object,
  ): void {
    const alike = logThrottle(`${phrase} ${binding.topic} ${binding.group} ${error.code}`)
    const fields = { messageId: message?.id, err: error, ...more, ...(alike ? { alike } : {}) }
    binding.log[alike === undefined ? 'debug' : level](fields, phrase)
  }

  /** Reports now and then what the processor waits for. A report that can't be stored is left to the next time. */
  async function reportWaiting({ binding, error }: FailedDelivery): Promise<void> {
    if (error.code === 'unexpected' || error.code === 'aborted' || error.code === 'broker_unavailable') return
    if (waitingThrottle(`${binding.topic} ${binding.group} ${error.code}`) === undefined) return
    await entries
      .waiting(binding, error)
      .catch((thrown) => binding.log.debug({ err: toGraphmillError(thrown) }, 'a wait could not be reported'))
  }

  function countUnexpected({ delivery, error }: FailedDelivery): number {
    if (error.code !== 'unexpected') return 0
    const count = (unexpected.get(positionOf(delivery)) ?? 0) + 1
    unexpected.set(positionOf(delivery), count)
    return count
  }

  function forget(delivery: Delivery): void {
    unexpected.delete(positionOf(delivery))
  }

  async function tryAgain(failure: FailedDelivery, delayMs: number): Promise<DeliveryOutcome> {
    const { delivery, message, error } = failure
    log('warn', failure, 'message will be tried again', { delayMs })
    await reportWaiting(failure)
    const outcome = await handBack(delivery, withinDeadline(message, delayMs))
    return limitCodes.has(error.code) ? 'limited' : outcome
  }

  /** A message that must wait comes back at its deadline at the latest, and is then given up. */
  function withinDeadline(message: Message | undefined, delayMs: number): number {
    const left = message?.deadline ? message.deadline - clock.now() : Number.POSITIVE_INFINITY
    return Math.max(0, Math.min(delayMs, left))
  }

  async function pause(failure: FailedDelivery): Promise<DeliveryOutcome> {
    const { binding, delivery, message, error } = failure
    if (onOperatorFault) {
      onOperatorFault(error)
      return await handBack(delivery, operatorPauseMs)
    }
    log('error', failure, 'flow is paused until its operator acts', { remedy: error.remedy })
    await inFlight
      .run(delivery, (work) =>
        runHandler(resources, pausedEntry(error), { binding, cause: causeOf(failure), work }),
      )
      .catch((thrown) =>
        binding.log.error({ err: toGraphmillError(thrown) }, 'the pause could not be reported on progress'),
      )
    await reportWaiting(failure)
    return await handBack(delivery, withinDeadline(message, operatorPauseMs * (0.5 + Math.random() / 2)))
  }

  async function giveUp(failure: FailedDelivery): Promise<DeliveryOutcome> {
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
    async recover({ binding, delivery, thrown, withoutMessage = false }) {
      const error = toGraphmillError(thrown)
      const message = withoutMessage ? undefined : decodeAgain(delivery)
      const failure: FailedDelivery = { binding, delivery, message, error }
      if (delivery.signal.aborted) return 'dropped'
      if (inFlight.aborted || (error.code === 'topic_missing' && missing.size > 0))
        return await handBack(delivery, 0)
      const count = countUnexpected(failure)
      // A message of a topic that is gone is never delivered again.
      if (missing.has(delivery.topic)) return await giveUp(failure)
      const next = nextStep(error, delivery.attempt, count)
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
