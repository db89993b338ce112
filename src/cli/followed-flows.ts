// The flows that follow TrustGraph's configuration service: from their entries in the flows file and a snapshot of the configuration to
// the flows that they stand for now.
import { createHash } from 'node:crypto'
import { overrideConfig } from '../config/config.ts'
import type { FlowConfig } from '../config/flows.ts'
import { anyId } from '../config/trustgraph.ts'
import { GraphmillError, toGraphmillError } from '../errors.ts'
import { extractorNames } from '../extraction/find-processors.ts'
import type { ConfigSnapshot } from '../trustgraph/config-snapshots.ts'
import { type FollowedFlow, flowIds, readFollowedFlow } from '../trustgraph/followed-flow.ts'
import { refuseCollisions } from '../trustgraph/names.ts'
import { counterparts, topicNaming } from '../trustgraph/wire.ts'
import { flowError, nameOf, wireOf } from './flows.ts'

/** An entry of the flows file that follows the service. */
export type FollowingEntry = FlowConfig & { readonly trustgraph: NonNullable<FlowConfig['trustgraph']> }

export const isFollowing = (flow: FlowConfig): flow is FollowingEntry => flow.trustgraph?.follow === true

/** A flow of the service: as it is configured now, or why it cannot be read. */
export type FoundFlow =
  | { readonly name: string; readonly flow: FlowConfig }
  | { readonly name: string; readonly error: GraphmillError }

/**
 * The flows of the service that following entries name: the first entry that names one counts, and one that does not follow keeps its
 * flow for itself. `running` are the names of our processors here.
 */
export function followedFlows(
  entries: readonly FlowConfig[],
  snapshot: ConfigSnapshot,
  running: readonly string[],
): FoundFlow[] {
  const found = new Map<string, FoundFlow>()
  const others = entries.filter((entry) => !isFollowing(entry))
  const taken = new Set(others.map(nameOf))
  const served = new Set(others.map(({ trustgraph }) => trustgraph && keyOf(trustgraph)))
  const identifiers = new Set(others.flatMap(identifiersOf))
  for (const entry of entries.filter(isFollowing))
    for (const ids of idsOf(entry, snapshot)) {
      const named = withNames(entry, ids)
      const name = nameOf(named)
      if (served.has(keyOf(ids))) continue
      served.add(keyOf(ids))
      const key = taken.has(name) ? `${name} of TrustGraph's ${keyOf(ids)}` : name
      try {
        if (taken.has(name)) throw sameName(name, ids)
        taken.add(name)
        const flow = configured(named, snapshot, running)
        const own = identifiersOf(flow)
        refuseShared(own, identifiers)
        refuseCollisions(new Set([...identifiers, ...own]), topicNaming(flow.options.broker))
        for (const identifier of own) identifiers.add(identifier)
        found.set(key, { name, flow })
      } catch (thrown) {
        found.set(key, { name: key, error: toGraphmillError(flowError(named, thrown)) })
      }
    }
  return [...found.values()]
}

const sameName = (name: string, ids: Ids) =>
  new GraphmillError(
    'configuration_invalid',
    `TrustGraph's flow ${keyOf(ids)} would have the name of another flow, ${name}: give it a name in an entry of its own.`,
  )

/** Two flows with one topic would both handle all that is in it. */
function refuseShared(own: readonly string[], others: ReadonlySet<string>): void {
  const shared = own.find((identifier) => others.has(identifier))
  if (shared !== undefined)
    throw new GraphmillError(
      'configuration_invalid',
      `Another flow has the topic ${shared} too. Name another identifier for one of the two, or leave one flow out.`,
    )
}

const keyOf = ({ workspace, flow }: Ids) => `${workspace}/${flow}`

/** TrustGraph's identifiers of all topics of a flow. */
function identifiersOf(flow: FlowConfig): string[] {
  const wire = wireOf([flow], flow)
  return wire ? wire.topics.map((topic) => wire.find(topic)!.identifier) : []
}

interface Ids {
  readonly workspace: string
  readonly flow: string
}

/** TrustGraph's ids of the flows that an entry names and the service has. */
function idsOf({ trustgraph }: FollowingEntry, snapshot: ConfigSnapshot): Ids[] {
  const { processors } = trustgraph
  const workspaces = trustgraph.workspace === anyId ? snapshot.workspaces : [trustgraph.workspace]
  return workspaces.flatMap((workspace) =>
    flowIds(snapshot, { workspace, processors })
      .filter((flow) => trustgraph.flow === anyId || flow === trustgraph.flow)
      .map((flow) => ({ workspace, flow })),
  )
}

/** The entry for one flow. What it names for all flows gets names of ours that are made from TrustGraph's ids. */
function withNames(entry: FollowingEntry, ids: Ids): FollowingEntry {
  const { options, trustgraph } = entry
  const workspace = trustgraph.workspace === anyId ? ourName(ids.workspace) : options.workspace
  const flow = trustgraph.flow === anyId ? ourName(ids.flow) : options.flow
  const config = overrideConfig(entry, { workspace, flow }, 'flows')
  return { ...config, topics: entry.topics, trustgraph: { ...trustgraph, ...ids } }
}

/** The id itself, if our names allow it; otherwise what they allow of it, and a hash. */
function ourName(id: string): string {
  if (/^[a-z0-9_-]+$/.test(id)) return id
  const hash = createHash('sha256').update(id).digest('hex').slice(0, 8)
  return `${id
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .slice(0, 40)}-${hash}`
}

function configured(entry: FollowingEntry, snapshot: ConfigSnapshot, running: readonly string[]): FlowConfig {
  const { topics, trustgraph } = entry
  const given = Object.fromEntries(
    Object.entries(topics).flatMap(([port, { identifier }]) => (identifier ? [[port, identifier]] : [])),
  )
  const found = readFollowedFlow(snapshot, trustgraph, given)
  const extractors = extractorsOf(entry, found)
  const options = Object.assign({}, ...running.map((name) => found.parameters.get(name)))
  const place = `TrustGraph's configuration: ${trustgraph.workspace}: ${trustgraph.flow}: parameters`
  const config = overrideConfig(entry, options, place)
  return {
    ...overrideConfig(config, extractors.length > 0 ? { extractors } : {}, place),
    trustgraph,
    topics: {
      ...topics,
      ...Object.fromEntries(
        Object.entries(found.identifiers).map(([port, identifier]) => [
          port,
          { ...topics[port], identifier },
        ]),
      ),
    },
    serves: found.processors,
    supplied: { prompts: found.prompts, schemas: found.schemas, ontologies: found.ontologies },
  }
}

/** The extractors that the entry names, or all, of those that the flow has and that have what they extract by. */
function extractorsOf({ options, origins }: FollowingEntry, found: FollowedFlow): string[] {
  const named =
    origins.extractors === 'default'
      ? Object.keys(counterparts).filter((name) => name.startsWith('extract-'))
      : extractorNames(options.extractors)
  const lacks = {
    'extract-rows': options.schemas.length === 0 && found.schemas === undefined,
    'extract-ontology': options.ontologies.length === 0 && found.ontologies === undefined,
  }
  return named.filter(
    (name) =>
      (found.processors.has(name) || !Object.hasOwn(counterparts, name)) &&
      !lacks[name as keyof typeof lacks],
  )
}
