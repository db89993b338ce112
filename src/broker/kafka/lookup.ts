// Looks whether topics exist, one topic a question, over a connection of its own: kafkajs asks about all topics it knows at
// once, so that a missing one would fail the questions about all others.
import type { Cluster } from 'kafkajs'
import { GraphmillError } from '../../errors.ts'
import { createTopicLookup, type TopicLookup } from '../topic-lookup.ts'
import { createClient, impatient, type KafkaClient, type KafkaSettings, kafkaError } from './client.ts'
import { fetchMetadata, openCluster } from './quirks.ts'

export interface KafkaLookup extends TopicLookup {
  close(): void
}

interface LookupConnection {
  readonly client: KafkaClient
  readonly cluster: Cluster
  readonly ready: Promise<void>
}

export function createLookup(settings: KafkaSettings): KafkaLookup {
  let current: LookupConnection | undefined

  /** Rejects with `topic_refused`, `broker_unavailable` and `broker_refused`. */
  async function ask(topic: string): Promise<boolean> {
    current ??= connect(settings)
    const connection = current
    try {
      await connection.ready
      if (await fetchMetadata(connection.cluster, topic)) return true
      throw new GraphmillError('broker_unavailable', `${topic}: no broker answered`)
    } catch (thrown) {
      const error = kafkaError(thrown, topic)
      if (error.code === 'topic_missing') return false
      // That is an answer, and its connection is sound.
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

function connect(settings: KafkaSettings): LookupConnection {
  const client = createClient(settings, impatient)
  // With an age of -1, every look asks a broker.
  const cluster = openCluster(client.kafka, { metadataMaxAge: -1 })
  const ready = cluster.connect()
  ready.catch(() => {})
  return { client, cluster, ready }
}
