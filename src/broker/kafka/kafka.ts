// The broker on Kafka, with kafkajs. It keeps the contract of broker.ts. Types of kafkajs stay in this folder.
import type { Broker } from '../broker.ts'
import { consumeLoop, type Member } from '../window/consume-loop.ts'
import { type KafkaOptions, kafkaSettings } from './client.ts'
import { deleteSettled, ends } from './delete-settled.ts'
import { createIdleReaders } from './idle-readers.ts'
import { createLookup } from './lookup.ts'
import { KafkaMember } from './member.ts'
import { KafkaPublisher } from './publish.ts'
import { readKafka } from './read.ts'
import { ensureGroups } from './start-positions.ts'
import { checkConnection, deleteTopics, ensureTopics, lag, listTopics } from './topics.ts'

export type { KafkaOptions } from './client.ts'

/**
 * Connects to a Kafka cluster. Rejects with `broker_unavailable` after about two seconds without one (ten with one
 * that does not answer), with `broker_refused` when it refuses us, and with the reason of `signal` once that aborts.
 * @example const broker = await connectKafka({ brokers: ['127.0.0.1:9092'] })
 */
export async function connectKafka(options: KafkaOptions, signal?: AbortSignal): Promise<Broker> {
  const settings = kafkaSettings(options)
  await checkConnection(settings, signal)
  const lookup = createLookup(settings)
  /** The topics that this client created or checked. Topics of others come and go, and must not fail publishing to these. */
  const own = new Set<string>()
  const publishers = {
    own: new KafkaPublisher(settings, { lookup, foreign: false }),
    foreign: new KafkaPublisher(settings, { lookup, foreign: true }),
  }
  const readers = createIdleReaders()
  const closing = new AbortController()
  const members = new Set<Member>()

  return {
    async ensureTopics(topics) {
      await ensureTopics(settings, topics)
      const names = topics.map(({ name }) => name)
      lookup.forget(names)
      for (const name of names) own.add(name)
    },
    ensureGroups: (starts) => ensureGroups(settings, starts, lookup),
    hasTopic: (topic) => lookup.exists(topic),
    listTopics: (prefix) => listTopics(settings, prefix),
    publish: (message) => publishers[own.has(message.topic) ? 'own' : 'foreign'].publish(message),
    consume: (subscription, signal) =>
      consumeLoop(
        (wake) => new KafkaMember(settings, subscription, { lookup, closing: closing.signal, wake }),
        { signal, closing: closing.signal, members },
      ),
    read: (range, signal) =>
      readKafka(settings, range, { signal: AbortSignal.any([signal, closing.signal]), lookup, readers }),
    lag: (group, topic) => lag(settings, group, topic),
    ends: (topic) => ends(settings, topic),
    deleteSettled: (deletion) => deleteSettled(settings, deletion),
    async deleteTopics(topics) {
      await deleteTopics(settings, topics)
      for (const topic of topics) own.delete(topic)
      lookup.forget(topics)
    },
    async close() {
      closing.abort()
      readers.close()
      await Promise.all([...members].map((member) => member.leave()))
      await Promise.all([publishers.own.close(), publishers.foreign.close()])
      lookup.close()
    },
  }
}
