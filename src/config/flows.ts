// The flows file: the workspaces and flows, and the options of each. It is accepted as a whole or not at all.
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { type Config, overrideConfig, readValue, suggest } from './config.ts'
import { type OptionName, optionTable } from './options.ts'
import { anyId, readIdentifier, readTrustGraph, type TrustGraphSettings } from './trustgraph.ts'
import { readYaml } from './yaml.ts'

/** The options that a flow may set, besides `topics`, `wire` and `trustgraph`. All others belong to the process. */
export const flowOptions = [
  'workspace',
  'flow',
  'collection',
  'llm',
  'model',
  'temperature',
  'prompts',
  'output-mode',
  'extractors',
  'schemas',
  'ontologies',
  'ontology-budget',
  'provenance',
  'ungrounded',
  'replace',
  'chunk-size',
  'chunk-overlap',
  'text-retention',
] as const satisfies readonly OptionName[]

/** Settings of topics that differ from the defaults, by port. */
export type FlowTopics = Readonly<
  Record<
    string,
    {
      readonly partitions?: number
      readonly retentionMs?: number
      readonly deadRetentionMs?: number
      /** TrustGraph's identifier of the topic, on its wire. */
      readonly identifier?: string
    }
  >
>

export interface FlowConfig extends Config {
  readonly topics: FlowTopics
  /** Undefined for a flow on our own wire. */
  readonly trustgraph?: TrustGraphSettings | undefined
  /** For a flow that follows TrustGraph's configuration: the processors with a counterpart that it has. Default: all. */
  readonly serves?: ReadonlySet<string>
}

/** Whether an entry stands for all flows, or workspaces, of TrustGraph's configuration. */
export const isPattern = ({ trustgraph }: FlowConfig) =>
  trustgraph?.workspace === anyId || trustgraph?.flow === anyId

/** The ports whose topics a flow may configure. Compacted topics are kept for ever; `wired` ones are on TrustGraph's wire, too. */
export type Ports = Readonly<Record<string, { readonly compacted: boolean; readonly wired?: boolean }>>

/** What a flows file may name. */
export interface KnownNames {
  readonly ports: Ports
  /** Those with a counterpart among TrustGraph's. */
  readonly processors?: readonly string[]
}

const namePattern = /^[a-z0-9_-]+$/
const dayMs = 24 * 3600 * 1000

/**
 * The configuration of each flow of a file: `flows: [{ workspace, flow, topics, wire, trustgraph, ...options }]`, based on the configuration of the
 * process. Throws `configuration_invalid`, which names file and flow, for unknown keys and for two flows that would share topics.
 */
export function readFlows(path: string, base: Config, known: KnownNames): FlowConfig[] {
  const content = readYaml(path)
  if (!isObject(content))
    throw invalid(`${path}: it must hold a list \`flows\`, such as flows: [{workspace: acme, flow: papers}].`)
  const stranger = Object.keys(content).find((key) => key !== 'flows')
  if (stranger !== undefined)
    throw invalid(`${path}: there is no key ${stranger}.${suggestOf(stranger, ['flows'])}`)
  const { flows } = content
  if (!Array.isArray(flows))
    throw invalid(`${path}: it must hold a list \`flows\`, such as flows: [{workspace: acme, flow: papers}].`)
  if (flows.length === 0) throw invalid(`${path}: it holds no flow.`)
  const configs = flows.map((flow: unknown, at) =>
    readFlow(flow, { place: `${path}: flow ${at + 1}`, base, known }),
  )
  refuseShared(
    path,
    configs.filter((flow) => !isPattern(flow)),
  )
  return configs
}

interface FlowReading {
  readonly place: string
  readonly base: Config
  readonly known: KnownNames
}

function readFlow(flow: unknown, { place, base, known }: FlowReading): FlowConfig {
  if (!isObject(flow)) throw invalid(`${place}: it must be an object with workspace and flow.`)
  // As in the configuration file, a key without a value is ignored.
  const given = Object.entries(flow).filter(([, value]) => value !== null)
  const { topics, wire, trustgraph, ...options } = Object.fromEntries(given)
  for (const key of Object.keys(options)) refuseUnknown(key, place)
  const config = overrideConfig(base, options, place)
  for (const name of ['workspace', 'flow'] as const)
    if (!namePattern.test(config.options[name]))
      throw invalid(`${place}: ${name} may hold a-z, 0-9, _ and - only.`)
  const { processors = [], ports } = known
  const theirs = readTrustGraph({ wire, trustgraph }, config.options, { place, processors })
  const reading = { place: `${place}: topics`, ports, isWired: theirs !== undefined }
  return { ...config, topics: readTopics(topics ?? {}, reading), trustgraph: theirs }
}

function refuseUnknown(key: string, place: string): void {
  const known: readonly string[] = flowOptions
  if (known.includes(key)) return
  if (Object.hasOwn(optionTable, key))
    throw invalid(`${place}: a flow has no key ${key}: it is one of the whole process, --${key}.`)
  throw invalid(
    `${place}: a flow has no key ${key}.${suggestOf(key, [...known, 'topics', 'wire', 'trustgraph'])}`,
  )
}

interface TopicsReading {
  readonly place: string
  readonly ports: Ports
  readonly isWired: boolean
}

function readTopics(topics: unknown, { place, ports, isWired }: TopicsReading): FlowTopics {
  if (!isObject(topics)) throw invalid(`${place} must be an object, such as {chunk: {partitions: 24}}.`)
  const entries = Object.entries(topics).map(([port, settings]) => {
    if (!Object.hasOwn(ports, port))
      throw invalid(`${place}: there is no topic ${port}.${suggestOf(port, Object.keys(ports))}`)
    return [port, readTopic(settings, `${place}: ${port}`, { ...ports[port]!, isWired })] as const
  })
  return Object.fromEntries(entries)
}

function readTopic(
  settings: unknown,
  place: string,
  { compacted, wired: hasPort = false, isWired }: Ports[string] & Pick<TopicsReading, 'isWired'>,
): FlowTopics[string] {
  if (!isObject(settings)) throw invalid(`${place} must be an object, such as {partitions: 24}.`)
  const known = ['partitions', 'retention-days', 'identifier']
  for (const key of Object.keys(settings))
    if (!known.includes(key)) throw invalid(`${place}: a topic has no key ${key}.${suggestOf(key, known)}`)
  const count = (key: string) =>
    settings[key] === undefined
      ? undefined
      : (readValue({ type: 'count', help: '' }, `${place}: ${key}`, settings[key]) as number)
  const [partitions, days] = [count('partitions'), count('retention-days')]
  if (compacted && days !== undefined)
    throw invalid(`${place}: retention-days: it keeps the latest of every document for ever.`)
  const at = `${place}: identifier`
  const identifier = readIdentifier(settings['identifier'], at, { isWired, hasPort })
  return {
    ...(identifier !== undefined && { identifier }),
    ...(partitions !== undefined && { partitions }),
    ...(days !== undefined && { retentionMs: days * dayMs }),
  }
}

function refuseShared(path: string, configs: readonly FlowConfig[]): void {
  const byName = new Map<string, { readonly name: string; readonly number: number }>()
  for (const [at, { options }] of configs.entries()) {
    const name = `${options.workspace}/${options.flow}`
    // Kafka refuses a topic whose name differs from another's in . and _ only.
    const onBroker = options.broker?.startsWith('pulsar') ? name : name.replace('/', '_')
    const other = byName.get(onBroker)
    const flows = `flows ${other?.number} and ${at + 1}`
    if (other?.name === name)
      throw invalid(
        `${path}: ${flows} are both called ${name}, and would share their topics. Give one of them another workspace or flow.`,
      )
    if (other)
      throw invalid(
        `${path}: ${flows}, ${other.name} and ${name}, would share their topics: to Kafka . and _ in a name are one. Use - instead of _.`,
      )
    byName.set(onBroker, { name, number: at + 1 })
  }
}

/** The known name that may be meant, otherwise all of them. */
const suggestOf = (name: string, known: readonly string[]) =>
  suggest(name, known) || ` There ${known.length === 1 ? 'is' : 'are'}: ${known.join(', ')}.`

const invalid = (message: string, cause?: unknown) =>
  new GraphmillError('configuration_invalid', message, { cause })
