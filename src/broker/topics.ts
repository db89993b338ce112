// The names of topics and groups, and the settings of a topic by its role. Names are a contract: tools and other
// programs route by them, and two different inputs never give the same name.
import { GraphmillError } from '../errors.ts'
import type { TopicSpec } from './broker.ts'

/** Which field is the key of a message. Messages with an equal key stay in order. */
export type KeyPolicy = 'id' | 'correlationId' | 'documentId' | 'chunkId' | 'fingerprint'

interface RoleEntry {
  readonly key: KeyPolicy
  readonly partitions: number
  readonly compacted?: boolean
}

const perChunk: RoleEntry = { key: 'chunkId', partitions: 3 }
const perDocument: RoleEntry = { key: 'documentId', partitions: 3 }
const reply: RoleEntry = { key: 'correlationId', partitions: 12 }

/** Every topic, by class and role. */
export const topicRoles = {
  flow: {
    document: perDocument,
    chunk: { key: 'chunkId', partitions: 12 },
    definitions: perChunk,
    relationships: perChunk,
    topics: perChunk,
    rows: perChunk,
    'ontology-entities': perChunk,
    'ontology-relationships': perChunk,
    'ontology-attributes': perChunk,
    triples: perChunk,
    'entity-contexts': perChunk,
    rejected: perChunk,
    progress: perDocument,
  },
  request: {
    prompt: { key: 'id', partitions: 12 },
    'prompt-live': { key: 'id', partitions: 12 },
    'text-completion': { key: 'id', partitions: 3 },
  },
  response: { prompt: reply, 'text-completion': reply },
  notify: {
    schemas: { key: 'fingerprint', partitions: 3, compacted: true },
    status: { ...perDocument, compacted: true },
    contents: { ...perDocument, compacted: true },
    retractions: { ...perDocument, compacted: true },
    // One partition: replicas claim shares of a limit in the order of its records.
    limits: { key: 'id', partitions: 1, compacted: true },
  },
} as const satisfies Record<string, Record<string, RoleEntry>>

export type TopicClass = keyof typeof topicRoles
export type TopicRole = { [Class in TopicClass]: keyof (typeof topicRoles)[Class] }[TopicClass]

interface FlowScope {
  /** All topics of one installation begin with it, `gm` by default. */
  readonly space: string
  readonly workspace: string
  readonly flow: string
}

/** The parts of a topic's name. Only response topics have a receiver: the processor or client that reads the replies. */
export type TopicParts = FlowScope &
  (
    | { readonly class: 'flow'; readonly role: keyof (typeof topicRoles)['flow'] }
    | { readonly class: 'request'; readonly role: keyof (typeof topicRoles)['request'] }
    | { readonly class: 'notify'; readonly role: 'status' | 'contents' | 'retractions' }
    | {
        readonly class: 'response'
        readonly role: keyof (typeof topicRoles)['response']
        readonly receiver: string
      }
  )

/** The topics that a space has once, besides those of its flows. */
const spaceRoles = ['schemas', 'limits'] as const
type SpaceRole = (typeof spaceRoles)[number]

export interface SpaceTopicParts {
  readonly space: string
  readonly class: 'notify'
  readonly role: SpaceRole
}

/** `dead`: the topic holds the dead letters of the topic with these parts. */
export type ParsedTopic = (TopicParts | SpaceTopicParts) & { readonly dead: boolean }

const deadSuffix = '.dead'
/** Kafka takes 249 characters; the topic of dead letters needs its suffix. */
const maxNameLength = 249 - deadSuffix.length
const partPattern = /^[a-z0-9_-]+$/
/** The names of partitions in Pulsar: a flow with such a name would clash with a partition of another topic. */
const partitionPattern = /-partition-[0-9]+$/

/** The name of a topic. Throws `topic_name_invalid`. */
export function topicName(parts: TopicParts): string {
  if (roleEntry(parts.class, parts.role) === undefined || isSpaceRole(parts.role)) {
    throw invalid(`there is no topic of class ${show(parts.class)} and role ${show(parts.role)}`)
  }
  const receiver = 'receiver' in parts ? parts.receiver : undefined
  if ((parts.class === 'response') !== (receiver !== undefined)) {
    throw invalid('a response topic has a receiver, and no other topic has one')
  }
  const middle = receiver === undefined ? [parts.role] : [parts.role, receiver]
  return join([parts.space, parts.class, ...middle, parts.workspace, parts.flow])
}

/** The topic in which the writers of a space publish their schemas. Throws `topic_name_invalid`. */
export function schemasTopic(space: string): string {
  return join([space, 'notify', 'schemas'])
}

/** The topic in which the replicas of a space share limits of models. Throws `topic_name_invalid`. */
export function limitsTopic(space: string): string {
  return join([space, 'notify', 'limits'])
}

/** The topic for the dead letters of a topic. */
export function deadTopic(name: string): string {
  return name + deadSuffix
}

/** The topic whose dead letters this topic holds; undefined for every other topic. */
export function sourceOfDead(name: string): string | undefined {
  return isDeadTopic(name) ? name.slice(0, -deadSuffix.length) : undefined
}

/** Whether a topic holds dead letters: by its parts, since a flow may be called `dead`; foreign names by their suffix. */
export function isDeadTopic(name: string): boolean {
  return parseTopic(name)?.dead ?? name.endsWith(deadSuffix)
}

/** The group in which the replicas of a processor share an input. Throws `topic_name_invalid`. */
export function groupName(
  parts: FlowScope & { readonly processor: string; readonly role: TopicRole },
): string {
  return join([parts.space, parts.processor, parts.role, parts.workspace, parts.flow])
}

/** The parts of a name that `topicName`, `schemasTopic` or `deadTopic` made; undefined for every other name. */
export function parseTopic(name: string): ParsedTopic | undefined {
  const whole = parseWithoutSuffix(name)
  if (whole !== undefined) return { ...whole, dead: false }
  const source = name.endsWith(deadSuffix) ? parseWithoutSuffix(name.slice(0, -deadSuffix.length)) : undefined
  return source === undefined ? undefined : { ...source, dead: true }
}

/** The settings of a topic that may be configured. */
export type TopicOverrides = Partial<Pick<TopicSpec, 'partitions' | 'retentionMs' | 'maxBytes'>> & {
  /** How long its dead letters are kept, in milliseconds. Default: forever. */
  readonly deadRetentionMs?: number
}

/** How long replies are kept. Requests are kept forever: nothing else remembers what is still to be asked. */
const hourMs = 60 * 60 * 1000
const weekMs = 7 * 24 * hourMs

/**
 * The settings of a new topic: partitions and retention by its role; a topic of dead letters has one partition. `maxBytes` is
 * left to the broker: for dead letters it is that of their topic plus 64 KiB. Throws `topic_name_invalid` for a foreign name.
 */
export function topicSpec(name: string, { deadRetentionMs, ...overrides }: TopicOverrides = {}): TopicSpec {
  if (isDeadTopic(name)) return { name, partitions: 1, ...overrides }
  const parts = parseTopic(name)
  const entry = parts && roleEntry(parts.class, parts.role)
  if (parts === undefined || entry === undefined) throw invalid(`${show(name)} is not the name of a topic`)
  const kept = keptFor(parts)
  const compacted = entry.compacted ? { compacted: true } : {}
  return { name, partitions: entry.partitions, ...kept, ...compacted, ...overrides }
}

/** Compacted topics are kept forever: there, the time is only that within which Kafka closes a segment, so that it can be compacted. */
function keptFor({ class: topicClass, role }: TopicParts | SpaceTopicParts): Pick<TopicSpec, 'retentionMs'> {
  if (topicClass === 'response') return { retentionMs: weekMs }
  return role === 'limits' ? { retentionMs: hourMs } : {}
}

function parseWithoutSuffix(name: string): TopicParts | SpaceTopicParts | undefined {
  const parts = name.split('.')
  if (name.length > maxNameLength || !parts.every((part) => partPattern.test(part))) return undefined
  if (partitionPattern.test(name)) return undefined
  const [space, topicClass, role] = parts as [string, string, string]
  if (topicClass === undefined || role === undefined || roleEntry(topicClass, role) === undefined)
    return undefined
  const rest = parts.slice(3)
  if (isSpaceRole(role)) return rest.length === 0 ? { space, class: 'notify', role } : undefined
  const receiver = topicClass === 'response' ? { receiver: rest.shift() } : {}
  const [workspace, flow] = rest
  if (rest.length !== 2) return undefined
  return { space, class: topicClass, role, ...receiver, workspace, flow } as TopicParts
}

const isSpaceRole = (role: string): role is SpaceRole => spaceRoles.includes(role as SpaceRole)

function roleEntry(topicClass: string, role: string): RoleEntry | undefined {
  const roles: Readonly<Record<string, RoleEntry>> | undefined = Object.hasOwn(topicRoles, topicClass)
    ? topicRoles[topicClass as TopicClass]
    : undefined
  return roles !== undefined && Object.hasOwn(roles, role) ? roles[role] : undefined
}

function join(parts: readonly string[]): string {
  for (const part of parts) {
    if (typeof part !== 'string' || !partPattern.test(part)) {
      throw invalid(`${show(part)} cannot be part of a name: use a-z, 0-9, _ and -`)
    }
  }
  const name = parts.join('.')
  if (name.length > maxNameLength) throw invalid(`${show(name)} is longer than ${maxNameLength} characters`)
  if (partitionPattern.test(name)) throw invalid(`${show(name)} ends like a partition of a Pulsar topic`)
  return name
}

const invalid = (message: string) => new GraphmillError('topic_name_invalid', message)
const show = (part: unknown) => JSON.stringify(part) ?? String(part)
