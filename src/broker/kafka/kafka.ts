// The broker on Kafka, by kafkajs. It keeps the contract of broker.ts; types of kafkajs stay in src/broker/kafka*.ts.
import type { Broker } from '../broker.ts'
import { type KafkaOptions, kafkaSettings } from './client.ts'
import { consumeKafka, type OpenMembers } from './consume.ts'
import { createPublisher } from './publish.ts'
import { readKafka } from './read.ts'
import { checkConnection, deleteTopics, ensureTopics, lag, listTopics } from './topics.ts'

export type { KafkaLog, KafkaOptions, KafkaSasl, KafkaTls } from './client.ts'

/**
 * Connects to a Kafka cluster. Rejects with `broker_unavailable` after about two seconds without one (ten with one
 * that says nothing), with `broker_refused` when it does not let us in, and with the reason of `signal` once that aborts.
 * @example const broker = await connectKafka({ brokers: ['127.0.0.1:9092'] })
 */
export async function connectKafka(options: KafkaOptions, signal?: AbortSignal): Promise<Broker> {
  const settings = kafkaSettings(options)
  await checkConnection(settings, signal)
  const publisher = createPublisher(settings)
  const closing = new AbortController()
  const open: OpenMembers = new Set()

  return {
    ensureTopics: (topics) => ensureTopics(settings, topics),
    listTopics: (prefix) => listTopics(settings, prefix),
    publish: publisher.publish,
    consume: (subscription, signal) =>
      consumeKafka(settings, subscription, { signal, closing: closing.signal, open }),
    read: (range, signal) => readKafka(settings, range, AbortSignal.any([signal, closing.signal])),
    lag: (group, topic) => lag(settings, group, topic),
    deleteTopics: (topics) => deleteTopics(settings, topics),
    async close() {
      closing.abort()
      await Promise.all([...open].map((leave) => leave()))
      await publisher.close()
    },
  }
}
