// What a shared request says of each message when questions about topics fail; the outcome of each partition is in publish.test.ts.
import type { Cluster } from 'kafkajs'
import { expect, test } from 'vitest'
import { kafkaError } from '../../../src/broker/kafka/client.ts'
import { produce } from '../../../src/broker/kafka/produce.ts'

const messageOf = (topic: string) => ({ topic, message: { key: 'k', value: Buffer.from('v') } })
const kafkajsError = (type: string) => Object.assign(new Error(type), { name: 'KafkaJSProtocolError', type })

/** A cluster whose broker 1 alone is up. Questions about topics call `asked`; `leaders` are those that are not 1. */
function clusterOf(
  asked: (topics: readonly string[]) => void,
  leaders: Readonly<Record<string, number>> = {},
) {
  const stored: string[] = []
  const questions: (readonly string[])[] = []
  const broker = {
    async produce({ topicData }: { readonly topicData: readonly { readonly topic: string }[] }) {
      stored.push(...topicData.map(({ topic }) => topic))
    },
  }
  const cluster = {
    async addMultipleTargetTopics(topics: readonly string[]) {
      questions.push(topics)
      asked(topics)
    },
    refreshMetadataIfNecessary: async () => asked([]),
    findTopicPartitionMetadata: (topic: string) => [{ partitionId: 0, leader: leaders[topic] ?? 1 }],
    async findBroker({ nodeId }: { readonly nodeId: string }) {
      if (nodeId === '1') return broker
      throw Object.assign(new Error('no connection'), { name: 'KafkaJSConnectionError' })
    },
  } as unknown as Cluster
  return { cluster, stored, questions }
}

async function codesOf(cluster: Cluster, topics: readonly string[]) {
  const messages = topics.map(messageOf)
  const failures = await produce(cluster, messages, new Set())
  return messages.map((each) =>
    failures.has(each) ? kafkaError(failures.get(each), each.topic).code : undefined,
  )
}

test('a topic that is missing fails its own messages only', async () => {
  const { cluster, stored } = clusterOf((topics) => {
    if (topics.includes('gone')) throw kafkajsError('UNKNOWN_TOPIC_OR_PARTITION')
  })
  expect(await codesOf(cluster, ['one', 'gone', 'other'])).toEqual([undefined, 'topic_missing', undefined])
  expect(stored).toEqual(['one', 'other'])
})

test('a refused question about several topics refuses none of them: nobody knows which it is', async () => {
  const { cluster } = clusterOf((topics) => {
    if (topics.length === 0) throw kafkajsError('TOPIC_AUTHORIZATION_FAILED')
  })
  expect(await codesOf(cluster, ['one', 'other'])).toEqual(['topic_missing', 'topic_missing'])
})

test('a leader that is dead, or not elected yet, fails the messages of its partitions only', async () => {
  const { cluster, stored } = clusterOf(() => {}, { dead: 2, between: -1 })
  const unavailable = 'broker_unavailable'
  expect(await codesOf(cluster, ['one', 'dead', 'between'])).toEqual([undefined, unavailable, unavailable])
  expect(stored).toEqual(['one'])
})

test('without a broker there is one question, and not one for each topic', async () => {
  const { cluster, questions } = clusterOf(() => {
    throw Object.assign(new Error('no connection'), { name: 'KafkaJSConnectionError' })
  })
  expect(await codesOf(cluster, ['one', 'other'])).toEqual(['broker_unavailable', 'broker_unavailable'])
  expect(questions).toEqual([['one', 'other']])
})
