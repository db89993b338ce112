// THE loop: take a delivery, decode it, handle it, publish what it yields, and only then ack. delivery-handler.ts is the way of one
// message, recovery.ts says what becomes of one that failed, suspects.ts handles those with which processes may have died.
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Delivery, Subscription } from '../../broker/broker.ts'
import type { GraphmillError } from '../../errors.ts'
import type { DeliveryOutcome } from '../../observe/metrics.ts'
import { createContextSigner } from '../context-signature.ts'
import { type InputPort, inputGroup, inputTopic } from '../ports.ts'
import type { AnyProcessor, Deferral, Scope } from '../processor.ts'
import { type Circuits, createCircuits } from './circuits.ts'
import type { ConsumerBinding, Services } from './consumer-binding.ts'
import { contextOf } from './context.ts'
import { handleDelivery } from './delivery-handler.ts'
import { createFlowEntries, type FlowEntries } from './flow-entries.ts'
import { createInFlight } from './in-flight.ts'
import { createRecovery } from './recovery.ts'
import type { RunnerResources } from './resources.ts'
import { createSolitude, type Solitude } from './solitude.ts'
import { createSuspects } from './suspects.ts'
import { createTopicFaults } from './topic-faults.ts'

/** Deliveries that are taken before heartbeats and other flows get their turn. */
const atOnce = 128

export interface RunnerOptions
  extends Pick<RunnerResources, 'broker' | 'codec' | 'schemas' | 'clock' | 'ids' | 'metrics'> {
  readonly processors: readonly AnyProcessor[]
  readonly scopes: readonly Scope[]
  /** The processors that run in a flow. Default: all of them. */
  readonly serving?: (scope: Scope) => readonly AnyProcessor[]
  /** What the handlers of an input get. Called once for each flow and input. */
  readonly services: (binding: { scope: Scope; processor: AnyProcessor; port: InputPort }) => Services
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly log: Logger
  readonly circuits?: Circuits
  /** Shared by all runners of the process. Default: one of its own. */
  readonly solitude?: Solitude
  /** The keys that sign the context of requests, as in `--context-key`; read at each use. Default: nothing is signed. */
  readonly contextKey?: (() => string) | undefined
  /**
   * Called for a fault that only an operator can fix. Default: pause what needs the operator, report it on `progress`, and try again
   * now and then.
   */
  readonly onOperatorFault?: (error: GraphmillError) => void
}

export interface Runner {
  /** Takes nothing more, finishes what is in flight for at most `graceMs`, then hands back the rest. */
  stop(graceMs: number): Promise<void>
  /** Resolves when all loops have ended. Rejects as soon as one can't go on; then all take nothing more. */
  readonly done: Promise<void>
  readonly circuits: Circuits
}

export function startRunner(options: RunnerOptions): Runner {
  const { broker, space = 'gm', circuits = createCircuits() } = options
  const stopping = new AbortController()
  const broken = Promise.withResolvers<never>()
  const bindings = bindingsOf({ ...options, space })
  const inputs = new Set(bindings.map(({ topic }) => topic))
  const topics = createTopicFaults({ broker, inputs, onMissing: broken.reject })
  const inFlight = createInFlight(options.clock)
  const signer = createContextSigner(options.contextKey)
  const resources: RunnerResources = { ...options, space, circuits, topics, inFlight, signer }
  const entries = createFlowEntries(resources)
  const settle = createSettle(resources, { ...options, entries, stopping: stopping.signal })
  const consume = createConsume(resources, {
    entries,
    settle,
    stopping: stopping.signal,
    onBroken: broken.reject,
  })

  const loops = bindings.map(consume)
  const done = Promise.race([Promise.all(loops).then(() => undefined), broken.promise])
  done.catch(() => stopping.abort())

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

interface InputLoopOptions {
  readonly entries: FlowEntries
  readonly settle: (binding: ConsumerBinding, delivery: Delivery) => Promise<void>
  readonly stopping: AbortSignal
  /** Called when the loop can't go on. */
  readonly onBroken: (thrown: unknown) => void
}

/** The loop of one input: takes deliveries until the runner stops, and ends when all of them are settled. */
function createConsume(resources: RunnerResources, options: InputLoopOptions) {
  const { broker, topics, metrics } = resources
  const { entries, settle, stopping, onBroken } = options

  return async (binding: ConsumerBinding): Promise<void> => {
    const { processor, group, topic, meter } = binding
    const unsettled = new Set<Promise<void>>()
    const track = (settling: Promise<void>) => {
      const settled = settling.then(() => void unsettled.delete(settled))
      unsettled.add(settled)
    }
    const subscription: Subscription = {
      group,
      topic,
      maxInFlight: processor.maxInFlight ?? 32,
      ...(processor.maxBytes && { maxBytes: processor.maxBytes }),
      from: 'earliest',
      ordering: processor.ordering ?? 'none',
      // The group's position stays before the gap until the report is stored.
      onLost(lost) {
        const reported = entries.lost(binding, lost)
        track(reported.catch(() => undefined))
        return reported
      },
    }
    const { figures } = processor
    const hide =
      figures && metrics?.documents.of(binding.scope, () => figures(contextOf(resources, binding, stopping)))
    try {
      let taken = 0
      for await (const delivery of broker.consume(subscription, stopping)) {
        track(settle(binding, delivery))
        if (++taken % atOnce === 0) await turn()
      }
    } catch (thrown) {
      topics.note(thrown, topic)
      onBroken(thrown)
    } finally {
      await Promise.all(unsettled)
      meter?.stopped()
      hide?.()
    }
  }
}

interface SettleOptions extends Pick<RunnerOptions, 'solitude' | 'onOperatorFault'> {
  readonly entries: FlowEntries
  readonly stopping: AbortSignal
}

/** Settles a delivery: it is handled and acked, or recovery.ts decides what becomes of it. */
function createSettle(resources: RunnerResources, options: SettleOptions) {
  const { inFlight } = resources
  const { solitude = createSolitude(), stopping } = options
  const recovery = createRecovery(resources, options)
  const settleSuspect = createSuspects({ inFlight, solitude, recovery, stopping, complete })

  async function complete(binding: ConsumerBinding, delivery: Delivery): Promise<DeliveryOutcome> {
    return acknowledge(delivery, await handleDelivery(resources, binding, delivery))
  }

  async function settleBesideOthers(binding: ConsumerBinding, delivery: Delivery): Promise<DeliveryOutcome> {
    try {
      const turn = solitude.enter(false)
      if (turn) await turn
      let deferral: Deferral | undefined
      try {
        deferral = await handleDelivery(resources, binding, delivery)
      } finally {
        solitude.leave()
      }
      return await acknowledge(delivery, deferral)
    } catch (thrown) {
      return await recovery.recover({ binding, delivery, thrown })
    }
  }

  async function acknowledge(delivery: Delivery, deferral: Deferral | undefined): Promise<DeliveryOutcome> {
    if (deferral) await deferral.after
    await delivery.ack()
    recovery.forget(delivery)
    return 'ok'
  }

  return async (binding: ConsumerBinding, delivery: Delivery): Promise<void> => {
    const { meter } = binding
    const begun = meter?.started()
    const outcome = delivery.suspect
      ? await settleSuspect(binding, delivery, delivery.suspect)
      : await settleBesideOthers(binding, delivery)
    if (begun !== undefined) meter?.ended(begun, outcome)
  }
}

/** Every input of every processor in every flow. */
function bindingsOf(options: RunnerOptions) {
  const { broker, processors, scopes, serving = () => processors, services, space, log, metrics } = options
  const bind = (processor: AnyProcessor, port: InputPort, scope: Scope): ConsumerBinding => {
    const flowTopics = { space: space!, ...scope }
    const topic = inputTopic(port, flowTopics, processor.name)
    const group = inputGroup(port, flowTopics, processor.name)
    if (port === 'triples') metrics?.documents.stores({ processor: processor.name, ...scope })
    const lag = async () => (await broker.lag(group, topic)).total
    return {
      processor,
      port,
      scope,
      topic,
      group,
      services: services({ scope, processor, port }),
      log: log.child({ processor: processor.name, ...scope }),
      meter: metrics?.consuming({ processor: processor.name, topic, group, ...scope, lag }),
    }
  }
  return scopes.flatMap((scope) =>
    serving(scope).flatMap((processor) => processor.inputs.map((port) => bind(processor, port, scope))),
  )
}
