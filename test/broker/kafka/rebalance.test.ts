// What a member does while its group rebalances: it first finishes and commits what its handlers have, and one that is stopped
// in the middle of it leaves the group all the same, so that nobody waits for it until its session times out.
import { createRequire } from 'node:module'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../../src/broker/broker.ts'
import { createClient, impatient, kafkaSettings } from '../../../src/broker/kafka/client.ts'
import { connectKafka, type KafkaOptions } from '../../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { ackAll, createHarness, hold, type Member, publishTexts, sorted, textOf } from '../suite/harness.ts'

const require = createRequire(import.meta.url)
const present = (await brokerSource('rebalances, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('on Kafka, with sessions of 45 s', { timeout: 90_000 }, () => {
  // Less than the session timeout, for which the coordinator waits for a member that says nothing.
  const patienceMs = 25_000
  const harness = createHarness()
  let server: KafkaServer
  const connect = (options: Partial<KafkaOptions> = {}) =>
    connectKafka({ brokers: server.bootstrap, ...options })

  beforeAll(async () => {
    server = await startKafka()
    harness.start({ connect: () => connect(), stop: async () => {}, patienceMs })
  })
  const listeners: Broker[] = []
  afterEach(async () => {
    await Promise.all(listeners.splice(0).map((client) => client.close()))
    await harness.closeClients()
  })
  afterAll(() => server?.stop())

  /** Resolves when the group is in this state, with so many members. */
  async function inState(
    group: string,
    state: 'PreparingRebalance' | 'Stable',
    members: number,
  ): Promise<void> {
    const client = createClient(kafkaSettings({ brokers: server.bootstrap }), impatient)
    const admin = client.kafka.admin()
    await admin.connect()
    await harness.eventually(`the group is ${state}`, async () => {
      const [found] = (await admin.describeGroups([group])).groups
      return found?.state === state && found.members.length === members
    })
    await admin.disconnect()
  }

  /** A client, and a wait for its member to hear of the next rebalance. */
  async function listening() {
    const phrases: string[] = []
    const log = { debug: (_: object, phrase: string) => void phrases.push(phrase), warn() {} }
    const client = await connect({ log })
    listeners.push(client)
    const hears = async (act: () => Member) => {
      phrases.length = 0
      const member = act()
      await harness.eventually('it hears of a rebalance', () =>
        phrases.some((phrase) => phrase.includes('group is rebalancing')),
      )
      return member
    }
    return { client, hears }
  }

  test('what handlers finish after others have asked to join is committed, and is not delivered again', async () => {
    const [{ client, hears }, second] = [await listening(), await harness.client()]
    const topic = await harness.topic(client, { partitions: 6 })
    const texts = await publishTexts(client, topic, 60)
    const staying = harness.join(client, { topic, maxInFlight: 60 }, hold)
    await harness.eventually('it has all', () => staying.texts.length === 60)
    const guest = await hears(() => harness.join(second, { topic, group: staying.group }))
    staying.act = ackAll
    for (const delivery of staying.deliveries) await delivery.ack()
    await inState(staying.group, 'Stable', 2)
    const more = await publishTexts(second, topic, 60, 'more')
    await harness.eventually('all came', () => staying.texts.length + guest.texts.length >= 120)
    await harness.eventually(
      'nothing is left',
      async () => (await second.lag(staying.group, topic)).total === 0,
    )
    expect(guest.texts.length).toBeGreaterThan(0)
    expect(sorted([...staying.texts, ...guest.texts])).toEqual(sorted([...texts, ...more]))
  })

  test('the group does not wait for a member that is stopped before it has joined for the first time', async () => {
    const [first, second, third] = [await harness.client(), await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 6 })
    await publishTexts(first, topic, 60)
    // It keeps the others waiting for as long as a hand-over may take.
    const slow = harness.join(first, { topic, maxInFlight: 6 }, hold)
    await harness.eventually('it has some', () => slow.texts.length === 6)
    const stopped = harness.join(second, { topic, group: slow.group })
    await inState(slow.group, 'PreparingRebalance', 2)
    await stopped.leave()
    const next = harness.join(third, { topic, group: slow.group })
    await harness.eventually('the next one is given messages', () => next.texts.length > 0)
  })

  test('the group does not wait for a member that is stopped while the group waits for another', async () => {
    const [{ client: first, hears }, second] = [await listening(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 6 })
    await publishTexts(first, topic, 60)
    const leader = harness.join(first, { topic })
    await harness.eventually('it has all', () => leader.texts.length === 60)
    await vanish({ topic, group: leader.group, sessionTimeout: 10_000 })
    const next = await hears(() => harness.join(second, { topic, group: leader.group }))
    await leader.leave()
    await publishTexts(second, topic, 60)
    await harness.eventually('the next one is given messages', () => next.texts.length > 0)
  })

  test('a member that joins or leaves moves only the partitions that it gets or had', async () => {
    const joins: { partitions: readonly number[]; kept: number }[][] = [[], []]
    const noting = async (index: number) => {
      const debug = (fields: object) => 'kept' in fields && joins[index]!.push(fields as never)
      const client = await connect({ log: { debug, warn() {} } })
      listeners.push(client)
      return client
    }
    const [first, second, third] = [await noting(0), await noting(1), await harness.client()]
    const topic = await harness.topic(first, { partitions: 6 })
    const { group } = harness.join(first, { topic })
    harness.join(second, { topic, group })
    await inState(group, 'Stable', 2)
    for (const members of [3, 2]) {
      const before = joins.map(({ length }) => length)
      if (members === 3) harness.join(third, { topic, group })
      else await third.close()
      await inState(group, 'Stable', members)
      await harness.eventually('both have joined again', () =>
        joins.every(({ length }, index) => length > before[index]!),
      )
      const shares = joins.map((each) => each.at(-1)!)
      expect(shares.map(({ partitions }) => partitions.length)).toEqual(members === 3 ? [2, 2] : [3, 3])
      expect(shares.map(({ kept }) => kept)).toEqual([2, 2])
    }
  })

  test('a member that is stopped keeps what its handlers have when others join, and the rest goes to them at once', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 6 })
    const [long, ...short] = await publishTexts(first, topic, 60)
    const stopped = harness.join(first, { topic, maxInFlight: 60 }, (delivery) =>
      textOf(delivery) === long ? undefined : delivery.ack(),
    )
    await harness.eventually('it has all', () => stopped.texts.length === 60)
    stopped.stop.abort()
    const held = stopped.deliveries.find((delivery) => textOf(delivery) === long)!
    const next = harness.join(second, { topic, group: stopped.group })
    const more = await publishTexts(first, topic, 60, 'more')
    const elsewhere = await harness.readAll(first, topic)
    const free = elsewhere.filter(({ partition }) => partition !== held.partition).map(textOf)
    await harness.eventually('the other partitions are read', () =>
      more.filter((text) => free.includes(text)).every((text) => next.texts.includes(text)),
    )
    expect(held.signal.aborted).toBe(false)
    await held.ack()
    await stopped.ended
    await harness.eventually('all came', () => next.texts.length >= 60)
    expect(sorted([...stopped.texts, ...next.texts])).toEqual(sorted([long!, ...short, ...more]))
  })

  // As after a restart of the broker, which knows the generation of before once it has loaded the group.
  test.each([
    ['the coordinator is still loading the group', coordinatorError('GROUP_LOAD_IN_PROGRESS')],
    ['the connection is lost', new Error('Broker not connected')],
  ])('a member that is to join again when %s gets messages again', async (_, error) => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 6 })
    const member = harness.join(client, { topic })
    await publishTexts(client, topic, 20)
    await harness.eventually('it has all', () => member.texts.length === 20)
    const { group } = member
    await Promise.all([
      failOnce('heartbeat', group, coordinatorError('NOT_COORDINATOR_FOR_GROUP')),
      failOnce('joinGroup', group, error),
    ])
    await publishTexts(client, topic, 20, 'more')
    await harness.eventually('it is given messages', () => member.texts.length === 40)
  })

  /** A member that joins and is never heard of again. */
  async function vanish({
    topic,
    group,
    sessionTimeout,
  }: {
    topic: string
    group: string
    sessionTimeout: number
  }) {
    const client = createClient(kafkaSettings({ brokers: server.bootstrap }), impatient)
    const consumer = client.kafka.consumer({ groupId: group, sessionTimeout })
    const joined = new Promise((resolve) => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.connect()
    await consumer.subscribe({ topics: [topic] })
    await consumer.run({ eachMessage: async () => {} })
    await joined
    client.abandon()
  }
})

/** What kafkajs makes of the answer of a broker. */
function coordinatorError(type: string): Error {
  const { createErrorFromCode, errorCodes } = require('kafkajs/src/protocol/error')
  return createErrorFromCode(errorCodes.find((entry: { type: string }) => entry.type === type).code)
}

/** The next request of the group fails. Resolves when it has. */
function failOnce(request: 'heartbeat' | 'joinGroup', group: string, error: Error): Promise<void> {
  const { prototype } = require('kafkajs/src/broker')
  const send = prototype[request]
  return new Promise((resolve) => {
    prototype[request] = async function (asked: { groupId: string }) {
      if (asked.groupId !== group) return send.call(this, asked)
      prototype[request] = send
      resolve()
      throw error
    }
  })
}
