// A mill: a broker, processors and flows, wired and started. The command `run`, `extract` and users of the library start here.
import type { Logger } from 'pino'
import type { Broker, TopicSpec } from '../broker/broker.ts'
import { topicSpec } from '../broker/topics.ts'
import type { GraphmillError } from '../errors.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import { createRateLimiter, type RateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { loadSchemas } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import type { CompletedCall } from '../observe/extraction-metrics.ts'
import { createLogger } from '../observe/log.ts'
import type { FlowMetrics } from '../observe/metrics.ts'
import { type Catalogue, loadCatalogue } from '../prompt/catalogue/catalogue.ts'
import type { RunLimits } from '../prompt/engine/reply.ts'
import type { TripleStore } from '../rdf/store.ts'
import { systemClock, uuids } from './clock.ts'
import {
  type InputPort,
  inputTopic,
  isReply,
  type OutputPort,
  outputRoute,
  type TopicSettings,
} from './ports.ts'
import type { AnyProcessor, Clock, FlowSettings, Ids, Scope } from './processor.ts'
import { guardLlm, guardStore, meterStore } from './runner/circuit-guards.ts'
import { type Circuits, createCircuits } from './runner/circuits.ts'
import { untilAvailable } from './runner/retry.ts'
import { type Runner, startRunner } from './runner/runner.ts'
import type { Solitude } from './runner/solitude.ts'
import { createSchemasTopic } from './schemas-topic.ts'

export interface FlowRuntimeOptions {
  readonly broker: Broker
  readonly processors: readonly AnyProcessor[]
  readonly flows: readonly (Scope & {
    readonly settings: FlowSettings
    /** How its topics are made, where that is not the usual; topics that exist stay as they are. */
    readonly topics?: TopicSettings
  })[]
  readonly llm: Llm
  /** Default: 64 calls at once. */
  readonly rateLimiter?: RateLimiter
  /** Default: the built-in prompts. */
  readonly prompts?: Catalogue
  /** How far a prompt's run may go, where that differs from the defaults. */
  readonly limits?: Partial<RunLimits> | undefined
  /** Where replies of the model are remembered. Default: nowhere. */
  readonly replies?: ReplyCache | undefined
  readonly store: TripleStore
  /** Default: warnings and errors, on standard error. */
  readonly log?: Logger
  /** Default: the system's. */
  readonly clock?: Clock
  /** Default: UUIDv7. */
  readonly ids?: Ids
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly codec?: Codec
  /** Default: none, messages name their schema by its fingerprint. */
  readonly registry?: SchemaRegistry
  /** Shared by the mills of a process, which know together what is away. */
  readonly circuits?: Circuits
  /** Likewise: who works alone in the process. */
  readonly solitude?: Solitude
  readonly metrics?: FlowMetrics
  /** See `RunnerOptions`. */
  readonly contextKey?: (() => string) | undefined
  /** See `RunnerOptions`. */
  readonly onOperatorFault?: (error: GraphmillError) => void
}

export interface FlowRuntime extends Runner {
  readonly codec: Codec
}

/** Makes the topics of the flows, publishes the schemas, and starts the processors. Resolves when they take messages. */
export async function run(options: FlowRuntimeOptions, signal: AbortSignal): Promise<FlowRuntime> {
  const { broker, processors, flows, space = 'gm' } = options
  const { clock = systemClock, ids = uuids, log = createLogger('warn') } = options
  const { rateLimiter = createRateLimiter(), prompts = await loadCatalogue() } = options
  const codec = options.codec ?? createCodec(loadSchemas())
  const { circuits = createCircuits(), metrics } = options
  metrics?.circuits(circuits.open)
  const draining = new AbortController()
  const drains = draining.signal
  const schemas = createSchemasTopic(broker, codec, space, options.registry)
  const specs = flows.flatMap((flow) => topicsOf(processors, { ...flow, space }))
  const onFailure = (error: GraphmillError) =>
    log.warn({ err: error }, 'waiting for the broker to make the topics')
  await untilAvailable(() => broker.ensureTopics(specs), { signal, onFailure })
  if (flows.some(({ topics = {} }) => Object.keys(topics).length > 0))
    await untilAvailable(() => warnOfOthers(specs, { broker, log, space }), { signal, onFailure })
  await untilAvailable(() => schemas.announce(signal), { signal, onFailure })
  const runner = startRunner({
    ...options,
    clock,
    ids,
    log,
    space,
    codec,
    circuits,
    schemas,
    scopes: flows.map(({ workspace, flow }) => ({ workspace, flow })),
    services({ scope, processor, port }) {
      const { settings } = flows.find(
        (flow) => flow.workspace === scope.workspace && flow.flow === scope.flow,
      )!
      const caller = { ...scope, lane: port === 'prompt-live' ? 'live' : processor.name }
      const called = (call: CompletedCall) => metrics?.extraction.completed(processor.name, call)
      const llm = guardLlm(options.llm, { rateLimiter, circuits, caller, drains, called })
      const metered = metrics ? meterStore(options.store, processor.name, metrics.store) : options.store
      const store = guardStore(metered, circuits, drains)
      const { limits, replies } = options
      return { settings, llm, prompts, store, limits, replies }
    },
  })
  return {
    ...runner,
    codec,
    stop(graceMs) {
      draining.abort()
      return runner.stop(graceMs)
    },
  }
}

/** The topics that processors read and write in a flow, by name. */
export function topicsOf(
  processors: readonly AnyProcessor[],
  place: Scope & { readonly space: string; readonly topics?: TopicSettings },
): TopicSpec[] {
  const specs = new Map<string, TopicSpec>()
  const add = (port: InputPort, name: string) => specs.set(name, topicSpec(name, place.topics?.[port]))
  for (const processor of processors) {
    for (const port of processor.inputs as readonly InputPort[])
      add(port, inputTopic(port, place, processor.name))
    for (const port of processor.outputs as readonly OutputPort[])
      if (!isReply(port)) add(port, outputRoute(port, place).topic)
  }
  // The runner itself speaks on progress.
  add('progress', outputRoute('progress', place).topic)
  return [...specs.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Partitions are never added to a topic: the keys of what it holds would be elsewhere than those of what comes. */
async function warnOfOthers(
  specs: readonly TopicSpec[],
  {
    broker,
    log,
    space,
  }: Pick<FlowRuntimeOptions, 'broker'> & { readonly log: Logger; readonly space: string },
): Promise<void> {
  const found = new Map(
    (await broker.listTopics(`${space}.`)).map(({ name, partitions }) => [name, partitions]),
  )
  for (const { name: topic, partitions: wanted } of specs) {
    const partitions = found.get(topic)
    if (partitions !== undefined && partitions !== wanted)
      log.warn({ topic, partitions, wanted }, 'a topic keeps the partitions that it was made with')
  }
}
