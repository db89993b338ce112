// THE loop: take a delivery, decode it, handle it, publish what it yields, and only then ack. recovery.ts says what becomes of
// what fails.
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Broker, Delivery, LostRange, Subscription, Suspect } from '../../broker/broker.ts'
import { parseTopic } from '../../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import type { Codec } from '../../messages/codec.ts'
import type { Message } from '../../messages/envelope.ts'
import type { FlowMetrics, Outcome } from '../../observe/metrics.ts'
import { startSpan } from '../../observe/trace.ts'
import { type ContextSigner, createContextSigner, isOfRequest } from '../context-signature.ts'
import { type InputPort, inputGroup, inputTopic, isReply, payloadAt, replyRoute } from '../ports.ts'
import type { AnyProcessor, Clock, Deferral, Ids, Scope } from '../processor.ts'
import type { SchemasTopic } from '../schemas-topic.ts'
import { type Circuits, createCircuits } from './circuits.ts'
import type { ConsumerBinding, Services } from './consumer-binding.ts'
import { createContextOf } from './context.ts'
import { createDeadLetterer } from './dead-letterer.ts'
import { createFlowEntries } from './flow-entries.ts'
import { createInFlight, type InFlightDelivery } from './in-flight.ts'
import { createRecovery } from './recovery.ts'
import { createRunHandler } from './run-handler.ts'
import { createSolitude, type Solitude } from './solitude.ts'

/** Deliveries that are taken in one stretch: heartbeats and other flows must have their turn. */
const atOnce = 128
/** A message is dead after so many deaths of processes that handled it alone. */
const deathsAlone = 3
/**
 * Before a message with which a process died alone is handled again, nothing is handled for so long, in milliseconds, and twice
 * that at each further death. A process that is killed in that time was killed for another reason, and the count begins again.
 */
const quarantineMs = 5000

export interface RunnerOptions {
  readonly broker: Broker
  readonly codec: Codec
  readonly processors: readonly AnyProcessor[]
  readonly scopes: readonly Scope[]
  /** What a handler gets, by flow and input. Called once for each. */
  readonly services: (binding: { scope: Scope; processor: AnyProcessor; port: InputPort }) => Services
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Logger
  readonly circuits?: Circuits
  /** Shared by all runners of the process. Default: one of its own. */
  readonly solitude?: Solitude
  readonly metrics?: FlowMetrics
  /** Decodes what is delivered, and knows where unknown schemas are looked up. */
  readonly schemas: SchemasTopic
  /** The keys that sign what processors ask, as `--context-key` has them, read at each use. Default: nothing is signed. */
  readonly contextKey?: (() => string) | undefined
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

export function startRunner(options: RunnerOptions): Runner {
  const { broker, codec, clock, ids, metrics, schemas, onOperatorFault, space = 'gm' } = options
  const circuits = options.circuits ?? createCircuits()
  const solitude = options.solitude ?? createSolitude()
  const stopping = new AbortController()
  /** Topics of the flows that are gone. */
  const missing = new Set<string>()
  const broken = Promise.withResolvers<never>()
  const inFlight = createInFlight(clock)
  const contextOf = createContextOf({ broker, schemas, clock, ids, space, metrics, noteMissing })
  const signer = createContextSigner(options.contextKey ?? (() => undefined))
  const runHandler = createRunHandler({ broker, codec, circuits, clock, space, signer, metrics, noteMissing })
  const deadLetter = createDeadLetterer({
    broker,
    circuits,
    clock,
    metrics,
    inFlight,
    runHandler,
    contextOf,
    signer,
  })
  const entries = createFlowEntries({ clock, inFlight, runHandler, metrics })
  const recovery = createRecovery({
    clock,
    inFlight,
    runHandler,
    deadLetter,
    entries,
    missing,
    onOperatorFault,
  })

  const bindings = options.scopes.flatMap((scope) =>
    options.processors.flatMap((processor) =>
      processor.inputs.map((port) => openLine(processor, port, scope)),
    ),
  )
  const inputs = new Set(bindings.map(({ topic }) => topic))
  const loops = bindings.map(consume)
  const done = Promise.race([Promise.all(loops).then(() => undefined), broken.promise])
  done.catch(() => stopping.abort())

  function openLine(processor: AnyProcessor, port: InputPort, scope: Scope): ConsumerBinding {
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
      meter: metrics?.consuming({ processor: processor.name, topic, group, ...scope, lag }),
    }
  }

  async function consume(binding: ConsumerBinding): Promise<void> {
    const maxInFlight = binding.processor.maxInFlight ?? 64
    const unsettled = new Set<Promise<void>>()
    const subscription = {
      group: binding.group,
      topic: binding.topic,
      maxInFlight,
      from: 'earliest',
      ordering: binding.processor.ordering ?? 'none',
      onLost: (lost) => reportLost(binding, lost, unsettled),
    } satisfies Subscription
    try {
      let taken = 0
      for await (const delivery of broker.consume(subscription, stopping.signal)) {
        const settled = settle(binding, delivery).then(() => void unsettled.delete(settled))
        unsettled.add(settled)
        if (++taken % atOnce === 0) await turn()
      }
    } catch (thrown) {
      noteMissing(thrown, binding.topic)
      broken.reject(thrown)
    } finally {
      await Promise.all(unsettled)
      binding.meter?.stopped()
    }
  }

  /** Whoever ends the loop waits for the report, too. A rejection leaves the position of the group before the gap. */
  async function reportLost(
    binding: ConsumerBinding,
    lost: LostRange,
    unsettled: Set<Promise<void>>,
  ): Promise<void> {
    const report = entries.lost(binding, lost)
    const leave = () => void unsettled.delete(over)
    const over = report.then(leave, leave)
    unsettled.add(over)
    await report
  }

  /**
   * Without a topic of its own a flow can't go on, whichever part of it finds out. Without the response topic of a client, or
   * where it is refused, only the requests of that client can't: returns the error that they die of.
   */
  function noteMissing(thrown: unknown, topic: string): unknown {
    const { code } = toGraphmillError(thrown)
    if (code === 'topic_refused' && isOfOthers(topic)) return replyTopicRefused(topic, thrown)
    if (code !== 'topic_missing') return thrown
    if (isOfOthers(topic)) return replyTopicMissing(topic, thrown)
    missing.add(topic)
    broken.reject(thrown)
    return thrown
  }

  function isOfOthers(topic: string): boolean {
    return parseTopic(topic)?.class === 'response' && !inputs.has(topic)
  }

  // Never rejects: whatever happens to a message is the end of it, or its next beginning.
  async function settle(binding: ConsumerBinding, delivery: Delivery): Promise<void> {
    const end = binding.meter?.started()
    const { suspect } = delivery
    const outcome = suspect
      ? await settleAlone(binding, delivery, suspect)
      : await settleBesideOthers(binding, delivery)
    end?.(outcome)
  }

  async function settleBesideOthers(binding: ConsumerBinding, delivery: Delivery): Promise<Outcome> {
    try {
      let deferral: Deferral | undefined
      await solitude.enter(false)
      try {
        deferral = await work(binding, delivery)
      } finally {
        solitude.leave()
      }
      return await acknowledge(delivery, deferral)
    } catch (thrown) {
      return await fail(binding, delivery, thrown)
    }
  }

  // What is stored before each step is what counts if the process dies in it.
  async function settleAlone(
    binding: ConsumerBinding,
    delivery: Delivery,
    suspect: Suspect,
  ): Promise<Outcome> {
    await solitude.enter(true)
    let deaths: number | undefined
    try {
      deaths = await suspect.deaths()
      if (deaths > 0 && deaths < deathsAlone) await quarantine(binding, delivery, { suspect, deaths })
      await suspect.record(deaths + 1)
      const outcome = await attemptAlone(binding, delivery, deaths)
      await suspect.record(outcome === 'ok' || outcome === 'dead' ? 0 : deaths).catch(noteUnrecorded(binding))
      return outcome
    } catch (thrown) {
      if (deaths !== undefined) await suspect.record(deaths).catch(noteUnrecorded(binding))
      return await fail(binding, delivery, unrecorded(thrown))
    } finally {
      solitude.leave()
    }
  }

  async function attemptAlone(
    binding: ConsumerBinding,
    delivery: Delivery,
    deaths: number,
  ): Promise<Outcome> {
    try {
      if (deaths >= deathsAlone)
        throw new GraphmillError('killed_process', `${deaths} processes died while they handled it alone.`)
      return await acknowledge(delivery, await work(binding, delivery))
    } catch (thrown) {
      // The last words may be what kills: they have one attempt.
      return await fail(binding, delivery, thrown, { unread: deaths > deathsAlone })
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
    const held = inFlight.take(delivery)
    try {
      await wait(ms, undefined, { signal: AbortSignal.any([held.signal, stopping.signal]) })
    } finally {
      held.free()
    }
  }

  function noteUnrecorded(binding: ConsumerBinding) {
    return (err: unknown) => binding.log.debug({ err }, 'what is known of deaths could not be stored')
  }

  async function acknowledge(delivery: Delivery, deferral: Deferral | undefined): Promise<Outcome> {
    await deferral?.after
    await delivery.ack()
    recovery.forget(delivery)
    return 'ok'
  }

  function fail(
    binding: ConsumerBinding,
    delivery: Delivery,
    thrown: unknown,
    { unread = false } = {},
  ): Promise<Outcome> {
    const message = unread ? undefined : readAgain(delivery)
    return recovery.recover({ binding, delivery, message, error: toGraphmillError(thrown) })
  }

  async function work(binding: ConsumerBinding, delivery: Delivery): Promise<Deferral | undefined> {
    const held = inFlight.take(delivery)
    try {
      return await handle(binding, await read(delivery, held.signal), held)
    } catch (thrown) {
      throw held.signal.aborted ? (held.signal.reason ?? thrown) : thrown
    } finally {
      held.free()
    }
  }

  function read(delivery: Delivery, signal: AbortSignal): Promise<Message> {
    if (delivery.value.byteLength === 0)
      throw new GraphmillError('message_empty', 'The message has no value.')
    return schemas.decode(delivery, signal)
  }

  // Decoded again, so that whoever waits for others holds no more than its delivery.
  function readAgain({ value, headers }: Delivery): Message | undefined {
    try {
      return codec.decode(value, headers)
    } catch {
      return undefined
    }
  }

  async function handle(
    binding: ConsumerBinding,
    message: Message,
    held: InFlightDelivery,
  ): Promise<Deferral | undefined> {
    const span = startSpan(`${binding.processor.name} ${binding.port}`, {
      kind: 'consumer',
      parent: message.traceparent,
      attributes: () => attributesOf(binding, message),
    })
    try {
      const { traceId, traceparent } = span
      const log = binding.log.child({ messageId: message.id, traceId })
      const deferral = await span.within(() =>
        handleChecked({ ...binding, log }, { ...message, traceparent }, held),
      )
      span.end()
      return deferral
    } catch (thrown) {
      span.end(toGraphmillError(thrown))
      throw thrown
    }
  }

  async function handleChecked(
    binding: ConsumerBinding,
    message: Message,
    held: InFlightDelivery,
  ): Promise<Deferral | undefined> {
    const expected = payloadAt(binding.port)
    if (message.type !== expected)
      throw new GraphmillError('message_misplaced', `A ${message.type} is on a topic that takes ${expected}.`)
    if (message.workspace !== binding.scope.workspace || message.flow !== binding.scope.flow)
      throw new GraphmillError(
        'message_invalid',
        `The message is of ${message.workspace}/${message.flow}, its topic is not.`,
      )
    checkContext(message, binding, signer)
    // What was done is told however late.
    if (binding.port !== 'progress' && message.deadline !== null && message.deadline <= clock.now())
      throw new GraphmillError(
        'deadline_exceeded',
        `The deadline was ${new Date(message.deadline).toISOString()}.`,
      )
    // A reply that could not be delivered is not worked out in the first place.
    if (binding.processor.outputs.some(isReply)) await checkReplyTopic(message.replyTo, binding)
    const context = contextOf(binding, held.signal)
    return await runHandler(binding.processor.handle(message as never, context), {
      binding,
      cause: message,
      held,
    })
  }

  async function checkReplyTopic(replyTo: string | null, { scope }: ConsumerBinding): Promise<void> {
    const { topic } = replyRoute(replyTo, { space, ...scope })
    if (!isOfOthers(topic)) return
    const exists = await broker.hasTopic(topic).catch((thrown: unknown) => {
      throw noteMissing(thrown, topic)
    })
    if (!exists) throw replyTopicMissing(topic)
  }

  return {
    circuits,
    done,
    async stop(graceMs) {
      stopping.abort()
      const ended = Promise.all(loops)
      const grace = new AbortController()
      const late = wait(graceMs, 'late', { signal: grace.signal }).catch(() => undefined)
      if (graceMs <= 0 || (await Promise.race([ended, late])) === 'late') inFlight.abortAll()
      grace.abort()
      await ended
    },
  }
}

/** Of the context of a request, in bytes: every part of the reply repeats it. */
const mostContext = 4096

/** Nobody reads the reply to another one's request, or has a signed context answer for another request. */
function checkContext(message: Message, { topic }: ConsumerBinding, signer: ContextSigner): void {
  if (message.type === 'PromptRequest' || message.type === 'TextCompletionRequest')
    checkContextSize(message.payload.context)
  if (message.type === 'PromptResponse' && !signer.accepts(message, topic))
    throw new GraphmillError(
      'context_unsigned',
      'No processor of this flow has signed the context of the reply.',
    )
  if (message.type === 'PromptRequest' && !isOfRequest(message))
    throw new GraphmillError('context_unsigned', 'The context was signed for another request.')
}

function checkContextSize(context: Readonly<Record<string, string>>): void {
  let bytes = 0
  for (const [name, value] of Object.entries(context))
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value)
  if (bytes > mostContext)
    throw new GraphmillError(
      'context_too_large',
      `The context of the request has ${bytes} bytes, and may have ${mostContext}.`,
    )
}

const replyTopicRefused = (topic: string, cause: unknown) =>
  new GraphmillError('reply_topic_refused', `The broker does not let this process write to ${topic}.`, {
    cause,
  })

const replyTopicMissing = (topic: string, cause?: unknown) =>
  new GraphmillError('reply_topic_missing', `There is no topic ${topic} for the reply.`, { cause })

/** The fault is the broker's, whatever it says, and not the message's. */
function unrecorded(thrown: unknown): GraphmillError {
  const cause = toGraphmillError(thrown)
  if (cause.code === 'aborted') return cause
  return new GraphmillError('broker_unavailable', 'What is known of deaths could not be stored.', { cause })
}

/** By OpenTelemetry's conventions for messaging, and ours. */
function attributesOf({ topic, group, scope }: ConsumerBinding, { id, documentId, chunkId }: Message) {
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
