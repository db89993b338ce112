// The runtime of flows: a broker, processors and flows, wired and started. The commands `run` and `extract` and users of the library
// start here.
import type { Logger } from 'pino'
import type { Broker, GroupStart, TopicSpec } from '../broker/broker.ts'
import { deadTopic, schemasTopic, topicSpec } from '../broker/topics.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import { createRateLimiter, type RateLimiter } from '../llm/limits/rate-limiter.ts'
import type { Llm } from '../llm/llm.ts'
import { type Codec, createCodec } from '../messages/codec.ts'
import { loadSchemas } from '../messages/registry.ts'
import type { SchemaRegistry } from '../messages/schema-registry.ts'
import type { CompletedCall } from '../observe/extraction-metrics.ts'
import { createLogger } from '../observe/log.ts'
import type { SupersededChunks } from '../progress/superseded-chunks.ts'
import type { Catalogue } from '../prompt/catalogue/prompt.ts'
import type { RunLimits } from '../prompt/engine/reply.ts'
import type { TripleStore } from '../rdf/store.ts'
import type { RowStore } from '../rows/appended-rows.ts'
import { trustGraphBroker } from '../trustgraph/broker.ts'
import type { Wire, WirePort } from '../trustgraph/wire.ts'
import { trustGraphCodec } from '../trustgraph/wire-codec.ts'
import { systemClock, uuids } from './clock.ts'
import {
  type FlowTopics,
  type InputPort,
  inputGroup,
  inputTopic,
  isReply,
  type OutputPort,
  outputRoute,
  type TopicSettings,
} from './ports.ts'
import {
  type AnyProcessor,
  type Clock,
  type FlowSettings,
  type Ids,
  isExtractor,
  type Scope,
} from './processor.ts'
import { guardLlm, guardRows, guardStore, meterStore } from './runner/circuit-guards.ts'
import { type Circuits, createCircuits } from './runner/circuits.ts'
import { untilAvailable } from './runner/retry.ts'
import { type Runner, type RunnerOptions, startRunner } from './runner/runner.ts'
import type { Solitude } from './runner/solitude.ts'
import { createSchemasTopic } from './schemas-topic.ts'
import type { createTextServices, TextServices } from './text-service.ts'
import type { TopicFollowerOptions } from './topic-follower.ts'

/** What runs: a broker, processors, flows, a model and a store. */
export interface FlowRuntimeOptions
  extends Pick<RunnerOptions, 'broker' | 'processors' | 'metrics' | 'contextKey' | 'onOperatorFault'> {
  readonly flows: readonly (Scope & {
    readonly settings: FlowSettings
    /** How its topics are made when not as usual; topics that exist stay as they are. */
    readonly topics?: TopicSettings
  })[]
  /** Whether extractors also run in flows whose settings do not name them. Default false. */
  readonly allExtractors?: boolean
  readonly llm: Llm
  /** Default: 64 calls at once. */
  readonly rateLimiter?: RateLimiter
  /** Default: the built-in prompts. */
  readonly prompts?: Catalogue
  /** Limits of a prompt's run that differ from the defaults. */
  readonly limits?: Partial<RunLimits> | undefined
  /** The cache of the model's replies. Default: none. */
  readonly replies?: ReplyCache | undefined
  readonly store: TripleStore
  /** Where rows are stored; without one, `store-rows` does not run. */
  readonly rowStore?: RowStore | undefined
  /** Default: warnings and errors, on standard error. */
  readonly log?: Logger
  /** Default: the system's. */
  readonly clock?: Clock
  /** Default: UUIDv7. */
  readonly ids?: Ids
  /** What topic names begin with. Default `gm`. */
  readonly space?: string
  readonly codec?: Codec
  /** The flows whose messages are on TrustGraph's topics. Default: none. */
  readonly wire?: Wire | undefined
  /** Default: none, messages name their schema by its fingerprint. */
  readonly registry?: SchemaRegistry | undefined
  /** Shared by the runtimes of a process, so that all know what is unavailable. */
  readonly circuits?: Circuits
  /** Shared by the runtimes of a process: at most one message in it is handled alone. */
  readonly solitude?: Solitude
}

/** Processors that run. */
export interface FlowRuntime extends Runner {
  readonly codec: Codec
}

/** Makes the topics of the flows, publishes the schemas, and starts the processors. Resolves when they take messages. */
export async function run(given: FlowRuntimeOptions, signal: AbortSignal): Promise<FlowRuntime> {
  const options = wired(given)
  const {
    broker,
    codec,
    wire,
    flows,
    space = 'gm',
    clock = systemClock,
    ids = uuids,
    log = createLogger('warn'),
  } = options
  const { circuits = createCircuits() } = options
  options.metrics?.circuits(circuits.open)
  const draining = new AbortController()
  const textServices = await openTextServices({ ...options, space, clock, ids, circuits })
  const superseded = await supersededIn(options)
  const servicesOf = await createServices({ ...options, circuits, textServices, superseded }, draining.signal)
  const schemas = createSchemasTopic(broker, codec, space, options.registry)
  const serving = (flow: Scope) => options.processors.filter((each) => serves(each, flow, options))
  const specs = flows.flatMap((flow) => topicsOf(serving(flow), { ...flow, space, wire }))
  const untilBroker = (act: () => Promise<void>) =>
    untilAvailable(act, {
      signal,
      onFailure: (error) => log.warn({ err: error }, 'waiting for the broker to create the topics'),
    })
  await untilBroker(() => broker.ensureTopics([...specs, topicSpec(schemasTopic(space))]))
  if (flows.some(({ topics = {} }) => Object.keys(topics).length > 0))
    await untilBroker(() => warnOfPartitions(specs, { broker, log, space }))
  await untilBroker(() => schemas.announce(signal))
  // What is published from now on is for the groups that begin at the end of their topics, too.
  if (wire)
    await untilBroker(() =>
      broker.ensureGroups(
        flows
          .flatMap((flow) => groupsOf(serving(flow), { ...flow, space }))
          .filter(({ group }) => wire.groupOf(group) !== undefined),
      ),
    )
  const runner = startRunner({
    ...options,
    clock,
    ids,
    log,
    space,
    circuits,
    schemas,
    scopes: flows.map(({ workspace, flow }) => ({ workspace, flow })),
    serving,
    services: servicesOf,
  })
  const following = [...superseded].map(([flow, chunks]) =>
    followTopics({ ...options, schemas, log, chunks }, { ...flow, space }, draining.signal),
  )
  return {
    ...runner,
    codec,
    async stop(graceMs) {
      draining.abort()
      await runner.stop(graceMs)
      await Promise.all(following)
      await textServices?.close()
    },
  }
}

type Flow = FlowRuntimeOptions['flows'][number]

/** For each flow whose model is asked here, which chunks are superseded. */
async function supersededIn({
  processors,
  flows,
}: Pick<FlowRuntimeOptions, 'processors' | 'flows'>): Promise<ReadonlyMap<Flow, SupersededChunks>> {
  if (!processors.some(({ outputs }) => outputs.includes('reply'))) return new Map()
  const { createSupersededChunks } = await import('../progress/superseded-chunks.ts')
  return new Map(flows.map((flow) => [flow, createSupersededChunks()]))
}

/** What a process follows that asks models: which chunks it need not ask about, and which replies it forgets. */
async function followTopics(
  {
    chunks,
    replies,
    ...options
  }: TopicFollowerOptions & Pick<FlowRuntimeOptions, 'replies'> & { chunks: SupersededChunks },
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<void> {
  const { followTopic } = await import('./topic-follower.ts')
  const warning = 'the model is also asked about chunks that are superseded'
  const asking = followTopic({ port: 'contents', flow, take: chunks.take, warning }, options, signal)
  if (!replies) return await asking
  const { forgetErasedReplies } = await import('./erased-replies.ts')
  await Promise.all([asking, forgetErasedReplies(replies, flow, options, signal)])
}

/** Whether the processor runs in the flow: an extractor only if the flow names it, and `store-rows` only if rows are stored. */
function serves(
  processor: AnyProcessor,
  scope: Scope,
  {
    flows,
    rowStore,
    allExtractors = false,
  }: Pick<FlowRuntimeOptions, 'flows' | 'rowStore' | 'allExtractors'>,
): boolean {
  const { settings } = flowOf(scope, flows)
  if (processor.name === 'store-rows') return rowStore !== undefined
  return allExtractors || !isExtractor(processor) || settings.extractors.includes(processor.name)
}

const flowOf = ({ workspace, flow }: Scope, flows: FlowRuntimeOptions['flows']) =>
  flows.find((each) => each.workspace === workspace && each.flow === flow)!

/** Some topics of wired flows have other names on the broker, and another format. */
function wired(options: FlowRuntimeOptions) {
  const { broker, codec = createCodec(loadSchemas()), wire } = options
  if (wire === undefined) return { ...options, codec }
  return { ...options, broker: trustGraphBroker(broker, wire), codec: trustGraphCodec(codec, wire) }
}

/** What the handlers of an input get. What waits for a model or store when the runtime `drains` is handed back to its topic. */
async function createServices(
  options: FlowRuntimeOptions & {
    circuits: Circuits
    textServices: TextServices | undefined
    superseded: ReadonlyMap<Flow, SupersededChunks>
  },
  drains: AbortSignal,
): Promise<RunnerOptions['services']> {
  const { flows, circuits, metrics, limits, replies, textServices, superseded } = options
  const { rateLimiter = createRateLimiter(), prompts = await builtInPrompts() } = options
  return ({ scope: { workspace, flow }, processor, port }) => {
    const own = flowOf({ workspace, flow }, flows)
    const caller = { workspace, flow, lane: port === 'prompt-live' ? 'live' : processor.name }
    const called = (call: CompletedCall) => metrics?.extraction.completed(processor.name, call)
    const model = textServices?.modelOf({ workspace, flow }) ?? options.llm
    const llm = guardLlm(model, { rateLimiter, circuits, caller, drains, called })
    const metered = metrics ? meterStore(options.store, processor.name, metrics.store) : options.store
    const store = guardStore(metered, circuits, drains)
    const rowStore = options.rowStore && guardRows(options.rowStore, circuits, drains)
    const { settings } = own
    return { settings, llm, prompts, store, rowStore, limits, replies, superseded: superseded.get(own) }
  }
}

/** For a model that is asked on the topics of its flow. */
async function openTextServices(
  options: Parameters<typeof createTextServices>[1] & Pick<FlowRuntimeOptions, 'llm' | 'processors'>,
): Promise<TextServices | undefined> {
  if (!options.llm.usesService) return undefined
  if (options.processors.some(({ outputs }) => outputs.includes('text-reply')))
    throw new GraphmillError(
      'configuration_invalid',
      'The processor text-completion would ask itself: it needs a model of its own.',
    )
  const { createTextServices } = await import('./text-service.ts')
  return createTextServices(options.llm, options)
}

async function builtInPrompts(): Promise<Catalogue> {
  const { loadCatalogue } = await import('../prompt/catalogue/catalogue.ts')
  return loadCatalogue()
}

/** The topics that processors read and write in a flow, by name. */
export function topicsOf(
  processors: readonly AnyProcessor[],
  flow: FlowTopics & { readonly topics?: TopicSettings; readonly wire?: Wire | undefined },
): TopicSpec[] {
  const { topics, wire } = flow
  const specs = new Map<string, TopicSpec>()
  const add = (port: InputPort | WirePort, name: string): void => {
    specs.set(name, topicSpec(name, { ...wire?.settingsOf(name), ...topics?.[port] }))
    // Dead letters without a bound have a topic when the first one comes.
    const retentionMs = topics?.[port]?.deadRetentionMs
    if (retentionMs !== undefined) specs.set(deadTopic(name), topicSpec(deadTopic(name), { retentionMs }))
    const replies = wire?.repliesTo(name)
    if (replies) add(replies.port, replies.topic)
  }
  for (const processor of processors) {
    for (const port of processor.inputs as readonly InputPort[])
      add(port, inputTopic(port, flow, processor.name))
    for (const port of processor.outputs as readonly OutputPort[])
      if (!isReply(port)) add(port, outputRoute(port, flow).topic)
  }
  // The runner itself reports on progress.
  add('progress', outputRoute('progress', flow).topic)
  return [...specs.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The groups by which processors read in a flow, and where they begin. */
export function groupsOf(processors: readonly AnyProcessor[], flow: FlowTopics): GroupStart[] {
  return processors.flatMap(({ name, inputs, ordering = 'none' }) =>
    (inputs as readonly InputPort[]).map((port) => ({
      group: inputGroup(port, flow, name),
      topic: inputTopic(port, flow, name),
      ...({ from: 'earliest', ordering } as const),
    })),
  )
}

/** Warns of topics with another number of partitions. None are added: a key's messages would move to another partition. */
async function warnOfPartitions(
  specs: readonly TopicSpec[],
  { broker, log, space }: { readonly broker: Broker; readonly log: Logger; readonly space: string },
): Promise<void> {
  const topics = await broker.listTopics(`${space}.`).catch((thrown: unknown) => {
    const err = toGraphmillError(thrown)
    // A Pulsar without its admin API: its topics are used as they are.
    if (err.code !== 'broker_refused') throw err
    log.debug({ err }, 'the partitions of topics are not known')
    return []
  })
  const found = new Map(topics.map(({ name, partitions }) => [name, partitions]))
  for (const { name: topic, partitions: wanted } of specs) {
    const partitions = found.get(topic)
    if (partitions !== undefined && partitions !== wanted)
      log.warn(
        { topic, partitions, wanted },
        'a topic keeps the number of partitions that it was created with',
      )
  }
}
