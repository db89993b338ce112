// The flows of a command: those of the flows file, or the one that its options name.
import { processorNames } from '../../processors/modules.ts'
import { topicSpec } from '../broker/topics.ts'
import { type Config, suggest } from '../config/config.ts'
import { type FlowConfig, readFlows } from '../config/flows.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { inputPorts, inputTopic } from '../flow/ports.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { chosenExtractors } from './wiring.ts'

/** Throws `configuration_invalid`, and `topic_name_invalid` if the flow's name can't be part of a topic name. */
export function flowsOf(config: Config): readonly FlowConfig[] {
  const { flows: file } = config.options
  const flows = file === undefined ? [{ ...config, topics: {} }] : readFlows(file, config, ports)
  for (const flow of flows) checkNames(flow)
  return flows
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

/** The processors of `chosen` that serve the flow: all but the extractors that it does not use. Throws `usage`. */
export function serving(chosen: readonly AnyProcessor[], flow: Config): AnyProcessor[] {
  const extractors = chosenExtractors(flow)
  return chosen.filter(({ name }) => !name.startsWith('extract-') || extractors.includes(name))
}

/** The topics that a flow can configure. */
const ports = Object.fromEntries(
  inputPorts.map((port) => {
    const name = inputTopic(port, { space: 'x', workspace: 'x', flow: 'x' }, 'x')
    return [port, { compacted: topicSpec(name).compacted === true }]
  }),
)
