// Looks whether topics exist, one at a time over a connection of its own: kafkajs refreshes all it knows at once, so that a
// missing topic would spoil the answers about every other one.
import type { BrokerMetadata, Cluster } from 'kafkajs'
import { GraphmillError } from '../../errors.ts'
import { createTopicLookup, type TopicLookup } from '../topic-lookup.ts'
import {
  createClient,
  impatient,
  type KafkaClient,
  type KafkaSettings,
  kafkaError,
  openCluster,
} from './client.ts'

export interface KafkaLookup extends TopicLookup {
  close(): void
}

/** What kafkajs has and its types leave out; null when no broker answered. */
interface MetadataSource {
  metadata(of: { readonly topics: readonly string[] }): Promise<BrokerMetadata | null>
}

interface Connection {
  readonly client: KafkaClient
  readonly cluster: Cluster
  readonly ready: Promise<void>
}

export function createLookup(settings: KafkaSettings): KafkaLookup {
  let current: Connection | undefined

  /** Rejects with `topic_refused`, `broker_unavailable` and `broker_refused`. */
  async function ask(topic: string): Promise<boolean> {
    current ??= connect(settings)
    const connection = current
    try {
      await connection.ready
      const source = connection.cluster as unknown as MetadataSource
      if (await source.metadata({ topics: [topic] })) return true
      throw new GraphmillError('broker_unavailable', `${topic}: no broker answered`)
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (error.code === 'topic_missing') return false
      // That is an answer, too, and the connection that brought it is sound.
      if (error.code === 'topic_refused') throw error
      if (current === connection) current = undefined
      connection.client.abandon()
      throw error
    }
  }

  return {
    ...createTopicLookup(ask),
    close() {
      current?.client.abandon()
      current = undefined
    },
  }
}

function connect(settings: KafkaSettings): Connection {
  const client = createClient(settings, impatient)
  // What it knows is out of date at once, so that every look asks.
  const cluster = openCluster(client.kafka, { metadataMaxAge: -1 })
  const ready = cluster.connect()
  ready.catch(() => {})
  return { client, cluster, ready }
}
