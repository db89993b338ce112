// Members with a group.instance.id: one that was killed comes back to its partitions, and nobody waits or moves.
import type { Admin } from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../../src/broker/broker.ts'
import { noClaim } from '../../../src/broker/kafka/assigner.ts'
import { createClient, impatient, kafkaSettings } from '../../../src/broker/kafka/client.ts'
import { connectKafka, type KafkaOptions } from '../../../src/broker/kafka/kafka.ts'
import { joinAsInstance, openConsumer } from '../../../src/broker/kafka/quirks.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { createHarness, publishTexts, sorted, textOf } from '../suite/harness.ts'

const present = (await brokerSource('static members, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('on Kafka, with sessions of 45 s', { timeout: 90_000 }, () => {
  // Less than the session timeout, for which the coordinator waits for a member that says nothing.
  const patienceMs = 25_000
  const sessionTimeoutMs = 45_000
  const harness = createHarness()
  const opened: Broker[] = []
  let server: KafkaServer

  const connect = async (options: Partial<KafkaOptions> = {}) => {
    const client = await connectKafka({ brokers: server.bootstrap, sessionTimeoutMs, ...options })
    opened.push(client)
    return client
  }

  /** A client, and the partitions that its member had each time that it joined. */
  async function joining(options: Partial<KafkaOptions> = {}) {
    const joins: (readonly number[])[] = []
    const debug = (fields: { partitions?: readonly number[]; kept?: number }) => {
      if (fields.kept !== undefined) joins.push(fields.partitions!)
    }
    return { client: await connect({ ...options, log: { debug, warn() {} } }), joins }
  }

  /** A member that joins and is never heard of again. Resolves to its partitions. */
  async function vanish(
    topic: string,
    group: string,
    groupInstanceId: string,
    claim = noClaim,
  ): Promise<readonly number[]> {
    const client = createClient(kafkaSettings({ brokers: server.bootstrap }), impatient)
    const { consumer, cluster } = openConsumer(
      client.kafka,
      { groupId: group, sessionTimeout: sessionTimeoutMs },
      () => claim,
    )
    joinAsInstance(cluster, groupInstanceId, () => {})
    const joined = new Promise<readonly number[]>((resolve) =>
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
        resolve(payload.memberAssignment[topic] ?? []),
      ),
    )
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async () => {} })
    const partitions = await joined
    client.abandon()
    return partitions
  }

  async function withAdmin<T>(act: (admin: Admin) => Promise<T>): Promise<T> {
    const admin = createClient(kafkaSettings({ brokers: server.bootstrap }), impatient).kafka.admin()
    await admin.connect()
    return act(admin).finally(() => admin.disconnect())
  }

  async function memberIds(group: string): Promise<readonly string[]> {
    const { groups } = await withAdmin((admin) => admin.describeGroups([group]))
    return groups[0]!.members.map(({ memberId }) => memberId)
  }

  beforeAll(async () => {
    server = await startKafka()
    harness.start({ connect: () => connect(), stop: async () => {}, patienceMs })
  })
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((client) => client.close()))
    await harness.closeClients()
  })
  afterAll(() => server?.stop())

  test('one that was killed gets its partitions back at once, and the other does not rejoin', async () => {
    const other = await joining()
    const topic = await harness.topic(other.client, { partitions: 4 })
    const { group, texts } = harness.join(other.client, { topic })
    await harness.eventually('the other has all', () => other.joins.at(-1)?.length === 4)
    const own = await vanish(topic, group, 'pod-1')
    await harness.eventually('the other has half', () => other.joins.at(-1)?.length === 2)
    const before = other.joins.length

    const back = await joining({ groupInstanceId: 'pod-1' })
    const again = harness.join(back.client, { topic, group })
    const published = await publishTexts(other.client, topic, 40)
    await harness.eventually('all are given out', () => texts.length + again.texts.length === 40)
    expect(back.joins).toEqual([own])
    expect(sorted([...texts, ...again.texts])).toEqual(sorted(published))
    expect(again.texts).not.toEqual([])
    expect(other.joins).toHaveLength(before)
  })

  test('one that led its group, and was killed, reads the partitions that were added in the meantime', async () => {
    const publisher = await harness.client()
    const topic = await harness.topic(publisher, { partitions: 2 })
    const group = harness.fresh('group')
    expect(await vanish(topic, group, 'pod-1')).toHaveLength(2)
    await withAdmin((admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }))
    const back = await joining({ groupInstanceId: 'pod-1' })
    harness.join(back.client, { topic, group })
    await harness.eventually('it has all', () => back.joins.at(-1)?.length === 4)
    expect(back.joins.map(({ length }) => length)).toEqual([2, 4])
  })

  test('one that was about to leave, and was killed, gets its share when it comes back', async () => {
    const [other, leaving] = [await joining(), await harness.client()]
    const topic = await harness.topic(leaving, { partitions: 4 })
    const { group } = harness.join(other.client, { topic })
    await harness.eventually('the other has all', () => other.joins.at(-1)?.length === 4)
    await vanish(topic, group, 'pod-1', { ...noClaim, leaves: true })
    const back = await joining({ groupInstanceId: 'pod-1' })
    harness.join(back.client, { topic, group })
    await harness.eventually(
      'each has half',
      () => back.joins.at(-1)?.length === 2 && other.joins.at(-1)?.length === 2,
    )
    expect(back.joins[0]).toEqual([])
  })

  test('one that stops leaves: the other has its partitions at once', async () => {
    const [first, second] = [
      await joining({ groupInstanceId: 'pod-1' }),
      await joining({ groupInstanceId: 'pod-2' }),
    ]
    const topic = await harness.topic(first.client, { partitions: 4 })
    const { group } = harness.join(first.client, { topic })
    const stopped = harness.join(second.client, { topic, group })
    // The coordinator names static members by their instances.
    await harness.eventually(
      'both are static members',
      async () =>
        (await memberIds(group))
          .map((id) => id.slice(0, 6))
          .sort()
          .join() === 'pod-1-,pod-2-',
    )
    await harness.eventually(
      'each has half',
      () => second.joins.at(-1)?.length === 2 && first.joins.at(-1)?.length === 2,
    )
    await stopped.leave()
    await harness.eventually('the first has all', () => first.joins.at(-1)?.length === 4)
  })

  test('of two with one name the first ends, with the reason, and the second has its messages', async () => {
    const [first, second] = [
      await connect({ groupInstanceId: 'pod-1' }),
      await connect({ groupInstanceId: 'pod-1' }),
    ]
    const topic = await harness.topic(first)
    const group = harness.fresh('group')
    const seen: string[] = []
    const ended = (async () => {
      const subscription = { topic, group, from: 'earliest', maxInFlight: 1, ordering: 'none' } as const
      for await (const delivery of first.consume(subscription, new AbortController().signal)) {
        seen.push(textOf(delivery))
        delivery.ack()
      }
    })()
    ended.catch(() => {}) // looked at below
    await publishTexts(second, topic, 3)
    await harness.eventually('the first has all', () => seen.length === 3)
    const two = harness.join(second, { topic, group })
    await expect(harness.within('the first ends', ended)).rejects.toMatchObject({
      code: 'broker_refused',
      message: expect.stringMatching(/group instance id.*--group-instance-id/s),
    })
    await publishTexts(second, topic, 3, 'later')
    const later = () => two.texts.filter((text) => text.startsWith('later'))
    await harness.eventually('the second has what came later', () => later().length === 3)
    expect(two.over).toBe(false)
  })
})
