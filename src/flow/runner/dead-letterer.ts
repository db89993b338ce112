// The end of a message that is given up: its processor's `onDead`, an entry on `progress`, its dead letter, and the ack, in this order,
// so that a crash repeats steps and never skips one.
import type { OutgoingBytes } from '../../broker/broker.ts'
import { parseTopic, topicSpec } from '../../broker/topics.ts'
import { type ErrorCode, toGraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import { unitsOf } from '../expected-units.ts'
import type { Outputs } from '../processor.ts'
import { contextOf } from './context.ts'
import { beginningOf, deadLetter, replayedHeader } from './dead-letter.ts'
import { causeOf, type FailedDelivery } from './failed-delivery.ts'
import { publishUntilStored } from './outbox.ts'
import type { RunnerResources } from './resources.ts'
import { runHandler } from './run-handler.ts'

/** Gives up a message. Rejects, with nothing acked, when its letter or its entry on `progress` can't be stored yet. */
export type DeadLetterer = (failure: FailedDelivery) => Promise<void>

export function createDeadLetterer(resources: RunnerResources): DeadLetterer {
  const { clock, inFlight, metrics } = resources
  const ensureTopic = createDeadTopics(resources)

  // Each step is work of its own: a failure in one must not abort the others.
  async function runOnDead(failure: FailedDelivery, message: Message): Promise<void> {
    const { binding, delivery, error } = failure
    const { processor } = binding
    if (!processor.onDead || unanswerable.has(error.code)) return
    try {
      await inFlight.run(delivery, (work) => {
        const outputs = processor.onDead!(message as never, error, contextOf(resources, binding, work.signal))
        return runHandler(resources, outputs, { binding, cause: causeOf(failure), work })
      })
    } catch (thrown) {
      const err = toGraphmillError(thrown)
      if (err.retry === 'later') throw thrown
      binding.log.warn({ messageId: message.id, err }, 'the outputs of onDead could not be stored')
    }
  }

  async function reportDeath(failure: FailedDelivery): Promise<void> {
    const { binding, delivery } = failure
    const cause = causeOf(failure)
    const id = delivery.headers[replayedHeader] ?? cause.id
    try {
      await inFlight.run(delivery, (work) =>
        runHandler(resources, deadEntries(failure), { binding, cause: { ...cause, id }, work }),
      )
    } catch (thrown) {
      const err = toGraphmillError(thrown)
      // The headers of a foreign message may fit into no entry.
      if (err.retry !== 'never' || err.code === 'topic_missing') throw thrown
      binding.log.error({ messageId: cause.id, err }, 'a dead message could not be reported on progress')
    }
  }

  async function writeLetter({ binding, delivery, error }: FailedDelivery): Promise<void> {
    const letter = deadLetter(delivery, error, { processor: binding.processor.name, time: clock.now() })
    await inFlight.run(delivery, async ({ signal }) => {
      try {
        await storeLetter(letter, signal)
      } catch (thrown) {
        const err = toGraphmillError(thrown)
        if (err.code !== 'message_too_large') throw thrown
        binding.log.error({ err, position: letter.headers['dead-position'] }, 'a dead letter is cut')
        await storeLetter(beginningOf(letter), signal)
      }
    })
  }

  async function storeLetter(letter: OutgoingBytes, signal: AbortSignal): Promise<void> {
    const forget = await ensureTopic(letter.topic)
    try {
      await publishUntilStored(letter, resources, signal)
    } catch (thrown) {
      if (toGraphmillError(thrown).code !== 'topic_missing') throw thrown
      // The dead-letter topic was deleted. The message may have no topic to go back to either, so it is made again at once.
      forget()
      await ensureTopic(letter.topic)
      await publishUntilStored(letter, resources, signal)
    }
  }

  /** With a context key, a request that no processor has signed can't report the death of a unit. */
  function mayReport({ message, error }: FailedDelivery): boolean {
    if (error.code === 'context_unsigned' || isDeadEntry(message)) return false
    return message?.type !== 'PromptRequest' || resources.signer.accepts(message, message.replyTo ?? '')
  }

  return async (failure) => {
    const { binding, delivery, message, error } = failure
    const { id, documentId, chunkId } = causeOf(failure)
    if (message) await runOnDead(failure, message)
    if (documentId && mayReport(failure)) await reportDeath(failure)
    await writeLetter(failure)
    await delivery.ack()
    metrics?.dead(binding.processor.name, error.code)
    binding.log.error({ messageId: id, documentId, chunkId, err: error }, 'message is dead')
  }
}

/** Makes dead-letter topics, and remembers those that exist: asking for each letter would open a connection each time. */
function createDeadTopics({ broker }: Pick<RunnerResources, 'broker'>) {
  const topics = new Map<string, Promise<void>>()
  /** Resolves when the topic exists, with what forgets it. */
  return async (name: string): Promise<() => void> => {
    const ensured = topics.get(name) ?? broker.ensureTopics([topicSpec(name)])
    topics.set(name, ensured)
    const forget = () => {
      if (topics.get(name) === ensured) topics.delete(name)
    }
    await ensured.catch((thrown: unknown) => {
      forget()
      throw thrown
    })
    return forget
  }
}

/** Errors after which `onDead` is not called: there is nowhere to reply to, or the message is not what the processor reads. */
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
  const entry = { kind: 'dead', part, topic: delivery.topic, error: { type, message: text } }
  const units = unit === null ? [null] : unitsOf(unit, binding.services.settings)
  for (const each of units) yield { to: 'progress', payload: { ...entry, unit: each } }
}

/** The death of an entry about a dead message is not reported again: its report could die the same way. */
const isDeadEntry = (message: Message | undefined) =>
  message?.type === 'Progress' && message.payload.kind === 'dead'

/** The unit of work that the message belongs to, if that is known. */
function unitOf({ binding, delivery, message }: FailedDelivery): string | null {
  const payload = message?.payload as { readonly context?: Readonly<Record<string, string>> } | undefined
  if (payload?.context?.['unit']) return payload.context['unit']
  if (binding.port === 'chunk' || binding.port === 'prompt-reply') return binding.processor.name
  const reply = parseTopic(delivery.headers['replyTo'] ?? '')
  if (reply?.class === 'response') return reply.receiver
  return delivery.headers['source'] ?? null
}
