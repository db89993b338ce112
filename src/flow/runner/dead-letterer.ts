// The end of a message that is given up: its processor's last words, an entry on `progress`, its dead letter, and the ack, in
// this order, so that a crash repeats and never skips.
import type { Broker, OutgoingBytes } from '../../broker/broker.ts'
import { parseTopic, topicSpec } from '../../broker/topics.ts'
import { coded, type ErrorCode } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { ContextSigner } from '../context-signature.ts'
import type { Clock, Outputs } from '../processor.ts'
import { unitsOf } from '../units.ts'
import type { Circuits } from './circuits.ts'
import type { ContextOf } from './context.ts'
import { beginningOf, deadLetter, replayedHeader } from './dead-letter.ts'
import { causeOf, type Failure } from './failed-delivery.ts'
import type { InHand } from './in-flight.ts'
import { publishUntilStored } from './outbox.ts'
import type { Drive } from './run-handler.ts'

export interface BurialOptions {
  readonly broker: Broker
  readonly circuits: Circuits
  readonly clock: Clock
  readonly metrics: FlowMetrics | undefined
  readonly inHand: InHand
  readonly drive: Drive
  readonly contextOf: ContextOf
  readonly signer: ContextSigner
}

/** Gives up a message. Rejects, with nothing acked, where its letter or its entry on `progress` can't be stored yet. */
export type Bury = (failure: Failure) => Promise<void>

export function createBurial(options: BurialOptions): Bury {
  const { broker, circuits, clock, metrics, inHand, drive, contextOf, signer } = options
  /** By name, those that are there or being made: to ask for every letter would open a connection for each. */
  const deadTopics = new Map<string, Promise<void>>()

  // In hands of their own: words that reach nobody must not keep the letter from being written.
  async function sayLastWords(failure: Failure, message: Message): Promise<void> {
    const { line, delivery, error } = failure
    if (!line.processor.onDead || unanswerable.has(error.code)) return
    const hands = inHand.take(delivery)
    try {
      const words = line.processor.onDead(message as never, error, contextOf(line, hands.signal))
      await drive(words, { line, cause: causeOf(failure), hands })
    } catch (thrown) {
      if (coded(thrown).retry === 'later') throw thrown
      line.log.warn({ messageId: message.id, err: coded(thrown) }, 'last words could not be delivered')
    } finally {
      hands.free()
    }
  }

  async function sayDeath(failure: Failure): Promise<void> {
    const { line, delivery } = failure
    const cause = causeOf(failure)
    const id = delivery.headers[replayedHeader] ?? cause.id
    const hands = inHand.take(delivery)
    try {
      await drive(deadEntries(failure), { line, cause: { ...cause, id }, hands })
    } catch (thrown) {
      const error = coded(thrown)
      // A foreign message may have headers that fit into no entry.
      if (error.retry !== 'never' || error.code === 'topic_missing') throw thrown
      line.log.error({ messageId: cause.id, err: error }, 'a death could not be said on progress')
    } finally {
      hands.free()
    }
  }

  async function writeLetter({ line, delivery, error }: Failure): Promise<void> {
    const letter = deadLetter(delivery, error, { processor: line.processor.name, time: clock.now() })
    const hands = inHand.take(delivery)
    try {
      await storeLetter(letter, hands.signal)
    } catch (thrown) {
      if (coded(thrown).code !== 'message_too_large') throw thrown
      const position = letter.headers['dead-position']
      line.log.error({ err: coded(thrown), position }, 'a dead letter is cut')
      await storeLetter(beginningOf(letter), hands.signal)
    } finally {
      hands.free()
    }
  }

  async function storeLetter(letter: OutgoingBytes, signal: AbortSignal): Promise<void> {
    const ensured = ensureTopic(letter.topic)
    await ensured
    try {
      await publishUntilStored(letter, { broker, circuits }, signal)
    } catch (thrown) {
      if (coded(thrown).code !== 'topic_missing') throw thrown
      // Deleted since. The message may have no topic to be handed back to either, so this can't wait for another time.
      if (deadTopics.get(letter.topic) === ensured) deadTopics.delete(letter.topic)
      await ensureTopic(letter.topic)
      await publishUntilStored(letter, { broker, circuits }, signal)
    }
  }

  /** With a key, a request that no processor has signed can't report the death of a unit. */
  function mayName({ message, error }: Failure): boolean {
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
    const { line, delivery, message, error } = failure
    const { id, documentId, chunkId } = causeOf(failure)
    if (message) await sayLastWords(failure, message)
    if (documentId && !isDeadEntry(message) && mayName(failure)) await sayDeath(failure)
    await writeLetter(failure)
    await delivery.ack()
    metrics?.dead(line.processor.name, error.code)
    line.log.error({ messageId: id, documentId, chunkId, err: error }, 'message is dead')
  }
}

/** Of these nobody gets the last words: there is nowhere to send them, or the message is not what the processor reads. */
const unanswerable: ReadonlySet<ErrorCode> = new Set([
  'reply_topic_missing',
  'reply_topic_refused',
  'message_misplaced',
  'context_unsigned',
])

async function* deadEntries(failure: Failure): Outputs<'progress'> {
  const { line, delivery, message, error } = failure
  const unit = unitOf(failure)
  const { part = null } = message?.type === 'TextDocument' ? message.payload : {}
  const { code: type, message: text } = error
  const said = { kind: 'dead', part, topic: delivery.topic, error: { type, message: text } }
  const units = unit === null ? [null] : unitsOf(unit, line.services.settings)
  for (const each of units) yield { to: 'progress', payload: { ...said, unit: each } }
}

/** An entry about a dead message that died itself is not said again: nobody could ever take it. */
const isDeadEntry = (message: Message | undefined) =>
  message?.type === 'Progress' && message.payload.kind === 'dead'

/** The unit of work that it belonged to, if that can be told. */
function unitOf({ line, delivery, message }: Failure): string | null {
  const payload = message?.payload as { readonly context?: Readonly<Record<string, string>> } | undefined
  if (payload?.context?.['unit']) return payload.context['unit']
  if (line.port === 'chunk' || line.port === 'prompt-reply') return line.processor.name
  const reply = parseTopic(delivery.headers['replyTo'] ?? '')
  if (reply?.class === 'response') return reply.receiver
  return delivery.headers['source'] ?? null
}
