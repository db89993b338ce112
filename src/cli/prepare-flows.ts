// From the configuration to the flows that `run` starts, and the files that it watches for changes of them.
import { createHash } from 'node:crypto'
import { type Config, secretFiles } from '../config/config.ts'
import type { FlowConfig } from '../config/flows.ts'
import { checkSecret } from '../config/secret.ts'
import { contentOf } from '../config/watch.ts'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import type { PreparedFlow } from '../flow/flow-set.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { type FlowRuntimeOptions, run } from '../flow/run.ts'
import type { InputFile } from '../input-file.ts'
import type { ConfigSnapshot } from '../trustgraph/config-snapshots.ts'
import { entriesOf, flowError, nameOf, serving, wireOf } from './flows.ts'
import { type FoundFlow, followedFlows, isFollowing } from './followed-flows.ts'
import type { FlowWiring, Wiring } from './wiring.ts'

export interface FlowPreparerOptions {
  readonly processors: readonly AnyProcessor[]
  /** Whether each flow runs, of the processors, only the extractors that it names. */
  readonly byFlow: boolean
  readonly wiring: Wiring
  /** What the flows of the process share; asked for when a flow starts. */
  readonly shared: () => Omit<FlowRuntimeOptions, 'processors' | 'flows' | 'llm'>
  readonly onWired: (flowWiring: FlowWiring) => void
  /** Called when a flow has ended that is no longer configured. */
  readonly gone: (flow: FlowConfig) => Promise<void>
  readonly followed: FollowedState
}

/** What is known of the flows that follow TrustGraph's configuration service. */
export interface FollowedState {
  /** Undefined until the configuration was fetched; then there are no such flows yet. */
  snapshot: ConfigSnapshot | undefined
  /** The last version of each flow that could be prepared, by its name. */
  readonly last: Map<string, PreparedFlow>
  /** Why the newest version of a flow is not in force, by its name. */
  refusals: ReadonlyMap<string, GraphmillError>
}

/**
 * Opens the model and prompts of every flow before any is started. Throws what opening them throws, except for a flow that follows
 * TrustGraph's configuration: if what is configured there is invalid, the version before stays.
 */
export async function prepareFlows(config: Config, options: FlowPreparerOptions): Promise<PreparedFlow[]> {
  for (const secret of secretFiles(config)) checkSecret(secret)
  const entries = entriesOf(config)
  const own = entries.filter((entry) => !isFollowing(entry))
  return [
    ...(await Promise.all(own.map((flow) => prepareNamed(flow, options)))),
    ...(await prepareFollowed(entries, options)),
  ]
}

/** Names the flow in errors. */
async function prepareNamed(
  flow: FlowConfig,
  options: FlowPreparerOptions,
  before?: PreparedFlow,
): Promise<PreparedFlow> {
  const fail = (thrown: unknown): never => {
    throw flowError(flow, thrown)
  }
  const prepared = await prepareFlow(flow, options, before).catch(fail)
  if (prepared === before) return before
  return {
    ...prepared,
    async start(until) {
      const running = await prepared.start(until).catch(fail)
      return { ...running, done: running.done.catch(fail) }
    },
  }
}

async function prepareFollowed(
  entries: readonly FlowConfig[],
  options: FlowPreparerOptions,
): Promise<PreparedFlow[]> {
  const { followed, processors } = options
  if (followed.snapshot === undefined) return []
  const names = processors.map(({ name }) => name)
  const found = followedFlows(entries, followed.snapshot, names)
  const refusals = new Map<string, GraphmillError>()
  const flows = found.map(async (each) => {
    const { name } = each
    const before = followed.last.get(name)
    try {
      if ('error' in each) throw each.error
      const prepared = { ...(await prepareNamed(each.flow, options, before)), mayWait: true }
      followed.last.set(name, prepared)
      return prepared
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry === 'later') throw error
      refusals.set(name, error)
      return before ?? refusedFlow(each, error, options)
    }
  })
  const prepared = await Promise.all(flows)
  for (const name of followed.last.keys())
    if (!found.some((each) => each.name === name)) followed.last.delete(name)
  followed.refusals = refusals
  return prepared
}

/** A flow without an earlier version: each attempt to start it prepares it again, for the error may be one of the operator's. */
function refusedFlow(each: FoundFlow, error: GraphmillError, options: FlowPreparerOptions): PreparedFlow {
  return {
    name: each.name,
    mayWait: true,
    fingerprint: `refused: ${error.message}`,
    async start(until) {
      if ('error' in each) throw each.error
      return (await prepareNamed(each.flow, options)).start(until)
    },
  }
}

/** Returns the version before when nothing has changed. */
async function prepareFlow(
  flow: FlowConfig,
  options: FlowPreparerOptions,
  before: PreparedFlow | undefined,
): Promise<PreparedFlow> {
  // Read first: what is opened after this is no older than its fingerprint.
  const fingerprint = await fingerprintOf(flow)
  if (before?.fingerprint === fingerprint) return before
  const processors = options.byFlow ? serving(options.processors, flow) : options.processors
  const flowWiring = await options.wiring.wire(flow)
  options.onWired(flowWiring)
  const flows = flowWiring.flows.map((each) => ({ ...each, topics: flow.topics }))
  const wire = wireOf([flow], flow)
  return {
    name: nameOf(flow),
    fingerprint,
    start: (until) =>
      run({ ...flowWiring, ...options.shared(), flows, processors, wire, allExtractors: true }, until),
    gone: () => options.gone(flow),
  }
}

async function fingerprintOf(flow: FlowConfig): Promise<string> {
  const { options, topics, trustgraph, serves = [], supplied = {} } = flow
  const texts = Object.values<InputFile | undefined>(supplied).map((file) =>
    Buffer.from(file?.bytes ?? []).toString(),
  )
  const content = createHash('sha256').update(JSON.stringify(texts)).digest('hex')
  return JSON.stringify([options, topics, trustgraph, [...serves], content, await contentOf(filesOf(flow))])
}

/** The files and folders that are watched. A flows file that can't be read is watched itself. */
export function watchedPaths(config: Config): string[] {
  const secrets = secretFiles(config).map(({ file }) => file)
  const { flows } = config.options
  if (flows === undefined) return [...secrets, ...filesOf(config)]
  try {
    return [...secrets, flows, ...entriesOf(config).flatMap(filesOf)]
  } catch {
    return [...secrets, flows]
  }
}

/** The files and folders from which a flow is made. */
const filesOf = ({ options }: Config): string[] => [
  ...options.prompts,
  ...options.ontologies,
  ...options.schemas,
]
