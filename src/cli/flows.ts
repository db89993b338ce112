// The flows of a command: those of the flows file, or the one that its options name.
import { processorNames } from '../../processors/modules.ts'
import { topicSpec } from '../broker/topics.ts'
import { type Config, suggest } from '../config/config.ts'
import { type FlowConfig, isPattern, type KnownNames, readFlows } from '../config/flows.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { type InputPort, inputPorts, inputTopic } from '../flow/ports.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { counterparts, createWire, topicNaming, type Wire, wireTypes } from '../trustgraph/wire.ts'
import { chosenExtractors } from './wiring.ts'

/** Throws `configuration_invalid`, and `topic_name_invalid` if the flow's name can't be part of a topic name. */
export function flowsOf(config: Config): readonly FlowConfig[] {
  return entriesOf(config).filter((flow) => !isPattern(flow))
}

/** The flows, and the entries of the flows file that stand for flows of TrustGraph's configuration. Throws as `flowsOf`. */
export function entriesOf(config: Config): readonly FlowConfig[] {
  const { flows: file } = config.options
  const entries = file === undefined ? [{ ...config, topics: {} }] : readFlows(file, config, knownNames)
  const bounded = entries.map(boundTexts)
  const flows = bounded.filter((flow) => !isPattern(flow))
  for (const flow of flows) checkNames(flow)
  wireOf(flows, config)
  return bounded
}

/** The ports of topics that hold neither texts nor facts, besides the compacted ones. */
const withoutTexts: readonly InputPort[] = ['progress']
const dayMs = 24 * 3600 * 1000

/** Applies `text-retention` to the topics whose retention the flow does not set. TrustGraph's topics stay as it makes them. */
function boundTexts(flow: FlowConfig): FlowConfig {
  const days = flow.options['text-retention']
  if (days === undefined || flow.trustgraph) return flow
  const bound = { retentionMs: days * dayMs, deadRetentionMs: days * dayMs }
  const ports = inputPorts.filter(
    (port) => !withoutTexts.includes(port) && !knownNames.ports[port]!.compacted,
  )
  const topics = ports.map((port) => [port, { ...bound, ...flow.topics[port] }] as const)
  return { ...flow, topics: { ...flow.topics, ...Object.fromEntries(topics) } }
}

function checkNames(flow: FlowConfig): void {
  try {
    for (const port of inputPorts) for (const name of processorNames) inputTopic(port, flow.options, name)
  } catch (thrown) {
    throw flowError(flow, thrown)
  }
}

/** The flow that `--workspace` and `--flow` name. Throws `configuration_invalid`, and `usage` if the flows file has no such flow. */
export function flowOf(config: Config): FlowConfig {
  const flows = flowsOf(config)
  const name = nameOf(config)
  const found = flows.find((flow) => nameOf(flow) === name)
  if (found) return found
  const names = flows.map(nameOf)
  throw new GraphmillError(
    'usage',
    `${config.options.flows} has no flow ${name}.${suggest(name, names) || ` It has ${names.join(', ')}.`}`,
  )
}

/** `workspace/flow`. */
export const nameOf = ({ options }: Config) => `${options.workspace}/${options.flow}`

/** With a flows file, the error names the flow. */
export function flowError(flow: Config, thrown: unknown): GraphmillError {
  const error = toGraphmillError(thrown)
  if (flow.options.flows === undefined) return error
  return new GraphmillError(error.code, `${nameOf(flow)}: ${error.message}`, { cause: error })
}

/**
 * The processors of `chosen` that serve the flow: all but the extractors that it does not use, and `store-rows` unless the flow extracts
 * rows and a folder is named for them. Throws `usage`.
 */
export function serving(
  chosen: readonly AnyProcessor[],
  flow: Config & Pick<FlowConfig, 'serves'>,
): AnyProcessor[] {
  const extractors = chosenExtractors(flow)
  const storesRows = flow.options.rows !== undefined && extractors.includes('extract-rows')
  const has = (name: string) => !flow.serves || flow.serves.has(name) || !Object.hasOwn(counterparts, name)
  const wants = (name: string) => {
    if (name === 'store-rows') return storesRows
    return !name.startsWith('extract-') || extractors.includes(name)
  }
  return chosen.filter(({ name }) => has(name) && wants(name))
}

/**
 * Which topics of the flows are TrustGraph's; undefined when none is. Throws `configuration_invalid` for identifiers that are none, and
 * for topics that would share a name.
 */
export function wireOf(flows: readonly FlowConfig[], { options }: Config): Wire | undefined {
  const wired = flows.flatMap(({ options: { workspace, flow }, topics, trustgraph }) => {
    if (trustgraph === undefined) return []
    const identifiers = Object.entries(topics).flatMap(([port, { identifier }]) =>
      identifier === undefined ? [] : [[port, identifier] as const],
    )
    return [{ workspace, flow, trustgraph: { ...trustgraph, identifiers: Object.fromEntries(identifiers) } }]
  })
  if (wired.length === 0) return undefined
  return createWire(wired, { space: options.space, nameOf: topicNaming(options.broker) })
}

const isWired = (port: string) => Object.hasOwn(wireTypes, port)

/** The topics that a flow can configure, and the processors that have a counterpart among TrustGraph's. */
const knownNames: KnownNames = {
  ports: {
    ...Object.fromEntries(
      Object.keys(wireTypes).map((port) => [port, { compacted: false, wired: true }] as const),
    ),
    ...Object.fromEntries(
      inputPorts.map((port) => {
        const name = inputTopic(port, { space: 'x', workspace: 'x', flow: 'x' }, 'x')
        return [port, { compacted: topicSpec(name).compacted === true, wired: isWired(port) }] as const
      }),
    ),
  },
  processors: [...Object.keys(counterparts), 'prompt-live'],
}
