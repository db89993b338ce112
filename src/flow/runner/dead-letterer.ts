// The end of a message that is given up: its processor's last words, an entry on `progress`, its dead letter, and the ack, in
// this order, so that a crash repeats and never skips.
import type { Broker, OutgoingBytes } from '../../broker/broker.ts'
import { parseTopic, topicSpec } from '../../broker/topics.ts'
import { type ErrorCode, toGraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { ContextSigner } from '../context-signature.ts'
import type { Clock, Outputs } from '../processor.ts'
import { unitsOf } from '../units.ts'
import type { Circuits } from './circuits.ts'
import type { ContextOf } from './context.ts'
import { beginningOf, deadLetter, replayedHeader } from './dead-letter.ts'
import { causeOf, type FailedDelivery } from './failed-delivery.ts'
import type { InFlight } from './in-flight.ts'
import { publishUntilStored } from './outbox.ts'
import type { RunHandler } from './run-handler.ts'

export interface DeadLettererOptions {
  readonly broker: Broker
  readonly circuits: Circuits
  readonly clock: Clock
  readonly metrics: FlowMetrics | undefined
  readonly inFlight: InFlight
  readonly runHandler: RunHandler
  readonly contextOf: ContextOf
  readonly signer: ContextSigner
}

/** Gives up a message. Rejects, with nothing acked, where its letter or its entry on `progress` can't be stored yet. */
export type DeadLetterer = (failure: FailedDelivery) => Promise<void>

export function createDeadLetterer(options: DeadLettererOptions): DeadLetterer {
  const { broker, circuits, clock, metrics, inFlight, runHandler, contextOf, signer } = options
  /** By name, those that are there or being made: to ask for every letter would open a connection for each. */
  const deadTopics = new Map<string, Promise<void>>()

  // In hands of their own: words that reach nobody must not keep the letter from being written.
  async function sayLastWords(failure: FailedDelivery, message: Message): Promise<void> {
    const { binding, delivery, error } = failure
    if (!binding.processor.onDead || unanswerable.has(error.code)) return
    const held = inFlight.take(delivery)
    try {
      const words = binding.processor.onDead(message as never, error, contextOf(binding, held.signal))
      await runHandler(words, { binding, cause: causeOf(failure), held })
    } catch (thrown) {
      if (toGraphmillError(thrown).retry === 'later') throw thrown
      binding.log.warn(
        { messageId: message.id, err: toGraphmillError(thrown) },
        'last words could not be delivered',
      )
    } finally {
      held.free()
    }
  }

  async function sayDeath(failure: FailedDelivery): Promise<void> {
    const { binding, delivery } = failure
    const cause = causeOf(failure)
    const id = delivery.headers[replayedHeader] ?? cause.id
    const held = inFlight.take(delivery)
    try {
      await runHandler(deadEntries(failure), { binding, cause: { ...cause, id }, held })
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      // A foreign message may have headers that fit into no entry.
      if (error.retry !== 'never' || error.code === 'topic_missing') throw thrown
      binding.log.error({ messageId: cause.id, err: error }, 'a death could not be said on progress')
    } finally {
      held.free()
    }
  }

  async function writeLetter({ binding, delivery, error }: FailedDelivery): Promise<void> {
    const letter = deadLetter(delivery, error, { processor: binding.processor.name, time: clock.now() })
    const held = inFlight.take(delivery)
    try {
      await storeLetter(letter, held.signal)
    } catch (thrown) {
      if (toGraphmillError(thrown).code !== 'message_too_large') throw thrown
      const position = letter.headers['dead-position']
      binding.log.error({ err: toGraphmillError(thrown), position }, 'a dead letter is cut')
      await storeLetter(beginningOf(letter), held.signal)
    } finally {
      held.free()
    }
  }

  async function storeLetter(letter: OutgoingBytes, signal: AbortSignal): Promise<void> {
    const ensured = ensureTopic(letter.topic)
    await ensured
    try {
      await publishUntilStored(letter, { broker, circuits }, signal)
    } catch (thrown) {
      if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
      // Deleted since. The message may have no topic to be handed back to either, so this can't wait for another time.
      if (deadTopics.get(letter.topic) === ensured) deadTopics.delete(letter.topic)
      await ensureTopic(letter.topic)
      await publishUntilStored(letter, { broker, circuits }, signal)
    }
  }

  /** With a key, a request that no processor has signed can't report the death of a unit. */
  function mayName({ message, error }: FailedDelivery): boolean {
    if (error.code === 'context_unsigned') return false
    return message?.type !== 'PromptRequest' || signer.accepts(message, message.replyTo ?? '')
  }

  function ensureTopic(name: string): Promise<void> {
    const known = deadTopics.get(name)
    if (known) return known
    const ensured = broker.ensureTopics([topicSpec(name)])
    deadTopics.set(name, ensured)
    ensured.catch(() => deadTopics.delete(name))
    return ensured
  }

  return async (failure) => {
    const { binding, delivery, message, error } = failure
    const { id, documentId, chunkId } = causeOf(failure)
    if (message) await sayLastWords(failure, message)
    if (documentId && !isDeadEntry(message) && mayName(failure)) await sayDeath(failure)
    await writeLetter(failure)
    await delivery.ack()
    metrics?.dead(binding.processor.name, error.code)
    binding.log.error({ messageId: id, documentId, chunkId, err: error }, 'message is dead')
  }
}

/** Of these nobody gets the last words: there is nowhere to send them, or the message is not what the processor reads. */
const unanswerable: ReadonlySet<ErrorCode> = new Set([
  'reply_topic_missing',
  'reply_topic_refused',
  'message_misplaced',
  'context_unsigned',
])

async function* deadEntries(failure: FailedDelivery): Outputs<'progress'> {
  const { binding, delivery, message, error } = failure
  const unit = unitOf(failure)
  const { part = null } = message?.type === 'TextDocument' ? message.payload : {}
  const { code: type, message: text } = error
  const said = { kind: 'dead', part, topic: delivery.topic, error: { type, message: text } }
  const units = unit === null ? [null] : unitsOf(unit, binding.services.settings)
  for (const each of units) yield { to: 'progress', payload: { ...said, unit: each } }
}

/** An entry about a dead message that died itself is not said again: nobody could ever take it. */
const isDeadEntry = (message: Message | undefined) =>
  message?.type === 'Progress' && message.payload.kind === 'dead'

/** The unit of work that it belonged to, if that can be told. */
function unitOf({ binding, delivery, message }: FailedDelivery): string | null {
  const payload = message?.payload as { readonly context?: Readonly<Record<string, string>> } | undefined
  if (payload?.context?.['unit']) return payload.context['unit']
  if (binding.port === 'chunk' || binding.port === 'prompt-reply') return binding.processor.name
  const reply = parseTopic(delivery.headers['replyTo'] ?? '')
  if (reply?.class === 'response') return reply.receiver
  return delivery.headers['source'] ?? null
}
