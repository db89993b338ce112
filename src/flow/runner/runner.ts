// THE loop: take a delivery, decode it, handle it, publish what it yields, and only then ack. recovery.ts says what becomes of
// what fails.
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Broker, Delivery } from '../../broker/broker.ts'
import { parseTopic } from '../../broker/topics.ts'
import { coded, GraphmillError } from '../../errors.ts'
import type { Codec } from '../../messages/codec.ts'
import type { Message } from '../../messages/envelope.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import { startSpan } from '../../observe/trace.ts'
import { type ContextSigner, createContextSigner, isOfRequest } from '../context-signature.ts'
import { type InputPort, inputGroup, inputTopic, isReply, payloadAt, replyRoute } from '../ports.ts'
import type { AnyProcessor, Clock, Deferral, Ids, Scope } from '../processor.ts'
import type { SchemasTopic } from '../schemas-topic.ts'
import { type Circuits, createCircuits } from './circuits.ts'
import type { Line, Services } from './consumer-binding.ts'
import { createContextOf } from './context.ts'
import { createBurial } from './dead-letterer.ts'
import { createInHand, type Hands } from './in-flight.ts'
import { createRecovery } from './recovery.ts'
import { createDrive } from './run-handler.ts'

/** Deliveries that are taken in one stretch: heartbeats and other flows must have their turn. */
const atOnce = 128

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
  const stopping = new AbortController()
  /** Topics of the flows that are gone. */
  const missing = new Set<string>()
  const broken = Promise.withResolvers<never>()
  const inHand = createInHand(clock)
  const contextOf = createContextOf({ broker, schemas, clock, ids, space, metrics, noteMissing })
  const signer = createContextSigner(options.contextKey ?? (() => undefined))
  const drive = createDrive({ broker, codec, circuits, clock, space, signer, metrics, noteMissing })
  const bury = createBurial({ broker, circuits, clock, metrics, inHand, drive, contextOf, signer })
  const recovery = createRecovery({ clock, inHand, drive, bury, missing, onOperatorFault })

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

  /**
   * Without a topic of its own a flow can't go on, whichever part of it finds out. Without the response topic of a client,
   * only the requests of that client can't: resolves to the error that they die of.
   */
  function noteMissing(thrown: unknown, topic: string): unknown {
    if (coded(thrown).code !== 'topic_missing') return thrown
    if (isOfOthers(topic)) return replyTopicMissing(topic, thrown)
    missing.add(topic)
    broken.reject(thrown)
    return thrown
  }

  function isOfOthers(topic: string): boolean {
    return parseTopic(topic)?.class === 'response' && !inputs.has(topic)
  }

  // Never rejects: whatever happens to a message is the end of it, or its next beginning.
  async function settle(line: Line, delivery: Delivery): Promise<void> {
    const end = line.meter?.started()
    try {
      const deferral = await work(line, delivery)
      await deferral?.after
      await delivery.ack()
      recovery.forget(delivery)
      end?.('ok')
    } catch (thrown) {
      const message = readAgain(delivery)
      const outcome = await recovery.recover({ line, delivery, message, error: coded(thrown) })
      end?.(outcome)
    }
  }

  async function work(line: Line, delivery: Delivery): Promise<Deferral | undefined> {
    const hands = inHand.take(delivery)
    try {
      return await handle(line, await read(delivery, hands.signal), hands)
    } catch (thrown) {
      throw hands.signal.aborted ? (hands.signal.reason ?? thrown) : thrown
    } finally {
      hands.free()
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
    const expected = payloadAt(line.port)
    if (message.type !== expected)
      throw new GraphmillError('message_misplaced', `A ${message.type} is on a topic that takes ${expected}.`)
    if (message.workspace !== line.scope.workspace || message.flow !== line.scope.flow)
      throw new GraphmillError(
        'message_invalid',
        `The message is of ${message.workspace}/${message.flow}, its topic is not.`,
      )
    checkContext(message, line, signer)
    // What was done is told however late.
    if (line.port !== 'progress' && message.deadline !== null && message.deadline <= clock.now())
      throw new GraphmillError(
        'deadline_exceeded',
        `The deadline was ${new Date(message.deadline).toISOString()}.`,
      )
    // A reply that could not be delivered is not worked out in the first place.
    if (line.processor.outputs.some(isReply)) await checkReplyTopic(message.replyTo, line)
    const context = contextOf(line, hands.signal)
    return await drive(line.processor.handle(message as never, context), { line, cause: message, hands })
  }

  async function checkReplyTopic(replyTo: string | null, { scope }: Line): Promise<void> {
    const { topic } = replyRoute(replyTo, { space, ...scope })
    if (isOfOthers(topic) && !(await broker.hasTopic(topic))) throw replyTopicMissing(topic)
  }

  return {
    circuits,
    done,
    async stop(graceMs) {
      stopping.abort()
      const ended = Promise.all(loops)
      const grace = new AbortController()
      const late = wait(graceMs, 'late', { signal: grace.signal }).catch(() => undefined)
      if (graceMs <= 0 || (await Promise.race([ended, late])) === 'late') inHand.abortAll()
      grace.abort()
      await ended
    },
  }
}

/** Nobody reads the reply to another one's request, or has a signed context answer for another request. */
function checkContext(message: Message, { topic }: Line, signer: ContextSigner): void {
  if (message.type === 'PromptResponse' && !signer.accepts(message, topic))
    throw new GraphmillError(
      'context_unsigned',
      'No processor of this flow has signed the context of the reply.',
    )
  if (message.type === 'PromptRequest' && !isOfRequest(message))
    throw new GraphmillError('context_unsigned', 'The context was signed for another request.')
}

const replyTopicMissing = (topic: string, cause?: unknown) =>
  new GraphmillError('reply_topic_missing', `There is no topic ${topic} for the reply.`, { cause })

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
