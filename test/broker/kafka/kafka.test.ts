// The broker on a real Kafka: the whole contract, and what only Kafka can show.
import kafkajs from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Delivery } from '../../../src/broker/broker.ts'
import { connectKafka, type KafkaOptions } from '../../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../../support/brokers.ts'
import { startKafkaContainer } from '../../support/kafka-container.ts'
import { startKafka } from '../../support/kafka-server.ts'
import {
  createHarness,
  distinct,
  expectCode,
  hold,
  message,
  publishTexts,
  sorted,
  textOf,
} from '../suite/harness.ts'
import { brokerSuite } from '../suite.ts'

const source = await brokerSource('Kafka')
const present = source !== undefined
const start = source === 'containers' ? startKafkaContainer : startKafka
const server = present ? start() : undefined
server?.catch(() => {}) // seen by the first test

afterAll(async () => (await server)?.stop())

const connect = async (options: Partial<KafkaOptions> = {}) =>
  connectKafka({ brokers: (await server!).bootstrap, sessionTimeoutMs: 1200, ...options })

if (present) {
  brokerSuite('Kafka', async () => ({ connect: () => connect(), stop: async () => {}, publishForeign }))
}

describe.skipIf(!present)('Kafka', { timeout: 60_000 }, () => {
  const harness = createHarness()
  beforeAll(() => harness.start({ connect: () => connect(), stop: async () => {} }))
  afterEach(() => harness.closeClients())

  test('a topic with a retention closes its files in a quarter of it: only closed ones are deleted', async () => {
    const client = await harness.client()
    const admin = new kafkajs.Kafka({ brokers: [...(await server!).bootstrap], logLevel: 0 }).admin()
    await admin.connect()
    const segmentOf = async (retentionMs?: number) => {
      const name = harness.fresh('kept')
      await client.ensureTopics([{ name, partitions: 1, ...(retentionMs && { retentionMs }) }])
      const type = kafkajs.ConfigResourceTypes.TOPIC
      const asked = { includeSynonyms: false, resources: [{ type, name, configNames: ['segment.ms'] }] }
      return Number((await admin.describeConfigs(asked)).resources[0]!.configEntries[0]!.configValue)
    }
    expect(await segmentOf()).toBe(604_800_000)
    expect(await segmentOf(86_400_000)).toBe(21_600_000)
    expect(await segmentOf(1000)).toBe(60_000)
    await admin.disconnect()
  })

  test('a compacted topic keeps for an hour what a process that takes over must find', async () => {
    const client = await harness.client()
    const name = harness.fresh('compacted')
    await client.ensureTopics([{ name, partitions: 1, compacted: true }])
    const admin = new kafkajs.Kafka({ brokers: [...(await server!).bootstrap], logLevel: 0 }).admin()
    await admin.connect()
    const type = kafkajs.ConfigResourceTypes.TOPIC
    const configNames = ['cleanup.policy', 'min.compaction.lag.ms']
    const asked = { includeSynonyms: false, resources: [{ type, name, configNames }] }
    const { configEntries } = (await admin.describeConfigs(asked)).resources[0]!
    await admin.disconnect()
    const found = Object.fromEntries(
      configEntries.map(({ configName, configValue }) => [configName, configValue]),
    )
    expect(found).toEqual({ 'cleanup.policy': 'compact', 'min.compaction.lag.ms': '3600000' })
  })

  test('a member that joins and leaves in mid-run costs neither messages nor those that the other has in flight', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 6 })
    const group = harness.fresh('group')
    const settled: string[] = []
    const work = async (delivery: Delivery) => {
      await new Promise((resolve) => setTimeout(resolve, 40))
      if (!delivery.signal.aborted) settled.push(textOf(delivery))
      await delivery.ack()
    }
    const slow: Delivery[] = []
    const staying = harness.join(first, { topic, group, maxInFlight: 20 }, async (delivery) => {
      // One message of every partition stays in flight all the time.
      if (slow.some((one) => one.partition === delivery.partition)) return work(delivery)
      slow.push(delivery)
    })
    const texts = await publishTexts(first, topic, 600)
    await harness.eventually('every partition has one in flight', () => slow.length === 6)
    const guest = harness.join(second, { topic, group, maxInFlight: 20 }, work)
    await harness.eventually('the guest works', () => guest.texts.length > 30)
    const kept = slow.filter((one) => !one.signal.aborted)
    expect(kept.length).toBe(3)
    await harness.within('the guest left', guest.leave())
    await harness.eventually('the other has all partitions again', async () => {
      await Promise.all(slow.filter((one) => !one.signal.aborted).map(work))
      return distinct(settled).length === texts.length
    })
    expect(kept.every((one) => !one.signal.aborted)).toBe(true)
    expect(sorted(staying.texts.filter((text) => kept.some((one) => textOf(one) === text)))).toEqual(
      sorted(kept.map(textOf)),
    )
    await harness.eventually('nothing is left', async () => (await first.lag(group, topic)).total === 0)
  })

  test('a partition that was full when it was lost is read on when it comes back', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 4 })
    const group = harness.fresh('group')
    const sized = Array.from({ length: 200 }, (_, index) => ({
      key: `${index}`,
      text: `${index}`.padEnd(2000),
    }))
    await Promise.all(sized.map(({ key, text }) => first.publish(message(topic, text, key))))
    // Room for ten: all partitions are paused.
    const staying = harness.join(first, { topic, group, maxInFlight: 10, maxBytes: 20_000 }, hold)
    await harness.eventually('it is full', () => staying.texts.length >= 9)
    const guest = harness.join(second, { topic, group, maxInFlight: 1 }, hold)
    await harness.eventually('the guest has some of them', () => guest.texts.length > 0)
    await harness.within('the guest left', Promise.all([guest.stop.abort(), second.close()]))
    const settled = new Set<string>()
    staying.act = async (delivery) => {
      settled.add(delivery.key)
      await delivery.ack()
    }
    for (const delivery of staying.deliveries) await staying.act(delivery, staying)
    await harness.eventually('all came', () => settled.size === 200)
    await harness.eventually('nothing is left', async () => (await first.lag(group, topic)).total === 0)
  })

  test('takes no more of a partition with a thousand settled behind one that is not', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const texts = await publishTexts(client, topic, 2500)
    let stuck: Delivery | undefined
    const member = harness.join(client, { topic, maxInFlight: 50 }, (delivery) => {
      if (stuck !== undefined) return delivery.ack()
      stuck = delivery
    })
    await harness.eventually('a thousand are settled', () => member.texts.length === 1001)
    // A commit and a few fetches later nothing has changed.
    await publishTexts(client, topic, 1, 'later')
    await new Promise((resolve) => setTimeout(resolve, 700))
    expect(member.texts.length).toBe(1001)
    expect((await client.lag(member.group, topic)).total).toBe(2501)
    await stuck!.ack()
    await harness.eventually('the rest came', () => distinct(member.texts).length === texts.length + 1)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(member.texts.length).toBe(2501)
  })

  test('a handler that keeps the event loop busy for most of a session is not evicted', async () => {
    const [first, second] = [await connect({ sessionTimeoutMs: 6000 }), await harness.client()]
    const topic = await harness.topic(second, { partitions: 2 })
    const texts = await publishTexts(second, topic, 20)
    let busy = false
    const member = harness.join(first, { topic, maxInFlight: 20 }, async (delivery) => {
      if (!busy) {
        busy = true
        const end = performance.now() + 4000
        while (performance.now() < end);
      }
      await delivery.ack()
    })
    await harness.eventually('all came', () => member.texts.length >= 20)
    await harness.eventually(
      'nothing is left',
      async () => (await second.lag(member.group, topic)).total === 0,
    )
    expect(sorted(member.texts)).toEqual(sorted(texts))
    expect(member.deliveries.some((one) => one.signal.aborted)).toBe(false)
    await member.leave()
    await first.close()
  })

  test('goes on publishing and consuming when another topic that it used is deleted', async () => {
    const client = await harness.client()
    const [kept, gone] = [await harness.topic(client), await harness.topic(client)]
    const member = harness.join(client, { topic: kept })
    await client.publish(message(gone, 'g'))
    await client.publish(message(kept, 'before'))
    await client.deleteTopics([gone])
    // A topic that is new to the producer makes kafkajs ask about all it knows, the deleted one among them.
    const fresh = await harness.topic(client)
    await Promise.all([client.publish(message(fresh, 'f')), client.publish(message(kept, 'after'))])
    await harness.eventually('both came', () => distinct(member.texts).length === 2)
    await expectCode('topic_missing', client.publish(message(gone, 'g')))
  })

  test('ends a member whose topic was deleted with topic_missing', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 5)
    const subscription = { topic, group: topic, maxInFlight: 5, from: 'earliest', ordering: 'none' } as const
    let seen = 0
    const consuming = (async () => {
      for await (const delivery of client.consume(subscription, new AbortController().signal)) {
        seen++
        await delivery.ack()
      }
    })()
    consuming.catch(() => {}) // expected below
    await harness.eventually('all came', () => seen === 5)
    await client.deleteTopics([topic])
    await harness.within('it ended', expectCode('topic_missing', consuming))
  })

  test('lets a handler finish its messages of a deleted topic: they are not reassigned', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 3)
    const subscription = { topic, group: topic, maxInFlight: 3, from: 'earliest', ordering: 'none' } as const
    const inFlight: Delivery[] = []
    const consuming = (async () => {
      for await (const delivery of client.consume(subscription, new AbortController().signal))
        inFlight.push(delivery)
    })()
    consuming.catch(() => {}) // expected below
    await harness.eventually('all came', () => inFlight.length === 3)
    await client.deleteTopics([topic])
    await harness.within('it ended', expectCode('topic_missing', consuming))
    expect(inFlight.map(({ signal }) => signal.aborted)).toEqual([false, false, false])
    await Promise.all([inFlight[0]!.ack(), inFlight[1]!.retryLater(0)])
  })

  test('reads what foreign producers write: no key, no value, headers without value or repeated', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    await withProducer((producer) =>
      producer.send({
        topic,
        messages: [
          { key: null, value: null, headers: { twice: ['one', 'two'], bytes: Buffer.from('ü') } },
          { key: Buffer.from('k'), value: 'v' },
        ],
      }),
    )
    const stored = await harness.readAll(client, topic)
    expect(stored.map(({ key, headers }) => ({ key, headers }))).toEqual([
      { key: '', headers: { twice: 'two', bytes: 'ü' } },
      { key: 'k', headers: {} },
    ])
    expect(stored[0]!.value.byteLength).toBe(0)
    const member = harness.join(client, { topic, ordering: 'key' })
    await harness.eventually('both came', () => member.texts.length === 2)
  })

  test('takes a message of 2 MB when the topic allows it, and its dead letter', async () => {
    const client = await harness.client()
    const name = harness.fresh('large')
    await client.ensureTopics([{ name, partitions: 1, maxBytes: 3_000_000 }])
    await client.ensureTopics([{ name: `${name}.dead`, partitions: 1 }])
    const value = new Uint8Array(2_000_000).fill(7)
    await publishForeign(name, value)
    const member = harness.join(client, { topic: name })
    await harness.eventually('it came', () => member.deliveries.length === 1)
    expect(member.deliveries[0]!.value.byteLength).toBe(2_000_000)
    const headers = { 'dead-cause': 'x'.repeat(20_000) }
    await client.publish({ topic: `${name}.dead`, key: 'k', value, headers })
    const [dead] = await harness.readAll(client, `${name}.dead`)
    expect(Buffer.compare(dead!.value, value)).toBe(0)
  })

  test('refuses what the topic does not take, alone', async () => {
    const client = await harness.client()
    const name = harness.fresh('small')
    await client.ensureTopics([{ name, partitions: 2, maxBytes: 10_000 }])
    const sizes = [100, 9000, 200_000, 300, 9000, 9000, 400_000, 9000]
    const results = await Promise.allSettled(
      sizes.map((bytes, index) =>
        client.publish({ topic: name, key: `${index}`, value: new Uint8Array(bytes), headers: {} }),
      ),
    )
    expect(results.map((result) => (result.status === 'rejected' ? result.reason.code : 'stored'))).toEqual(
      sizes.map((bytes) => (bytes > 10_000 ? 'message_too_large' : 'stored')),
    )
    const stored = new Set((await harness.readAll(client, name)).map(({ key }) => key))
    expect([...stored].sort()).toEqual(['0', '1', '3', '4', '5', '7'])
  })

  test('reads to the end of a topic whose last offset holds no message', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    await client.publish(message(topic, 'committed'))
    // The mark that ends a transaction takes an offset, and is no message.
    await withProducer(
      async (producer) => {
        const transaction = await producer.transaction()
        await transaction.send({ topic, messages: [{ key: 'k', value: 'in transaction' }] })
        await transaction.commit()
      },
      { transactionalId: topic, idempotent: true, maxInFlightRequests: 1 },
    )
    const texts = async () => (await harness.readAll(client, topic)).map(textOf)
    await harness.eventually('the transaction shows', async () => (await texts()).length === 2)
    expect(await texts()).toEqual(['committed', 'in transaction'])
    const member = harness.join(client, { topic })
    await harness.eventually('both came', () => member.texts.length === 2)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
  })

  test('leaves no group behind when it reads', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 10)
    const admin = new kafkajs.Kafka({ brokers: [...(await server!).bootstrap], logLevel: 0 }).admin()
    await admin.connect()
    const groups = async () => (await admin.listGroups()).groups.map(({ groupId }) => groupId).sort()
    const before = await groups()
    expect(await harness.readAll(client, topic)).toHaveLength(10)
    expect(await groups()).toEqual(before)
    await admin.disconnect()
  })

  test('a reader that retention overtook goes on with what is left, and says so', async () => {
    const passed: unknown[] = []
    const warn = (fields: object) => passed.push(fields)
    const client = await connect({ log: { debug() {}, warn } })
    const topic = await harness.topic(client, { partitions: 1 })
    const value = Buffer.alloc(100_000)
    for (let n = 0; n < 60; n++) await client.publish({ topic, key: 'k', value, headers: { n: `${n}` } })
    const stop = new AbortController()
    const reader = client
      .read({ topic, from: 'earliest', until: 'never' }, stop.signal)
      [Symbol.asyncIterator]()
    await reader.next()
    await withAdmin(async (admin) => {
      await admin.fetchTopicOffsets(topic) // it knows the leader only then
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '50' }] })
    })
    let read = 1
    for (let last = ''; last !== '59'; read++) last = (await reader.next()).value?.headers['n'] ?? '59'
    expect(read).toBeLessThan(60)
    expect(passed).toContainEqual(expect.objectContaining({ topic, partition: 0, low: 50 }))
    stop.abort()
    await client.close()
  })

  test('partitions that are added are read and consumed while it runs', async () => {
    const client = await connect({ metadataMaxAgeMs: 1000 })
    const topic = await harness.topic(client, { partitions: 1 })
    const stop = new AbortController()
    const [read, consumed] = [new Set<number>(), new Set<number>()]
    const reading = (async () => {
      for await (const { partition } of client.read({ topic, from: 'earliest', until: 'never' }, stop.signal))
        read.add(partition)
    })()
    const group = harness.fresh('group')
    const subscription = { topic, group, maxInFlight: 10, from: 'earliest', ordering: 'none' } as const
    const consuming = (async () => {
      for await (const delivery of client.consume(subscription, stop.signal)) {
        consumed.add(delivery.partition)
        await delivery.ack()
      }
    })()
    await publishTexts(client, topic, 1)
    await harness.eventually('both work', () => read.size === 1 && consumed.size === 1)
    await withAdmin((admin) => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }))
    const all = [0, 1, 2, 3].map((partition) => ({ partition, key: 'k', value: 'x' }))
    await withProducer((producer) => producer.send({ topic, messages: all }))
    await harness.eventually('the reader finds all', () => read.size === 4)
    await harness.eventually('the consumer finds all', () => consumed.size === 4)
    stop.abort()
    await Promise.all([reading, consuming])
    await client.close()
  })

  test('says that no broker answers, soon', async () => {
    await expectCode('broker_unavailable', connectKafka({ brokers: ['127.0.0.1:1'] }))
  })
})

type ProducerConfig = NonNullable<Parameters<kafkajs.Kafka['producer']>[0]>

async function withProducer(
  use: (producer: kafkajs.Producer) => Promise<unknown>,
  config: ProducerConfig = {},
): Promise<void> {
  const kafka = new kafkajs.Kafka({
    brokers: [...(await server!).bootstrap],
    logLevel: kafkajs.logLevel.NOTHING,
  })
  const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner, ...config })
  await producer.connect()
  await use(producer)
  await producer.disconnect()
}

async function withAdmin(use: (admin: kafkajs.Admin) => Promise<unknown>): Promise<void> {
  const kafka = new kafkajs.Kafka({
    brokers: [...(await server!).bootstrap],
    logLevel: kafkajs.logLevel.NOTHING,
  })
  const admin = kafka.admin()
  await admin.connect()
  await use(admin)
  await admin.disconnect()
}

function publishForeign(topic: string, value: Uint8Array): Promise<void> {
  return withProducer((producer) => producer.send({ topic, messages: [{ value: Buffer.from(value) }] }))
}
