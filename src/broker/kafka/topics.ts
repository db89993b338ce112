// Topics and lag of Kafka, with its admin API. Every call has a new client: kafkajs asks again about every topic it was ever
// asked for, and one that was deleted since would fail every answer.
import { setTimeout as delay } from 'node:timers/promises'
import kafkajs, { type Admin, type ITopicConfig } from 'kafkajs'
import { GraphmillError } from '../../errors.ts'
import {
  type Lag,
  maxDeadLetterExtraBytes,
  maxMessageBytes,
  type TopicDescription,
  type TopicSpec,
} from '../broker.ts'
import { sourceOfDead } from '../topics.ts'
import { createClient, impatient, type KafkaSettings, kafkaError } from './client.ts'

/** The most that key, headers and the record itself add to a message. */
const recordBytes = 32 * 1024
/** A request that joins many messages must fit, too. */
const requestBytes = 1024 * 1024
const readyTimeoutMs = 30_000
/** A broker that accepts a connection and is silent for so long counts as unavailable. */
const silenceMs = 10_000

/** Creates the topics that are missing, and resolves when all of them can be used. */
export async function ensureTopics(settings: KafkaSettings, specs: readonly TopicSpec[]): Promise<void> {
  if (specs.length === 0) return
  await withAdmin(settings, 'topics', async (admin) => {
    const existing = new Set(await whenLed(() => admin.listTopics()))
    const missing = specs.filter(({ name }) => !existing.has(name))
    if (missing.length === 0) return
    const topics: ITopicConfig[] = []
    for (const spec of missing) topics.push(await topicConfig(admin, spec, existing))
    await admin.createTopics({ topics, waitForLeaders: false })
    for (const { name } of missing) await ready(admin, name)
  })
}

async function topicConfig(
  admin: Admin,
  spec: TopicSpec,
  existing: ReadonlySet<string>,
): Promise<ITopicConfig> {
  const maxBytes = spec.maxBytes ?? (await defaultMaxBytes(admin, spec.name, existing))
  const settings = {
    'cleanup.policy': spec.compacted ? 'compact' : 'delete',
    ...(spec.compacted && { 'min.compaction.lag.ms': String(compactionLagMs) }),
    'retention.ms': String(spec.retentionMs ?? -1),
    'max.message.bytes': String(
      spec.maxBytes === undefined ? Math.max(maxBytes + recordBytes, requestBytes) : maxBytes + recordBytes,
    ),
    // A record goes with its segment, which is closed after this time.
    ...(spec.retentionMs !== undefined && { 'segment.ms': String(segmentMs(spec.retentionMs)) }),
    // Foreign producers may use compressions that kafkajs cannot read: the broker decompresses them.
    'compression.type': 'uncompressed',
  }
  return {
    topic: spec.name,
    numPartitions: spec.partitions,
    replicationFactor: -1,
    configEntries: Object.entries(settings).map(([name, value]) => ({ name, value })),
  }
}

/**
 * How long a message of a compacted topic stays beside newer ones of its key. A process that no longer owns a document may write an older
 * state behind a newer one; whatever reads both writes the newer one again. When it is killed before, its successor must find both.
 */
const compactionLagMs = 3600_000

const [minuteMs, weekMs] = [60_000, 7 * 24 * 3600 * 1000]

/** A quarter of the retention, within a minute and Kafka's own week. */
const segmentMs = (retentionMs: number) => Math.min(Math.max(Math.ceil(retentionMs / 4), minuteMs), weekMs)

/** The topic of dead letters must take every message of its source. */
async function defaultMaxBytes(admin: Admin, name: string, existing: ReadonlySet<string>): Promise<number> {
  const source = sourceOfDead(name)
  if (source === undefined) return maxMessageBytes
  const known = existing.has(source) ? await configuredMaxBytes(admin, source) : maxMessageBytes
  return Math.max(known, maxMessageBytes) + maxDeadLetterExtraBytes
}

async function configuredMaxBytes(admin: Admin, topic: string): Promise<number> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: ['max.message.bytes'] }],
  })
  return Number(resources[0]?.configEntries[0]?.configValue ?? maxMessageBytes)
}

/** A topic can be used when the leader of every partition answers; publishing before that would store some messages twice. */
function ready(admin: Admin, topic: string): Promise<unknown> {
  return whenLed(() => admin.fetchTopicOffsets(topic))
}

/**
 * Asks again while some partition has no leader yet, because its topic was just created, by anybody: one such topic fails a
 * question about all topics.
 */
async function whenLed<T>(ask: () => Promise<T>): Promise<T> {
  const end = performance.now() + readyTimeoutMs
  for (let pause = 20; ; pause = Math.min(2 * pause, 1000)) {
    try {
      return await ask()
    } catch (error) {
      if (performance.now() > end || !lacksLeader(error)) throw error
      await delay(pause)
    }
  }
}

/** UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: the answers for a partition without a leader. */
const leaderless = [3, 5, 6]

function lacksLeader(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause)
    if ('code' in at && leaderless.includes(at.code as number)) return true
  return false
}

export function listTopics(settings: KafkaSettings, prefix: string): Promise<TopicDescription[]> {
  return withAdmin(settings, 'topics', async (admin) => {
    const { topics } = await whenLed(() => admin.fetchTopicMetadata())
    return topics
      .filter(({ name }) => name.startsWith(prefix))
      .map(({ name, partitions }) => ({ name, partitions: partitions.length }))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  })
}

/** A topic that does not exist is no error. */
export async function deleteTopics(settings: KafkaSettings, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await withAdmin(settings, 'topics', async (admin) => {
    const existing = new Set(await whenLed(() => admin.listTopics()))
    const topics = names.filter((name) => existing.has(name))
    if (topics.length > 0) await admin.deleteTopics({ topics })
  })
}

/** The messages between the committed offsets of the group and the ends; all of them for an unknown group. */
export function lag(settings: KafkaSettings, group: string, topic: string): Promise<Lag> {
  return withAdmin(settings, topic, async (admin) => {
    // The ends first: commits in between only make the lag smaller.
    const ends = await admin.fetchTopicOffsets(topic)
    const [committed] = await withCoordinator(() => admin.fetchOffsets({ groupId: group, topics: [topic] }))
    const { groups } = await withCoordinator(() => admin.describeGroups([group]))
    const marks = new Map(committed?.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
    const partitions = ends.map(({ partition, high, low }) => {
      const mark = marks.get(partition) ?? -1
      return { topic, partition, lag: Math.max(0, Number(high) - Math.max(mark, Number(low))) }
    })
    partitions.sort((a, b) => a.partition - b.partition)
    const total = partitions.reduce((sum, entry) => sum + entry.lag, 0)
    return { partitions, total, members: groups[0]?.members.length ?? 0 }
  })
}

const coordinatorFaults = [
  'GROUP_LOAD_IN_PROGRESS',
  'GROUP_COORDINATOR_NOT_AVAILABLE',
  'NOT_COORDINATOR_FOR_GROUP',
]

/** Asks again while the coordinator of a group is being elected or loads the commits. */
export async function withCoordinator<T>(ask: () => Promise<T>): Promise<T> {
  const end = performance.now() + readyTimeoutMs
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const { type } = error as { type?: string }
      if (!coordinatorFaults.includes(type ?? '') || performance.now() > end) throw error
      await delay(50)
    }
  }
}

/** Rejects with a coded error when the broker cannot be reached or refuses us, and with the reason of the signal. */
export function checkConnection(settings: KafkaSettings, signal?: AbortSignal): Promise<void> {
  return withAdmin(settings, settings.brokers.join(), async () => {}, signal)
}

/** Every call has a client of its own. Rejects with a coded error, or the signal's reason. */
export async function withAdmin<T>(
  settings: KafkaSettings,
  subject: string,
  use: (admin: Admin) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted()
  const client = createClient(settings, impatient)
  const admin = client.kafka.admin()
  let silent = false
  const silence = setTimeout(() => {
    silent = true
    client.abandon()
  }, silenceMs)
  signal?.addEventListener('abort', client.abandon)
  try {
    await admin.connect()
    clearTimeout(silence)
    return await use(admin)
  } catch (thrown) {
    signal?.throwIfAborted()
    if (silent)
      throw new GraphmillError('broker_unavailable', `${subject}: no answer within ${silenceMs / 1000} s`, {
        cause: thrown,
      })
    // kafkajs reads fields of an answer that no broker gave.
    if (thrown instanceof TypeError) {
      throw new GraphmillError('broker_unavailable', `${subject}: no broker answered`, { cause: thrown })
    }
    throw kafkaError(thrown, subject)
  } finally {
    clearTimeout(silence)
    signal?.removeEventListener('abort', client.abandon)
    client.abandon()
  }
}
