// The flows that a command is about: those of the flows file, or the one that its options name.
import { topicSpec } from '../broker/topics.ts'
import { type Config, suggest } from '../config/config.ts'
import { type FlowConfig, readFlows } from '../config/flows.ts'
import { GraphmillError } from '../errors.ts'
import { inputPorts, inputTopic } from '../flow/ports.ts'
import type { AnyProcessor } from '../flow/processor.ts'
import { chosenExtractors } from './assembly.ts'

/** Throws `configuration_invalid`. */
export function flowsOf(config: Config): readonly FlowConfig[] {
  const { flows } = config.options
  return flows === undefined ? [{ ...config, topics: {} }] : readFlows(flows, config, ports)
}

/** The one flow that `--workspace` and `--flow` name. Throws `configuration_invalid`, and `usage` where the flows file has no such flow. */
export function flowOf(config: Config): FlowConfig {
  const flows = flowsOf(config)
  const name = nameOf(config)
  const found = flows.find((flow) => nameOf(flow) === name)
  if (found) return found
  const names = flows.map(nameOf)
  throw new GraphmillError(
    'usage',
    `${config.options.flows} has no flow ${name}.${suggest(name, names) || ` There is: ${names.join(', ')}.`}`,
  )
}

/** `workspace/flow`. */
export const nameOf = ({ options }: Config) => `${options.workspace}/${options.flow}`

/** Of `processors` those that serve a flow: of the extractors only those that it wants. Throws `usage`. */
export function serving(processors: readonly AnyProcessor[], flow: Config): AnyProcessor[] {
  const extractors = chosenExtractors(flow)
  return processors.filter(({ name }) => !name.startsWith('extract-') || extractors.includes(name))
}

/** What a flow may say of its topics. */
const ports = Object.fromEntries(
  inputPorts.map((port) => {
    const name = inputTopic(port, { space: 'x', workspace: 'x', flow: 'x' }, 'x')
    return [port, { compacted: topicSpec(name).compacted === true }]
  }),
)
