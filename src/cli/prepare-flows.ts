// From the configuration to the flows that `run` starts, and the files that it watches for changes of them.
import { type Config, secretFiles } from '../config/config.ts'
import type { FlowConfig } from '../config/flows.ts'
import { checkSecret } from '../config/secret.ts'
import { contentOf } from '../config/watch.ts'
import type { PreparedFlow } from '../flow/flow-set.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { type FlowRuntimeOptions, run } from '../flow/run.ts'
import { flowError, flowsOf, nameOf, serving, wireOf } from './flows.ts'
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
}

/** Opens the model and prompts of every flow before any is started. Throws what opening them throws. */
export async function prepareFlows(config: Config, options: FlowPreparerOptions): Promise<PreparedFlow[]> {
  for (const secret of secretFiles(config)) checkSecret(secret)
  return Promise.all(
    flowsOf(config).map((flow) => {
      const fail = (thrown: unknown): never => {
        throw flowError(flow, thrown)
      }
      return prepareFlow(flow, options).then(({ start, ...prepared }) => {
        const startFlow: PreparedFlow['start'] = async (until) => {
          const running = await start(until).catch(fail)
          return { ...running, done: running.done.catch(fail) }
        }
        return { ...prepared, start: startFlow }
      }, fail)
    }),
  )
}

async function prepareFlow(flow: FlowConfig, options: FlowPreparerOptions): Promise<PreparedFlow> {
  // Read first: what is opened after this is no older than its fingerprint.
  const content = await contentOf(filesOf(flow))
  const processors = options.byFlow ? serving(options.processors, flow) : options.processors
  const flowWiring = await options.wiring.wire(flow)
  options.onWired(flowWiring)
  const flows = flowWiring.flows.map((each) => ({ ...each, topics: flow.topics }))
  const wire = wireOf([flow], flow)
  return {
    name: nameOf(flow),
    fingerprint: JSON.stringify([flow.options, flow.topics, flow.trustgraph, content]),
    start: (until) => run({ ...flowWiring, ...options.shared(), flows, processors, wire }, until),
    gone: () => options.gone(flow),
  }
}

/** The files and folders that are watched. A flows file that can't be read is watched itself. */
export function watchedPaths(config: Config): string[] {
  const secrets = secretFiles(config).map(({ file }) => file)
  const { flows } = config.options
  if (flows === undefined) return [...secrets, ...filesOf(config)]
  try {
    return [...secrets, flows, ...flowsOf(config).flatMap(filesOf)]
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
