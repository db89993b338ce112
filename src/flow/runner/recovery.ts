// What becomes of a message that failed, by the table of errors: it is tried again, waits for its operator, or is given up.
import type { Delivery } from '../../broker/broker.ts'
import { coded, type GraphmillError } from '../../errors.ts'
import type { Outcome } from '../../observe/metrics.ts'
import type { Clock, Outputs } from '../processor.ts'
import type { Bury } from './dead-letterer.ts'
import { causeOf, type Failure, placeOf } from './failed-delivery.ts'
import type { FlowEntries } from './flow-entries.ts'
import type { InHand } from './in-flight.ts'
import { createSparing } from './log-throttle.ts'
import { backoff, type NextStep, nextStep, operatorPauseMs } from './retry.ts'
import type { Drive } from './run-handler.ts'

export interface RecoveryOptions {
  readonly clock: Clock
  readonly inHand: InHand
  readonly drive: Drive
  readonly bury: Bury
  readonly entries: FlowEntries
  /** Topics of the flows that are gone. */
  readonly missing: ReadonlySet<string>
  /** See `RunnerOptions`. */
  readonly onOperatorFault: ((error: GraphmillError) => void) | undefined
}

export interface Recovery {
  /** Settles a delivery that failed. Resolves with what became of it. */
  recover(failure: Failure): Promise<Outcome>
  /** It has come to its end: should it come again, its failures count from none. */
  forget(delivery: Delivery): void
}

/** How often the same wait is reported on `progress`, in milliseconds. */
const betweenWaitingMs = 30_000

export function createRecovery(options: RecoveryOptions): Recovery {
  const { clock, inHand, drive, bury, entries, missing, onOperatorFault } = options
  /** How often a message failed unexpectedly, by its place. */
  const unexpected = new Map<string, number>()
  const due = createSparing(clock)
  const waitingIsDue = createSparing(clock, betweenWaitingMs)

  /** Says it once in a while, and for every message at the level `debug`. */
  function say(
    level: 'warn' | 'error',
    { line, error, message }: Failure,
    phrase: string,
    more: object,
  ): void {
    const alike = due(`${phrase} ${line.topic} ${line.group} ${error.code}`)
    const fields = { messageId: message?.id, err: error, ...more, ...(alike ? { alike } : {}) }
    line.log[alike === undefined ? 'debug' : level](fields, phrase)
  }

  /** Reports once in a while what the processor waits for; what can not be reported now is so later. */
  async function sayWaiting({ line, error }: Failure): Promise<void> {
    if (error.code === 'unexpected' || error.code === 'aborted' || error.code === 'broker_unavailable') return
    if (waitingIsDue(`${line.topic} ${line.group} ${error.code}`) === undefined) return
    await entries
      .waiting(line, error)
      .catch((thrown) => line.log.debug({ err: coded(thrown) }, 'a wait could not be reported'))
  }

  function countUnexpected({ delivery, error }: Failure): number {
    if (error.code !== 'unexpected') return 0
    const count = (unexpected.get(placeOf(delivery)) ?? 0) + 1
    unexpected.set(placeOf(delivery), count)
    return count
  }

  function forget(delivery: Delivery): void {
    unexpected.delete(placeOf(delivery))
  }

  async function tryAgain(failure: Failure, delayMs: number): Promise<Outcome> {
    const { delivery, message, error } = failure
    say('warn', failure, 'message will be tried again', { delayMs })
    await sayWaiting(failure)
    const left = message?.deadline ? message.deadline - clock.now() : Number.POSITIVE_INFINITY
    const outcome = await handBack(delivery, Math.max(0, Math.min(delayMs, left)))
    return error.code === 'llm_rate_limited' ? 'limited' : outcome
  }

  async function pause(failure: Failure): Promise<Outcome> {
    const { line, delivery, error } = failure
    if (onOperatorFault) {
      onOperatorFault(error)
      return await handBack(delivery, operatorPauseMs)
    }
    say('error', failure, 'flow is paused until its operator acts', { remedy: error.remedy })
    const hands = inHand.take(delivery)
    await drive(pausedEntry(error), { line, cause: causeOf(failure), hands })
      .catch((thrown) => line.log.error({ err: coded(thrown) }, 'pause could not be said on progress'))
      .finally(hands.free)
    await sayWaiting(failure)
    return await handBack(delivery, operatorPauseMs * (0.5 + Math.random() / 2))
  }

  async function giveUp(failure: Failure): Promise<Outcome> {
    const { line, delivery, message } = failure
    try {
      await bury(failure)
      forget(delivery)
      return 'dead'
    } catch (thrown) {
      line.log.error({ messageId: message?.id, err: coded(thrown) }, 'dead letter could not be written yet')
      return await handBack(delivery, backoff(delivery.attempt))
    }
  }

  return {
    async recover(failure) {
      const { delivery, error } = failure
      if (delivery.signal.aborted) return 'dropped'
      if (inHand.aborted || (error.code === 'topic_missing' && missing.size > 0))
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
