// THE loop: take a delivery, decode it, handle it, publish what it yields, and only then ack. What fails is tried again,
// paused or given up by the table of errors; what is given up goes to its dead-letter topic and is said on `progress`.
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import {
  type Broker,
  type Delivery,
  maxMessageBytes,
  type OutgoingBytes,
  type ReadMessage,
  type TopicRange,
} from '../broker/broker.ts'
import { deadTopic, parseTopic, topicSpec } from '../broker/topics.ts'
import { coded, GraphmillError } from '../errors.ts'
import type { Codec } from '../messages/codec.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { ConsumerMeter, FlowMetrics, Outcome } from '../observe/metrics.ts'
import { startSpan } from '../observe/trace.ts'
import { type Circuits, createCircuits } from './circuits.ts'
import { beginningOf, deadLetter, replayedHeader } from './dead-letter.ts'
import { measure } from './measure.ts'
import { createOutbox, type OutboxOptions, publishUntilStored } from './outbox.ts'
import {
  type InputPort,
  inputGroup,
  inputTopic,
  isReply,
  type OutputPort,
  outputRoute,
  payloadOf,
  replyRoute,
} from './ports.ts'
import type {
  AnyProcessor,
  Clock,
  Context,
  Deferral,
  Ids,
  Outputs,
  Places,
  Scope,
  StatePort,
  Stored,
} from './processor.ts'
import { backoff, type NextStep, nextStep, operatorPauseMs } from './retry.ts'
import { decodeEntry, type OnUnreadable, type SchemasTopic } from './schemas-topic.ts'
import { unitsOf } from './units.ts'

/** Deliveries that are taken in one stretch: heartbeats and other flows must have their turn. */
const atOnce = 128

/** What every handler of a flow shares; the runner adds signal, log and scope. */
export type Services = Omit<Context, 'scope' | 'space' | 'signal' | 'log' | 'clock' | 'ids' | 'read'>

export interface RunnerOptions {
  readonly broker: Broker
  readonly codec: Codec
  readonly processors: readonly AnyProcessor[]
  readonly scopes: readonly Scope[]
  /** What a handler gets, by flow and input. Called once for each. */
  readonly services: (line: { scope: Scope; processor: AnyProcessor; port: InputPort }) => Services
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Logger
  readonly circuits?: Circuits
  readonly metrics?: FlowMetrics
  /** Decodes what is delivered, and knows where unknown schemas are looked up. */
  readonly schemas: SchemasTopic
  /** A fault that only a person can mend. Default: pause what needs it, say so on `progress`, and go on trying. */
  readonly onOperatorFault?: (error: GraphmillError) => void
}

export interface Runner {
  /** Takes nothing more, finishes what is in hand for at most `graceMs`, then hands back the rest. */
  stop(graceMs: number): Promise<void>
  /** Resolves when all loops have ended. Rejects, and all take nothing more, as soon as one can't go on. */
  readonly done: Promise<void>
  readonly circuits: Circuits
}

/** One input of one processor in one flow. */
interface Line {
  readonly processor: AnyProcessor
  readonly port: InputPort
  readonly scope: Scope
  readonly topic: string
  readonly group: string
  readonly services: Services
  readonly log: Logger
  readonly outbox: OutboxOptions
  readonly meter: ConsumerMeter | undefined
}

/** What can abort the work on a message. */
interface Hands {
  /** Milliseconds since 1970. */
  readonly takenAt: number
  readonly signal: AbortSignal
  abort(reason: unknown): void
  /** The work is over. */
  free(): void
}

export function startRunner(options: RunnerOptions): Runner {
  const { broker, codec, clock, ids, metrics, space = 'gm' } = options
  const circuits = options.circuits ?? createCircuits()
  const stopping = new AbortController()
  const inHand = new Set<() => void>()
  /** The same, by the signal of whoever owns the delivery. */
  const owned = new WeakMap<AbortSignal, Set<() => void>>()
  let aborted = false
  const unexpected = new Map<string, number>()
  /** Topics of the flows that are gone. */
  const missing = new Set<string>()
  const broken = Promise.withResolvers<never>()

  const lines = options.scopes.flatMap((scope) =>
    options.processors.flatMap((processor) =>
      processor.inputs.map((port) => openLine(processor, port, scope)),
    ),
  )
  const inputs = new Set(lines.map(({ topic }) => topic))
  const loops = lines.map(consume)
  const done = Promise.race([Promise.all(loops).then(() => undefined), broken.promise])
  done.catch(() => stopping.abort())

  function openLine(processor: AnyProcessor, port: InputPort, scope: Scope): Line {
    const topic = inputTopic(port, { space, ...scope }, processor.name)
    const group = inputGroup(port, { space, ...scope }, processor.name)
    const lag = async () => (await broker.lag(group, topic)).total
    return {
      processor,
      port,
      scope,
      topic,
      group,
      services: options.services({ scope, processor, port }),
      log: options.log.child({ processor: processor.name, workspace: scope.workspace, flow: scope.flow }),
      outbox: { broker, codec, circuits, clock, space, source: processor.name },
      meter: metrics?.consuming({ processor: processor.name, topic, group, ...scope, lag }),
    }
  }

  async function consume(line: Line): Promise<void> {
    const maxInFlight = line.processor.maxInFlight ?? 64
    const subscription = {
      group: line.group,
      topic: line.topic,
      maxInFlight,
      from: 'earliest',
      ordering: line.processor.ordering ?? 'none',
    } as const
    const unsettled = new Set<Promise<void>>()
    try {
      let taken = 0
      for await (const delivery of broker.consume(subscription, stopping.signal)) {
        const settled = settle(line, delivery).then(() => void unsettled.delete(settled))
        unsettled.add(settled)
        if (++taken % atOnce === 0) await turn()
      }
    } catch (thrown) {
      noteMissing(thrown, line.topic)
      broken.reject(thrown)
    } finally {
      await Promise.all(unsettled)
      line.meter?.stopped()
    }
  }

  // Without a topic of its own a flow can't go on, whoever finds out. The replies of others are theirs.
  function noteMissing(thrown: unknown, topic: string): void {
    if (coded(thrown).code !== 'topic_missing') return
    if (parseTopic(topic)?.class === 'response' && !inputs.has(topic)) return
    missing.add(topic)
    broken.reject(thrown)
  }

  // Never rejects: whatever happens to a message is the end of it, or its next beginning.
  async function settle(line: Line, delivery: Delivery): Promise<void> {
    const end = line.meter?.started()
    try {
      const deferral = await work(line, delivery)
      await deferral?.after
      await delivery.ack()
      unexpected.delete(place(delivery))
      end?.('ok')
    } catch (thrown) {
      const message = readAgain(delivery)
      const outcome = await recover(line, { delivery, message, error: coded(thrown) })
      end?.(outcome)
    }
  }

  async function work(line: Line, delivery: Delivery): Promise<Deferral | undefined> {
    const hands = takeInHand(delivery)
    try {
      return await handle(line, await read(delivery, hands.signal), hands)
    } catch (thrown) {
      throw hands.signal.aborted ? (hands.signal.reason ?? thrown) : thrown
    } finally {
      hands.free()
    }
  }

  // Foreign producers know no limit; nothing that came of a larger message would fit one either.
  function read(delivery: Delivery, signal: AbortSignal): Promise<Message> {
    const { byteLength } = delivery.value
    if (byteLength > maxMessageBytes)
      throw new GraphmillError(
        'message_too_large',
        `A message of ${byteLength} bytes is over ${maxMessageBytes}.`,
      )
    return options.schemas.decode(delivery, signal)
  }

  // Decoded again, so that whoever waits for others holds no more than its delivery.
  function readAgain({ value, headers }: Delivery): Message | undefined {
    try {
      return value.byteLength > maxMessageBytes ? undefined : codec.decode(value, headers)
    } catch {
      return undefined
    }
  }

  // What aborts the work on a delivery: its ownership is lost, the grace period is over, or one of its outputs failed.
  function takeInHand(delivery: Delivery): Hands {
    const hands = new AbortController()
    const drop = () => hands.abort(new GraphmillError('aborted', 'The work is not wanted here any more.'))
    if (delivery.signal.aborted || aborted) drop()
    const owned = dropsOf(delivery.signal)
    owned.add(drop)
    inHand.add(drop)
    const free = () => {
      owned.delete(drop)
      inHand.delete(drop)
    }
    return { takenAt: clock.now(), signal: hands.signal, abort: (reason) => hands.abort(reason), free }
  }

  // Many deliveries share the signal of their partition, and each listener would be compared with all before it.
  function dropsOf(signal: AbortSignal): Set<() => void> {
    const known = owned.get(signal)
    if (known) return known
    const drops = new Set<() => void>()
    owned.set(signal, drops)
    signal.addEventListener('abort', () => {
      for (const drop of drops) drop()
    })
    return drops
  }

  async function handle(line: Line, message: Message, hands: Hands): Promise<Deferral | undefined> {
    const span = startSpan(`${line.processor.name} ${line.port}`, {
      kind: 'consumer',
      parent: message.traceparent,
      attributes: () => attributesOf(line, message),
    })
    try {
      const { traceId, traceparent } = span
      const log = line.log.child({ messageId: message.id, traceId })
      const deferral = await span.within(() =>
        handleChecked({ ...line, log }, { ...message, traceparent }, hands),
      )
      span.end()
      return deferral
    } catch (thrown) {
      span.end(coded(thrown))
      throw thrown
    }
  }

  async function handleChecked(line: Line, message: Message, hands: Hands): Promise<Deferral | undefined> {
    if (message.workspace !== line.scope.workspace || message.flow !== line.scope.flow)
      throw new GraphmillError(
        'message_invalid',
        `The message is of ${message.workspace}/${message.flow}, its topic is not.`,
      )
    // What was done is told however late.
    if (line.port !== 'progress' && message.deadline !== null && message.deadline <= clock.now())
      throw new GraphmillError(
        'deadline_exceeded',
        `The deadline was ${new Date(message.deadline).toISOString()}.`,
      )
    // An answer that could not be delivered is not worked out in the first place.
    if (line.processor.outputs.some(isReply)) replyRoute(message.replyTo, { space, ...line.scope })
    const context = contextOf(line, hands.signal)
    return await drive(line.processor.handle(message as never, context), line, message, hands)
  }

  async function drive(
    outputs: Outputs<OutputPort>,
    line: Line,
    cause: Header,
    hands: Pick<Hands, 'takenAt' | 'signal' | 'abort'>,
  ): Promise<Deferral | undefined> {
    const processor = line.processor.name
    const outbox = createOutbox(cause, line.outbox, {
      signal: hands.signal,
      fail(error, topic) {
        noteMissing(error, topic)
        hands.abort(error)
      },
      stored(output, topic) {
        if (!metrics) return
        metrics.published(processor, topic)
        const { takenAt } = hands
        measure(metrics.extraction, { processor, cause, output, takenAt, storedAt: clock.now() })
      },
    })
    try {
      let step = await outputs.next(undefined)
      while (!step.done) {
        const stored = outbox.put(step.value)
        await outbox.room()
        step = await outputs.next(stored)
      }
      await outbox.flush()
      return step.value ?? undefined
    } catch (thrown) {
      hands.abort(thrown) // so that the handler can tell why it is ended
      throw thrown
    } finally {
      await outputs.return(undefined)
    }
  }

  function contextOf(line: Line, signal: AbortSignal): Context {
    const read: Context['read'] = (port, behind) => readTopic(line, { port, behind }, signal)
    return { ...line.services, scope: line.scope, space, log: line.log, clock, ids, signal, read }
  }

  async function* readTopic<P extends StatePort>(
    { scope, processor, log }: Line,
    { port, behind }: { readonly port: P; readonly behind: Places },
    signal: AbortSignal,
  ): AsyncGenerator<Stored<P>> {
    const { topic } = outputRoute(port, { space, ...scope })
    const onUnreadable: OnUnreadable = ({ partition, position, key }, err) => {
      log.warn({ topic, partition, position, key, err }, 'an entry that can not be read is passed over')
      metrics?.unreadable(processor.name, topic)
    }
    for await (const entry of readOwn({ topic, from: behind, until: 'end' }, signal)) {
      const reading = { schemas: options.schemas, signal, onUnreadable }
      const message = await decodeEntry(entry, payloadOf[port], reading)
      yield { message, partition: entry.partition, position: entry.position }
    }
    // A read that was aborted ends as one that came to the end does.
    signal.throwIfAborted()
  }

  async function* readOwn(range: TopicRange, signal: AbortSignal): AsyncGenerator<ReadMessage> {
    try {
      yield* broker.read(range, signal)
    } catch (thrown) {
      noteMissing(thrown, range.topic)
      throw thrown
    }
  }

  interface Failure {
    readonly delivery: Delivery
    readonly message: Message | undefined
    readonly error: GraphmillError
  }

  /** What became of the message, for the metrics. */
  async function recover(line: Line, failure: Failure): Promise<Outcome> {
    const { delivery, message, error } = failure
    if (delivery.signal.aborted) return 'dropped'
    if (aborted || (error.code === 'topic_missing' && missing.size > 0)) return await handBack(delivery, 0)
    const count = error.code === 'unexpected' ? (unexpected.get(place(delivery)) ?? 0) + 1 : 0
    if (count > 0) unexpected.set(place(delivery), count)
    // Of a topic that is gone nobody gets a message again.
    const next: NextStep = missing.has(delivery.topic)
      ? { step: 'dead' }
      : nextStep(error, delivery.attempt, count)
    if (next.step === 'retry') {
      line.log.warn(
        { messageId: message?.id, err: error, delayMs: next.delayMs },
        'message will be tried again',
      )
      const left = message?.deadline ? message.deadline - clock.now() : Number.POSITIVE_INFINITY
      const outcome = await handBack(delivery, Math.max(0, Math.min(next.delayMs, left)))
      return error.code === 'llm_rate_limited' ? 'limited' : outcome
    }
    if (next.step === 'operator') return await pause(line, failure)
    try {
      await bury(line, failure)
      unexpected.delete(place(delivery))
      return 'dead'
    } catch (thrown) {
      line.log.error({ messageId: message?.id, err: coded(thrown) }, 'dead letter could not be written yet')
      return await handBack(delivery, backoff(delivery.attempt))
    }
  }

  async function handBack(delivery: Delivery, delayMs: number): Promise<'retried'> {
    await delivery.retryLater(delayMs)
    return 'retried'
  }

  async function pause(line: Line, { delivery, message, error }: Failure): Promise<'retried'> {
    if (options.onOperatorFault) {
      options.onOperatorFault(error)
      return await handBack(delivery, operatorPauseMs)
    }
    line.log.error({ err: error, remedy: error.remedy }, 'flow is paused until its operator acts')
    const words = (async function* (): Outputs<'progress'> {
      yield {
        to: 'progress',
        payload: { kind: 'paused', error: { type: error.code, message: error.message } },
      }
    })()
    const hands = takeInHand(delivery)
    await drive(words, line, causeOf(line, delivery, message), hands)
      .catch((thrown) => line.log.error({ err: coded(thrown) }, 'pause could not be said on progress'))
      .finally(hands.free)
    return await handBack(delivery, operatorPauseMs * (0.5 + Math.random() / 2))
  }

  // The last words, the entry on progress, the letter, the ack: in this order, so that a crash repeats and never skips.
  async function bury(line: Line, failure: Failure): Promise<void> {
    const { delivery, message, error } = failure
    const cause = causeOf(line, delivery, message)
    if (message) await sayLastWords(line, { delivery, message, error })
    if (cause.documentId && !isDeadEntry(message)) await sayDeath(line, failure)
    const hands = takeInHand(delivery)
    try {
      const letter = deadLetter(delivery, error, { processor: line.processor.name, time: clock.now() })
      await broker.ensureTopics([topicSpec(deadTopic(delivery.topic))])
      await storeLetter(line, letter, hands.signal)
      await delivery.ack()
      metrics?.dead(line.processor.name, error.code)
      line.log.error(
        { messageId: cause.id, documentId: cause.documentId, chunkId: cause.chunkId, err: error },
        'message is dead',
      )
    } finally {
      hands.free()
    }
  }

  // In hands of their own: words that reach nobody must not keep the letter from being written.
  async function sayLastWords(line: Line, failure: Failure & { readonly message: Message }): Promise<void> {
    const { delivery, message, error } = failure
    if (!line.processor.onDead) return
    const hands = takeInHand(delivery)
    try {
      const words = line.processor.onDead(message as never, error, contextOf(line, hands.signal))
      await drive(words, line, causeOf(line, delivery, message), hands)
    } catch (thrown) {
      if (coded(thrown).retry === 'later') throw thrown
      line.log.warn({ messageId: message.id, err: coded(thrown) }, 'last words could not be delivered')
    } finally {
      hands.free()
    }
  }

  async function sayDeath(line: Line, failure: Failure): Promise<void> {
    const { delivery, message } = failure
    const cause = causeOf(line, delivery, message)
    const id = delivery.headers[replayedHeader] ?? cause.id
    const hands = takeInHand(delivery)
    try {
      await drive(deadEntry(line, failure), line, { ...cause, id }, hands)
    } catch (thrown) {
      const error = coded(thrown)
      // A foreign message may have headers that fit into no entry.
      if (error.retry !== 'never' || error.code === 'topic_missing') throw thrown
      line.log.error({ messageId: cause.id, err: error }, 'a death could not be said on progress')
    } finally {
      hands.free()
    }
  }

  async function storeLetter(line: Line, letter: OutgoingBytes, signal: AbortSignal): Promise<void> {
    try {
      await publishUntilStored(letter, { broker, circuits }, signal)
    } catch (thrown) {
      const error = coded(thrown)
      if (error.code !== 'message_too_large') throw error
      line.log.error({ err: error, position: letter.headers['dead-position'] }, 'a dead letter is cut')
      await publishUntilStored(beginningOf(letter), { broker, circuits }, signal)
    }
  }

  function abortAll(): void {
    aborted = true
    for (const drop of inHand) drop()
  }

  async function* deadEntry(line: Line, { delivery, message, error }: Failure): Outputs<'progress'> {
    const unit = unitOf(line, delivery, message)
    const { part = null } = message?.type === 'TextDocument' ? message.payload : {}
    const { code: type, message: text } = error
    const said = { kind: 'dead', part, topic: delivery.topic, error: { type, message: text } }
    const units = unit === null ? [null] : unitsOf(unit, line.services.settings)
    for (const each of units) yield { to: 'progress', payload: { ...said, unit: each } }
  }

  return {
    circuits,
    done,
    async stop(graceMs) {
      stopping.abort()
      const ended = Promise.all(loops)
      const grace = new AbortController()
      const late = wait(graceMs, 'late', { signal: grace.signal }).catch(() => undefined)
      if (graceMs <= 0 || (await Promise.race([ended, late])) === 'late') abortAll()
      grace.abort()
      await ended
    },
  }
}

/** By OpenTelemetry's conventions for messaging, and ours. */
function attributesOf({ topic, group, scope }: Line, { id, documentId, chunkId }: Message) {
  return {
    'messaging.operation.type': 'process',
    'messaging.destination.name': topic,
    'messaging.consumer.group.name': group,
    'messaging.message.id': id,
    'graphmill.workspace': scope.workspace,
    'graphmill.flow': scope.flow,
    'graphmill.document.id': documentId,
    'graphmill.chunk.id': chunkId,
  }
}

/** An entry about a dead message that died itself is not said again: nobody could ever take it. */
const isDeadEntry = (message: Message | undefined) =>
  message?.type === 'Progress' && message.payload.kind === 'dead'

const place = (delivery: Delivery) => `${delivery.topic}:${delivery.partition}:${delivery.position}`

/** What the last entries about a delivery inherit from: its envelope, or as much as its headers tell. */
function causeOf(line: Line, delivery: Delivery, message: Message | undefined): Header {
  if (message && message.workspace === line.scope.workspace && message.flow === line.scope.flow)
    return message
  const { id, source, documentId, chunkId, correlationId, traceparent } = delivery.headers
  return {
    id: id ?? place(delivery),
    source: source ?? '',
    time: delivery.timestamp,
    ...line.scope,
    collection: message?.collection ?? '',
    documentId: documentId ?? '',
    chunkId: chunkId ?? '',
    correlationId: correlationId ?? '',
    causationId: '',
    replyTo: null,
    deadline: null,
    traceparent: traceparent ?? null,
  }
}

/** The unit of work that a dead message belonged to, if that can be told. */
function unitOf(line: Line, delivery: Delivery, message: Message | undefined): string | null {
  const payload = message?.payload as { readonly context?: Readonly<Record<string, string>> } | undefined
  if (payload?.context?.['unit']) return payload.context['unit']
  if (line.port === 'chunk' || line.port === 'prompt-reply') return line.processor.name
  const reply = parseTopic(delivery.headers['replyTo'] ?? '')
  if (reply?.class === 'response') return reply.receiver
  return delivery.headers['source'] ?? null
}
