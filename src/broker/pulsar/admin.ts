// The topics of one Pulsar namespace, over the admin REST API: create, list, delete, and the progress of groups.
// Every topic that graphmill creates is partitioned, even into one partition; foreign topics may not be.
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { wait } from '../../wait.ts'
import type { Lag, TopicDescription, TopicSpec } from '../broker.ts'
import { type AdminAnswer, type AdminRequest, ask, codeOf, type Endpoint, reasonIn } from './endpoint.ts'

/** Pulsar compacts a topic whenever this many bytes were added since the last compaction. */
const compactionThresholdBytes = 8 * 1024 * 1024

/** A server that was just started may need some attempts. */
const connectAttempts = 4
const connectDelayMs = 500
/** A server that accepts a connection and is silent for so long counts as unavailable. */
const silenceMs = 10_000
/** A member that joins or leaves waits no longer for properties, which are only a precaution. */
const propertiesTimeoutMs = 3000

export interface SubscriptionName {
  readonly topic: string
  readonly group: string
}

/** The last message of a partition. */
export interface PartitionEnd {
  readonly ledger: number
  readonly entry: number
}

/**
 * Rejects with `broker_unavailable` after about two seconds without a server, with `broker_refused` when it refuses us, and
 * with the reason of the signal.
 */
export async function checkConnection(endpoint: Endpoint, signal?: AbortSignal): Promise<void> {
  const end = performance.now() + silenceMs
  for (let attempt = 1; ; attempt++) {
    try {
      await get(endpoint, `/persistent/${endpoint.namespace}/partitioned`, { timeoutMs: silenceMs, signal })
      return
    } catch (error) {
      signal?.throwIfAborted()
      const hopeless = toGraphmillError(error).retry !== 'later' || attempt === connectAttempts
      if (hopeless || performance.now() >= end) throw error
      await wait(connectDelayMs, signal)
    }
  }
}

/** The parts of a topic's full name. A name such as `non-persistent://tenant/namespace/name` is one of others. */
function partsOf({ namespace }: Endpoint, topic: string) {
  const [, domain, tenant, space, name] =
    /^((?:non-)?persistent):\/\/([^/]+)\/([^/]+)\/(.+)$/.exec(topic) ?? []
  if (domain === undefined || tenant === undefined || space === undefined || name === undefined)
    return { domain: 'persistent', namespace, name: topic }
  return { domain, namespace: `${encodeURIComponent(tenant)}/${encodeURIComponent(space)}`, name }
}

/** The path of a topic under the admin API and the WebSocket API. */
export function topicPath(endpoint: Endpoint, topic: string): string {
  const { domain, namespace, name } = partsOf(endpoint, topic)
  return `/${domain}/${namespace}/${encodeURIComponent(name)}`
}

/** The name of a topic in the binary protocol. */
export function fullTopicName(endpoint: Endpoint, topic: string): string {
  const { domain, namespace, name } = partsOf(endpoint, topic)
  return `${domain}://${decodeURIComponent(namespace)}/${name}`
}

/** The number of partitions; 0 for a topic that has none. Rejects with `topic_missing`. */
export async function partitionsOf(endpoint: Endpoint, topic: string): Promise<number> {
  // Without the parameter, a server with automatic creation on would answer for topics that do not exist.
  const path = `${topicPath(endpoint, topic)}/partitions?checkAllowAutoCreation=false`
  if (endpoint.withoutAdmin !== undefined) return endpoint.withoutAdmin(topic)
  try {
    const { partitions } = await get<{ readonly partitions: number }>(endpoint, path)
    return partitions
  } catch (error) {
    // Such a topic is there when a client comes, and gone when the last one has left.
    if (topic.startsWith('non-persistent://') && toGraphmillError(error).code === 'topic_missing') return 0
    throw error
  }
}

/** Whether the topic exists. */
export async function isThere(endpoint: Endpoint, topic: string): Promise<boolean> {
  try {
    await partitionsOf(endpoint, topic)
    return true
  } catch (error) {
    if (toGraphmillError(error).code === 'topic_missing') return false
    throw error
  }
}

/** The names of the partitions' own topics, by partition number: the topic itself when it has no partitions. */
export function partitionNames(topic: string, partitions: number): readonly string[] {
  return partitions === 0 ? [topic] : Array.from({ length: partitions }, (_, n) => `${topic}-partition-${n}`)
}

/**
 * Creates a topic unless it exists. Retention must be set, since Pulsar drops messages that every group has acknowledged. It is
 * set right after the topic was created, or now when its creator did not get to that. Pulsar refuses requests to create a
 * topic to all but administrators, even when the topic exists: therefore this asks first.
 *
 * A topic with a full name is another program's: it is made without partitions, as its clients make it and can delete it, and stays as
 * it is. If it is not persistent, it exists while it has clients.
 */
export async function createTopic(endpoint: Endpoint, spec: TopicSpec): Promise<void> {
  const path = topicPath(endpoint, spec.name)
  const exists = await isThere(endpoint, spec.name)
  const isTheirs = spec.name.includes('://')
  if (exists && isTheirs) return
  const request = isTheirs ? { path } : { path: `${path}/partitions`, body: spec.partitions }
  const made = exists ? undefined : await ask(endpoint, { method: 'PUT', ...request })
  if (made !== undefined && made.status !== 409) accept(made, spec.name)
  else if (await hasRetention(endpoint, path)) return
  const forEver = spec.compacted === true || spec.retentionMs === undefined
  const retentionTimeInMinutes = forEver ? -1 : Math.max(1, Math.ceil((spec.retentionMs ?? 0) / 60_000))
  const retention = { retentionTimeInMinutes, retentionSizeInMB: -1 }
  accept(await ask(endpoint, { method: 'POST', path: `${path}/retention`, body: retention }), spec.name)
  if (spec.compacted !== true) return
  const threshold = { path: `${path}/compactionThreshold`, body: compactionThresholdBytes }
  accept(await ask(endpoint, { method: 'POST', ...threshold }), spec.name)
}

/** Whether the topic has a retention of its own. True when only an administrator may see it: then it is theirs to set. */
async function hasRetention(endpoint: Endpoint, path: string): Promise<boolean> {
  const { status, body } = await ask(endpoint, { method: 'GET', path: `${path}/retention?applied=false` })
  if (status === 401 || status === 403) return true
  return status === 200 && body.trim() !== '' && body.trim() !== 'null'
}

/** The topics whose name begins with `prefix`, sorted by name, without Pulsar's own: of our namespace, or with full names of another. */
export async function listTopics(endpoint: Endpoint, prefix: string): Promise<readonly TopicDescription[]> {
  const counts = new Map<string, number>()
  const { domain, namespace } = partsOf(endpoint, prefix.includes('://') ? `${prefix}-` : prefix)
  const urls = await get<readonly string[]>(endpoint, `/${domain}/${namespace}`)
  for (const url of urls) {
    const local = nameIn(url).replace(/-partition-\d+$/, '')
    const name = prefix.includes('://') ? `${domain}://${decodeURIComponent(namespace)}/${local}` : local
    if (name.startsWith(prefix) && !local.startsWith('__')) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return [...counts]
    .map(([name, partitions]) => ({ name, partitions }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Deletes a topic with its groups, and disconnects its clients. A topic that does not exist is no error. */
export async function deleteTopic(endpoint: Endpoint, topic: string): Promise<void> {
  const path = topicPath(endpoint, topic)
  try {
    const kind = (await partitionsOf(endpoint, topic)) === 0 ? '' : '/partitions'
    accept(await ask(endpoint, { method: 'DELETE', path: `${path}${kind}?force=true` }), topic)
  } catch (error) {
    if (toGraphmillError(error).code !== 'topic_missing') throw error
  }
}

/** The last message of a partition, by the name from `partitionNames`; undefined when it has none. */
export async function endOf(endpoint: Endpoint, name: string): Promise<PartitionEnd | undefined> {
  const { numberOfEntries, lastConfirmedEntry } = await internalStats(endpoint, name)
  const [ledger = 0, entry = -1] = lastConfirmedEntry.split(':').map(Number)
  return numberOfEntries === 0 || entry < 0 ? undefined : { ledger, entry }
}

/** How many messages a group has not settled; all of them for an unknown group. */
export async function lagOf(endpoint: Endpoint, group: string, topic: string): Promise<Lag> {
  const keepsNothing = topic.startsWith('non-persistent://')
  const stats = await statsOf(endpoint, topic).catch((thrown: unknown) => {
    if (keepsNothing && toGraphmillError(thrown).code === 'topic_missing') return []
    throw thrown
  })
  const partitions = await Promise.all(
    stats.map(async ({ name, groups }, partition) => {
      const backlog = keepsNothing ? 0 : groups[group]?.msgBacklog
      const lag = backlog ?? (await internalStats(endpoint, name)).numberOfEntries
      return { topic, partition, lag }
    }),
  )
  // Every member reads all partitions.
  const members = Math.max(0, ...stats.map(({ groups }) => groups[group]?.consumers.length ?? 0))
  return { partitions, total: partitions.reduce((sum, { lag }) => sum + lag, 0), members }
}

/** Whether the group has a subscription in every partition, with or without members. */
export async function hasGroup(endpoint: Endpoint, { topic, group }: SubscriptionName): Promise<boolean> {
  return (await statsOf(endpoint, topic)).every(({ groups }) => groups[group] !== undefined)
}

/** Whether the server still counts a consumer, by its own name, among the members of its group. */
export async function isMember(
  endpoint: Endpoint,
  member: SubscriptionName & { readonly name: string },
): Promise<boolean> {
  const stats = await statsOf(endpoint, member.topic)
  return stats.some(({ groups }) =>
    groups[member.group]?.consumers.some(({ consumerName }) => consumerName === member.name),
  )
}

/** The names of a group's connected members, and its marks by partition, without partitions of which all is settled. */
export async function groupOf(
  endpoint: Endpoint,
  { topic, group }: SubscriptionName,
): Promise<{ readonly members: ReadonlySet<string>; readonly marks: ReadonlyMap<number, string> }> {
  const stats = await statsOf(endpoint, topic)
  const members = stats.flatMap(({ groups }) => groups[group]?.consumers ?? [])
  const internal = await Promise.all(stats.map(({ name }) => internalStats(endpoint, name)))
  const marks = internal.flatMap(({ cursors, lastConfirmedEntry }, partition) => {
    const mark = cursors?.[group]?.markDeletePosition
    return mark === undefined || mark === lastConfirmedEntry ? [] : [[partition, mark] as const]
  })
  return { members: new Set(members.map(({ consumerName }) => consumerName)), marks: new Map(marks) }
}

/** The properties of a group's subscription; they outlive members and servers. */
export function readProperties(
  endpoint: Endpoint,
  subscription: SubscriptionName,
): Promise<Readonly<Record<string, string>>> {
  return get(endpoint, propertiesPath(endpoint, subscription), { timeoutMs: propertiesTimeoutMs })
}

/** Changes one property, in every partition of the topic. When members write at the same time, a change may be lost. */
export async function changeProperty(
  endpoint: Endpoint,
  subscription: SubscriptionName,
  name: string,
  change: (value: string | undefined) => string,
): Promise<void> {
  const properties = await readProperties(endpoint, subscription)
  const body = { ...properties, [name]: change(properties[name]) }
  if (body[name] === properties[name]) return
  const path = propertiesPath(endpoint, subscription)
  accept(await ask(endpoint, { method: 'PUT', path, body, timeoutMs: propertiesTimeoutMs }), path)
}

/** The JSON object in a property; an empty one when there is none, or it cannot be read. */
export function parseProperty<T extends object>(text: string | undefined): T {
  try {
    return JSON.parse(text ?? '{}') as T
  } catch {
    return {} as T
  }
}

function propertiesPath(endpoint: Endpoint, { topic, group }: SubscriptionName): string {
  return `${topicPath(endpoint, topic)}/subscription/${encodeURIComponent(group)}/properties`
}

/** The messages of one partition that expired before a group had settled them. */
export interface Expiry {
  /** How many expired since the server loaded the topic, and when the last one did, in milliseconds since 1970. */
  readonly total: number
  readonly time: number
  readonly consumers: readonly string[]
}

/** By partition number. Nothing expired when the server does not know the group. */
export async function expiriesOf(endpoint: Endpoint, topic: string, group: string): Promise<Expiry[]> {
  return (await statsOf(endpoint, topic)).map(({ groups }) => {
    const known = groups[group]
    return {
      total: known?.totalMsgExpired ?? 0,
      time: known?.lastExpireTimestamp ?? 0,
      consumers: known?.consumers.map(({ consumerName }) => consumerName) ?? [],
    }
  })
}

interface TopicStats {
  readonly subscriptions: Readonly<Record<string, GroupStats>>
}

export interface GroupStats {
  readonly msgBacklog: number
  /** False for a reader. */
  readonly durable?: boolean
  readonly totalMsgExpired?: number
  readonly lastExpireTimestamp?: number
  readonly consumers: readonly { readonly consumerName: string }[]
}

/** The groups of every partition, by partition number. */
export async function statsOf(
  endpoint: Endpoint,
  topic: string,
): Promise<readonly { readonly name: string; readonly groups: Readonly<Record<string, GroupStats>> }[]> {
  const names = partitionNames(topic, await partitionsOf(endpoint, topic))
  const found = new Map<string, TopicStats>()
  const precise = 'getPreciseBacklog=true'
  const path = topicPath(endpoint, topic)
  if (names[0] === topic)
    found.set(nameIn(topic), await get<TopicStats>(endpoint, `${path}/stats?${precise}`))
  else {
    const all = `${path}/partitioned-stats?perPartition=true&${precise}`
    const { partitions } = await get<{ readonly partitions: Readonly<Record<string, TopicStats>> }>(
      endpoint,
      all,
    )
    for (const [url, stats] of Object.entries(partitions)) found.set(nameIn(url), stats)
  }
  return names.map((name) => ({ name, groups: found.get(nameIn(name))?.subscriptions ?? {} }))
}

export interface InternalStats {
  /** The number of entries is 0 in a ledger that is written to. */
  readonly ledgers: readonly { readonly ledgerId: number; readonly entries: number }[]
  readonly numberOfEntries: number
  /** `ledger:entry`; the entry is -1 in a ledger that has none yet. */
  readonly lastConfirmedEntry: string
  readonly cursors?: Readonly<Record<string, { readonly markDeletePosition: string }>>
}

export function internalStats(endpoint: Endpoint, name: string): Promise<InternalStats> {
  return get(endpoint, `${topicPath(endpoint, name)}/internalStats`)
}

/** The name in `persistent://tenant/namespace/name`. */
function nameIn(url: string): string {
  return decodeURIComponent(url.slice(url.lastIndexOf('/') + 1))
}

async function get<T>(
  endpoint: Endpoint,
  path: string,
  how: Pick<AdminRequest, 'timeoutMs' | 'signal'> = {},
): Promise<T> {
  const answer = await ask(endpoint, { method: 'GET', path, ...how })
  accept(answer, path)
  return JSON.parse(answer.body) as T
}

/** Throws for an answer that is an error. */
export function accept({ status, body }: AdminAnswer, subject: string): void {
  if (status < 300) return
  throw new GraphmillError(codeOf(status), `Pulsar answered ${status} for ${subject}: ${reasonIn(body)}`)
}
