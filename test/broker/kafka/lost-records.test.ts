// Records that a real Kafka deleted before a group had read them: reported once, before the group moves past the gap.
import kafkajs, { type Admin } from 'kafkajs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Delivery, LostRange } from '../../../src/broker/broker.ts'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../../support/brokers.ts'
import { startKafkaContainer } from '../../support/kafka-container.ts'
import { startKafka } from '../../support/kafka-server.ts'
import { createHarness, textOf } from '../suite/harness.ts'

const source = await brokerSource('records that Kafka deleted')
/** Retention is looked after in moments, not every five minutes. */
const properties = { 'log.retention.check.interval.ms': 200, 'log.initial.task.delay.ms': 200 }
const server =
  source && (source === 'containers' ? startKafkaContainer(properties) : startKafka({ properties }))
server?.catch(() => {}) // seen by the first test

describe.skipIf(!source)('Records that Kafka deleted', { timeout: 60_000 }, () => {
  const harness = createHarness()
  const connect = async () =>
    connectKafka({ brokers: (await server!).bootstrap, sessionTimeoutMs: 1200, fetchWaitMs: 50 })
  let admin: Admin

  beforeAll(async () => {
    harness.start({ connect, stop: async () => {} })
    admin = new kafkajs.Kafka({ brokers: [...(await server!).bootstrap], logLevel: 0 }).admin()
    await admin.connect()
  }, 120_000)
  afterEach(() => harness.closeClients())
  afterAll(async () => {
    await admin?.disconnect()
    await (await server)?.stop()
  })

  const publish = async (topic: string, from: number, to: number, bytes = 10) => {
    const client = await harness.client()
    for (let n = from; n < to; n++)
      await client.publish({ topic, key: 'k', value: Buffer.from(`${n}`.padEnd(bytes)), headers: {} })
  }
  const deleteBefore = async (topic: string, offset: number, partition = 0) => {
    await admin.fetchTopicOffsets(topic) // it knows the leader only then
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  }
  const numbersOf = ({ texts }: { readonly texts: readonly string[] }) => texts.map((text) => Number(text))
  const committed = async (group: string, topic: string) =>
    (await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0]!.partitions.map(({ offset }) => offset)
  const noting = (lost: LostRange[]) => async (range: LostRange) => void lost.push(range)

  test('while a group had no member: how many, from where, and how old at least', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const group = harness.fresh('group')
    await publish(topic, 0, 10)
    const early = harness.join(client, { topic, group })
    await harness.eventually('ten are settled', () => early.texts.length === 10)
    await client.close()
    await publish(topic, 10, 60)
    await deleteBefore(topic, 40)

    const lost: LostRange[] = []
    const later = await harness.client()
    const member = harness.join(later, { topic, group, onLost: noting(lost) })
    await harness.eventually('the rest came', () => member.texts.length === 20 && lost.length > 0)
    expect(numbersOf(member)[0]).toBe(40)
    const before = expect.any(Number) as number
    expect(lost).toEqual([{ topic, partition: 0, first: '10', next: '40', count: 30, before }])
    expect(lost[0]!.before).toBeLessThanOrEqual(Date.now())
    await harness.eventually('nothing is left', async () => (await later.lag(group, topic)).total === 0)
  })

  test('before a group came: reported though it was given its first position, and known when it had one before', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const start = (from: 'earliest' | 'latest') =>
      ({ group: harness.fresh('group'), topic, from, ordering: 'none' }) as const
    const [before, later, end] = [start('earliest'), start('earliest'), start('latest')]
    await client.ensureGroups([before])
    await publish(topic, 0, 10)
    await deleteBefore(topic, 4)
    await client.ensureGroups([before, later, end])
    const offsets = [before, later, end].map(({ group }) => committed(group, topic))
    expect(await Promise.all(offsets)).toEqual([['0'], ['4'], ['10']])
    expect((await client.lag(later.group, topic)).total).toBe(6)
    await deleteBefore(topic, 6)
    await publish(topic, 10, 12)
    const found: Record<string, LostRange[]> = {}
    for (const { group, from } of [before, later, end]) {
      const lost: LostRange[] = []
      found[group] = lost
      const member = harness.join(client, { topic, group, from, onLost: noting(lost) })
      const left = from === 'latest' ? 2 : 6
      await harness.eventually('what is left came', () => member.texts.length === left)
      await harness.eventually('it is settled', async () => (await client.lag(group, topic)).total === 0)
    }
    const rest = { topic, partition: 0, next: '6', before: expect.any(Number) as number }
    expect(found).toEqual({
      [before.group]: [{ ...rest, first: '0', count: 6 }],
      [later.group]: [{ ...rest, first: undefined, count: undefined }],
      [end.group]: [],
    })
  })

  test('by retention, as it comes of itself', async () => {
    const topic = harness.fresh('topic')
    const configEntries = [
      { name: 'retention.ms', value: '1000' },
      { name: 'file.delete.delay.ms', value: '0' },
    ]
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, configEntries }] })
    const client = await harness.client()
    const group = harness.fresh('group')
    const early = harness.join(client, { topic, group })
    await publish(topic, 0, 10)
    await harness.eventually('ten are settled', () => early.texts.length === 10)
    await client.close()
    await publish(topic, 10, 40)
    await harness.eventually('all have expired', async () => {
      const [offsets] = await admin.fetchTopicOffsets(topic)
      return offsets!.low === '40'
    })
    const lost: LostRange[] = []
    const later = await harness.client()
    const member = harness.join(later, { topic, group, onLost: noting(lost) })
    await harness.eventually('the gap is reported and settled', async () => {
      return lost.length > 0 && (await later.lag(group, topic)).total === 0
    })
    expect(lost).toMatchObject([{ topic, partition: 0, first: '10', next: '40', count: 30 }])
    await publish(topic, 40, 41)
    await harness.eventually('it goes on', () => member.texts.length === 1)
    expect(numbersOf(member)).toEqual([40])
  })

  test('the position of the group stays before the gap until it is reported, also when members die meanwhile', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const group = harness.fresh('group')
    await publish(topic, 0, 5)
    const early = harness.join(client, { topic, group })
    await harness.eventually('five are settled', () => early.texts.length === 5)
    await client.close()
    await publish(topic, 5, 30)
    await deleteBefore(topic, 20)

    const dying = await harness.client()
    let asked = 0
    const never = () => {
      asked++
      return new Promise<void>(() => {})
    }
    const mute = harness.join(dying, { topic, group, onLost: never })
    await harness.eventually('the rest came, the report waits', () => mute.texts.length === 10 && asked === 1)
    await dying.close()
    expect(await committed(group, topic)).toEqual(['5'])

    const lost: LostRange[] = []
    const last = await harness.client()
    harness.join(last, { topic, group, onLost: noting(lost) })
    await harness.eventually('nothing is left', async () => (await last.lag(group, topic)).total === 0)
    expect(lost).toMatchObject([{ first: '5', next: '20', count: 15 }])
    await harness.eventually('it is committed', async () => (await committed(group, topic))[0] === '30')
  })

  test('while a member is behind, all that there was: reported though nothing new has come', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    await publish(topic, 0, 60, 100_000)
    const held: Delivery[] = []
    const lost: LostRange[] = []
    const member = harness.join(
      client,
      { topic, maxInFlight: 1, maxBytes: 300_000, onLost: noting(lost) },
      async (delivery) => void held.push(delivery),
    )
    await harness.eventually('one is in flight', () => held.length === 1)
    await deleteBefore(topic, 60)
    let done = 0
    await harness.eventually('the gap is reported', async () => {
      while (done < held.length) await held[done++]!.ack()
      return lost.length === 1
    })
    expect(lost[0]).toMatchObject({ next: '60', count: 60 - Number(lost[0]!.first) })
    await publish(topic, 60, 62)
    await harness.eventually('it goes on', async () => {
      while (done < held.length) await held[done++]!.ack()
      return member.texts.length > 1 && Number(textOf(held.at(-1)!)) === 61
    })
    // Each is either delivered or counted as lost.
    expect(new Set(numbersOf(member)).size + lost[0]!.count!).toBe(62)
    expect(lost).toHaveLength(1)
  })

  test('before the group had a position: that some are gone, not how many it had read', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 2 })
    await publish(topic, 0, 30)
    const offsets = await admin.fetchTopicOffsets(topic)
    const { partition } = offsets.find(({ high }) => high === '30')!
    await deleteBefore(topic, 25, partition)
    const lost: LostRange[] = []
    const member = harness.join(client, { topic, onLost: noting(lost) })
    await harness.eventually('the rest came', () => member.texts.length === 5 && lost.length > 0)
    expect(lost).toMatchObject([{ partition, first: undefined, next: '25', count: undefined }])
  })

  test('are reported by one member of many; a member that joins later has nothing to report', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const group = harness.fresh('group')
    await publish(topic, 0, 5)
    const early = harness.join(client, { topic, group })
    await harness.eventually('five are settled', () => early.texts.length === 5)
    await client.close()
    await publish(topic, 5, 30)
    await deleteBefore(topic, 20)
    const lost: LostRange[] = []
    const members = await Promise.all([0, 1, 2].map(() => harness.client()))
    for (const each of members) harness.join(each, { topic, group, onLost: noting(lost) })
    await harness.eventually('nothing is left', async () => (await members[0]!.lag(group, topic)).total === 0)
    await harness.eventually('it is committed', async () => (await committed(group, topic))[0] === '30')
    await members[0]!.close()
    await publish(topic, 30, 31)
    await harness.eventually('they go on', async () => (await committed(group, topic))[0] === '31')
    expect(lost).toMatchObject([{ first: '5', count: 15 }])
  })

  test('a new group, and the markers of a transaction, are no loss', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const producer = new kafkajs.Kafka({ brokers: [...(await server!).bootstrap], logLevel: 0 }).producer({
      transactionalId: topic,
      idempotent: true,
      maxInFlightRequests: 1,
    })
    await producer.connect()
    for (const [n, whole] of [true, false, true].entries()) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ key: 'k', value: `${n}` }] })
      await (whole ? transaction.commit() : transaction.abort())
    }
    await producer.disconnect()
    const lost: LostRange[] = []
    const member = harness.join(client, { topic, onLost: noting(lost) })
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(numbersOf(member)).toEqual([0, 2])
    expect(lost).toEqual([])
  })
})
