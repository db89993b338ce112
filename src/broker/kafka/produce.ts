// Stores messages of any topics with one request for each leader. It says of each message whether it was stored, since a request
// may succeed in one partition and fail in another.
import type { Cluster, Message } from 'kafkajs'
import { type ErrorCode, GraphmillError } from '../../errors.ts'
import { kafkaError } from './client.ts'
import { partitionOf } from './partitioner.ts'
import { errorsOfPartitions } from './quirks.ts'

const timeoutMs = 10_000

export interface TopicMessage {
  readonly topic: string
  readonly message: Message & { readonly key: string }
}

/** The messages of one partition. */
interface PartitionBatch<M> {
  readonly topic: string
  readonly partition: number
  readonly leader: number
  readonly messages: M[]
}

/** Why messages were not stored, as far as we know. */
type Failures<M> = Map<M, unknown>

/** Resolves when every leader has answered; never rejects. `known` are the topics that the cluster object was asked for before. */
export async function produce<M extends TopicMessage>(
  cluster: Cluster,
  messages: readonly M[],
  known: Set<string>,
): Promise<Failures<M>> {
  const failures: Failures<M> = new Map()
  try {
    const errors = await learn(cluster, [...new Set(messages.map(({ topic }) => topic))], known)
    await cluster.refreshMetadataIfNecessary()
    const batches = new Map<string, PartitionBatch<M>>()
    for (const message of messages)
      if (errors.has(message.topic)) failures.set(message, errors.get(message.topic))
      else addTo(batches, message, cluster)
    const requests = Map.groupBy(batches.values(), ({ leader }) => leader)
    await Promise.all([...requests].map(([leader, request]) => ask(cluster, { leader, request, failures })))
  } catch (error) {
    for (const message of messages) failures.set(message, ofQuestion(error, message.topic))
  }
  return failures
}

/** A question about several topics is refused for one of them, and does not say which: then nothing is known of this one. */
function ofQuestion(error: unknown, topic: string): unknown {
  if (kafkaError(error, topic).code !== 'topic_refused') return error
  const text = `${topic}: a question about several topics was refused`
  return new GraphmillError('topic_missing', text, { cause: error })
}

/** A question about several topics may fail with these because of one of them. */
const ofTopics: ReadonlySet<ErrorCode> = new Set(['topic_missing', 'topic_refused', 'topic_name_invalid'])

/** Makes the cluster object ask for the topics. Returns the errors of those that it cannot ask for. */
async function learn(
  cluster: Cluster,
  topics: readonly string[],
  known: Set<string>,
): Promise<Map<string, unknown>> {
  const unknown = topics.filter((topic) => !known.has(topic))
  if (unknown.length === 0) return new Map()
  try {
    await cluster.addMultipleTargetTopics(unknown)
    for (const topic of unknown) known.add(topic)
    return new Map()
  } catch (error) {
    // One missing topic fails the question about all of them.
    if (unknown.length === 1 || !ofTopics.has(kafkaError(error, '').code))
      return new Map(unknown.map((topic) => [topic, ofQuestion(error, topic)]))
    const errors = new Map<string, unknown>()
    for (const topic of unknown)
      for (const [name, reason] of await learn(cluster, [topic], known)) errors.set(name, reason)
    return errors
  }
}

function addTo<M extends TopicMessage>(
  batches: Map<string, PartitionBatch<M>>,
  message: M,
  cluster: Cluster,
): void {
  const { topic } = message
  const partitions = cluster.findTopicPartitionMetadata(topic)
  const partition = partitionOf(message.message.key, partitions.length)
  const name = `${partition} ${topic}`
  const batch = batches.get(name)
  if (batch !== undefined) batch.messages.push(message)
  else {
    const leader = partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? noLeader
    batches.set(name, { topic, partition, leader, messages: [message] })
  }
}

/** As Kafka writes it. No broker has this id, and looking for it refreshes the metadata. */
const noLeader = -1

interface LeaderRequest<M> {
  readonly leader: number
  readonly request: readonly PartitionBatch<M>[]
  readonly failures: Failures<M>
}

async function ask<M extends TopicMessage>(
  cluster: Cluster,
  { leader, request, failures }: LeaderRequest<M>,
): Promise<void> {
  const topicData = [...Map.groupBy(request, ({ topic }) => topic)].map(([topic, batches]) => ({
    topic,
    partitions: batches.map(({ partition, messages }) => ({
      partition,
      messages: messages.map(({ message }) => message),
    })),
  }))
  try {
    const broker = await cluster.findBroker({ nodeId: String(leader) })
    await broker.produce({ topicData, acks: -1, timeout: timeoutMs })
  } catch (error) {
    const errors = errorsOfPartitions(error)
    for (const { topic, partition, messages } of request) {
      const reason = errors ? errors(topic, partition) : ofQuestion(error, topic)
      if (reason !== undefined) for (const message of messages) failures.set(message, reason)
    }
  }
}
