// The first positions of groups, committed without joining. The offsets of a topic are asked for before what a group has committed:
// of two processes that do it at once, neither commits an offset behind a record that was published after the other had done it.
import type { Cluster } from 'kafkajs'
import type { GroupStart } from '../broker.ts'
import type { TopicLookup } from '../topic-lookup.ts'
import { createClient, impatient, type KafkaSettings, kafkaError } from './client.ts'
import { fetchCommitted, startMetadata } from './deaths.ts'
import { findCoordinator, openCluster } from './quirks.ts'
import { withCoordinator } from './topics.ts'

/** A new cluster makes its topic of commits when the first group comes. */
const patienceRetries = 10
/** How many groups are asked about at once. */
const groupsAtOnce = 8

/** The first and the next offset of each partition. */
type Bounds = readonly { readonly partition: number; readonly low: number; readonly high: number }[]

/** Gives the groups that have neither a position nor members their first one. Missing topics are left out. */
export async function ensureGroups(
  settings: KafkaSettings,
  starts: readonly GroupStart[],
  lookup: TopicLookup,
): Promise<void> {
  const names = [...new Set(starts.map(({ topic }) => topic))]
  const exist = await Promise.all(names.map((name) => lookup.exists(name)))
  const topics = names.filter((_, index) => exist[index])
  if (topics.length === 0) return
  const client = createClient(settings, { ...impatient, retries: patienceRetries })
  const cluster = openCluster(client.kafka)
  try {
    await cluster.connect()
    await cluster.addMultipleTargetTopics(topics)
    const bounds = await boundsOf(cluster, topics)
    const rest = starts.filter(({ topic }) => bounds.has(topic)).values()
    const work = async () => {
      for (const start of rest) await withCoordinator(() => place(cluster, start, bounds.get(start.topic)!))
    }
    await Promise.all(Array.from({ length: groupsAtOnce }, work))
  } catch (thrown) {
    throw kafkaError(thrown, 'start positions of groups')
  } finally {
    client.abandon()
  }
}

async function boundsOf(cluster: Cluster, topics: readonly string[]): Promise<Map<string, Bounds>> {
  const offsets = async (fromBeginning: boolean) => {
    const asked = topics.map((topic) => {
      const partitions = cluster.findTopicPartitionMetadata(topic)
      return {
        topic,
        partitions: partitions.map(({ partitionId: partition }) => ({ partition })),
        fromBeginning,
      }
    })
    const answers = await cluster.fetchTopicsOffset(asked)
    return new Map(answers.map(({ topic, partitions }) => [topic, partitions]))
  }
  const [lows, highs] = await Promise.all([offsets(true), offsets(false)])
  return new Map(
    topics.map((topic) => {
      const low = new Map(lows.get(topic)!.map(({ partition, offset }) => [partition, Number(offset)]))
      const bounds = highs
        .get(topic)!
        .map(({ partition, offset }) => ({ partition, low: low.get(partition)!, high: Number(offset) }))
      return [topic, bounds]
    }),
  )
}

async function place(cluster: Cluster, { group, topic, from }: GroupStart, bounds: Bounds): Promise<void> {
  const partitions = bounds.map(({ partition }) => partition)
  if ((await fetchCommitted(cluster, { group, topic, partitions })).size > 0) return
  const coordinator = await findCoordinator(cluster, group)
  const offsets = bounds.map(({ partition, low, high }) =>
    from === 'latest'
      ? { partition, offset: String(high), metadata: '' }
      : { partition, offset: String(low), metadata: low === 0 ? '' : startMetadata },
  )
  // Without a generation and a member, it is refused while the group has members.
  const outside = { groupId: group, groupGenerationId: -1, memberId: '' }
  await coordinator.offsetCommit({ ...outside, topics: [{ topic, partitions: offsets }] }).catch((error) => {
    if (!membersFaults.includes(error?.type)) throw error
  })
}

/** How a coordinator says that the group has members. */
const membersFaults = ['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS']
