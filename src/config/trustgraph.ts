// What a flow in the flows file says about TrustGraph: `wire`, its key `trustgraph`, and the identifiers of its topics.
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { suggest } from './config.ts'

/** The flow of TrustGraph that a flow with `wire: trustgraph` belongs to. */
export interface TrustGraphSettings {
  /** Ids of TrustGraph, which may have capitals and dots. Default: the names of our flow. */
  readonly workspace: string
  readonly flow: string
  /** Whether processors join the groups of TrustGraph's, in their place, or have groups of their own. */
  readonly group: 'replace' | 'beside'
  /** The ids of TrustGraph's processors that are not as usual, by the name of ours; `prompt-live` for the one on that topic. */
  readonly processors: Readonly<Record<string, string>>
  /** Whether prompts, schemas, ontologies, topics and parameters are those of TrustGraph's configuration. Then `*` stands for every id. */
  readonly follow: boolean
}

/** In an entry that follows TrustGraph's configuration: every workspace, or every flow. */
export const anyId = '*'

const wires = ['graphmill', 'trustgraph']
const keys = ['workspace', 'flow', 'group', 'processors', 'follow']
const groups = ['replace', 'beside']

/** Colons and slashes separate the parts of an identifier, and of a name on Pulsar. */
const idPattern = /^[^\s:/]+$/

/** Undefined for a flow on our own wire. Throws `configuration_invalid`. */
export function readTrustGraph(
  { wire = 'graphmill', trustgraph }: { readonly wire?: unknown; readonly trustgraph?: unknown },
  ours: { readonly workspace: string; readonly flow: string },
  { place, processors: known }: { readonly place: string; readonly processors: readonly string[] },
): TrustGraphSettings | undefined {
  const on = choice(wire, wires, `${place}: wire`)
  if (on === 'graphmill') {
    if (trustgraph === undefined) return undefined
    throw invalid(`${place}: trustgraph: it counts for a flow with wire: trustgraph only.`)
  }
  if (!isObject(trustgraph ?? {}))
    throw invalid(`${place}: trustgraph must be an object, such as {workspace: Acme.Corp, flow: Default}.`)
  const given = (trustgraph ?? {}) as Readonly<Record<string, unknown>>
  for (const key of Object.keys(given))
    if (!keys.includes(key)) throw invalid(`${place}: trustgraph has no key ${key}.${suggestOf(key, keys)}`)
  const follow = given['follow'] ?? false
  if (typeof follow !== 'boolean') throw invalid(`${place}: trustgraph: follow must be true or false.`)
  for (const key of ['workspace', 'flow'])
    if (given[key] === anyId && !follow)
      throw invalid(`${place}: trustgraph: ${key}: ${anyId} needs follow: true.`)
  return {
    follow,
    workspace: id(given['workspace'] ?? ours.workspace, `${place}: trustgraph: workspace`),
    flow: id(given['flow'] ?? ours.flow, `${place}: trustgraph: flow`),
    group: choice(given['group'] ?? 'replace', groups, `${place}: trustgraph: group`) as 'replace' | 'beside',
    processors: processorIds(given['processors'] ?? {}, `${place}: trustgraph: processors`, known),
  }
}

/** The identifier of a topic of TrustGraph's, or undefined. */
export function readIdentifier(
  value: unknown,
  place: string,
  { isWired, hasPort }: { readonly isWired: boolean; readonly hasPort: boolean },
): string | undefined {
  if (value === undefined) return undefined
  if (!isWired) throw invalid(`${place}: it counts for a flow with wire: trustgraph only.`)
  if (!hasPort) throw invalid(`${place}: this topic is always our own.`)
  if (typeof value !== 'string' || !/^\S+$/.test(value))
    throw invalid(`${place} must be a text, such as "flow:tg:chunk-load:default:default".`)
  return value
}

function processorIds(value: unknown, place: string, known: readonly string[]): Record<string, string> {
  if (!isObject(value)) throw invalid(`${place} must be an object, such as {prompt: my-prompt}.`)
  for (const [name, theirs] of Object.entries(value)) {
    if (!known.includes(name))
      throw invalid(`${place}: there is no processor ${name}.${suggestOf(name, known)}`)
    id(theirs, `${place}: ${name}`)
  }
  return value as Record<string, string>
}

function id(value: unknown, place: string): string {
  if (typeof value === 'string' && idPattern.test(value)) return value
  throw invalid(`${place} must be an id of TrustGraph, without colons, slashes and spaces.`)
}

function choice(value: unknown, choices: readonly string[], place: string): string {
  if (typeof value === 'string' && choices.includes(value)) return value
  throw invalid(`${place} must be ${choices.join(' or ')}, not ${JSON.stringify(value)}.`)
}

const suggestOf = (name: string, known: readonly string[]) =>
  suggest(name, known) || ` There are: ${known.join(', ')}.`

const invalid = (message: string) => new GraphmillError('configuration_invalid', message)
