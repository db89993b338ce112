// What shared requests promise, on a real Kafka: few requests, each message with its own outcome, and nothing stored twice.
import { createRequire } from 'node:module'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../../support/brokers.ts'
import { startKafkaContainer } from '../../support/kafka-container.ts'
import { startKafka } from '../../support/kafka-server.ts'
import { createHarness, expectCode, message, sorted, textOf } from '../suite/harness.ts'

const source = await brokerSource('Kafka')
const present = source !== undefined
const server = present ? (source === 'containers' ? startKafkaContainer() : startKafka()) : undefined
server?.catch(() => {}) // seen by the first test

afterAll(async () => (await server)?.stop())

interface Connection {
  send(asked: { readonly request: { readonly apiName: string } }): Promise<unknown>
}

describe.skipIf(!present)('Kafka', { timeout: 60_000 }, () => {
  const harness = createHarness()
  const connect = async () => connectKafka({ brokers: (await server!).bootstrap })
  const { prototype }: { prototype: Connection } = createRequire(import.meta.url)(
    'kafkajs/src/network/connection',
  )
  /** The names of the requests that this process has sent. */
  const requests: string[] = []
  const { send } = prototype
  prototype.send = function (asked) {
    requests.push(asked.request.apiName)
    return send.call(this, asked)
  }
  const requestsOf = (name: string) => requests.filter((each) => each === name).length

  beforeAll(() => harness.start({ connect, stop: async () => {} }))
  beforeEach(() => {
    requests.length = 0
  })
  afterEach(() => harness.closeClients())

  const topicsOf = (client: Awaited<ReturnType<typeof harness.client>>, count: number) =>
    Promise.all(Array.from({ length: count }, () => harness.topic(client)))

  test('messages of many topics that are published together are one request', async () => {
    const client = await harness.client()
    const topics = await topicsOf(client, 6)
    const all = topics.flatMap((topic) => ['a', 'b', 'c', 'd'].map((text) => message(topic, text)))
    await Promise.all(all.map((each) => client.publish(each)))
    expect(requestsOf('Produce')).toBe(1)
    for (const topic of topics)
      expect(sorted((await harness.readAll(client, topic)).map(textOf))).toEqual(['a', 'b', 'c', 'd'])
  })

  test('side by side, publishers that wait for each message share most of their requests', async () => {
    const client = await harness.client()
    const topics = await topicsOf(client, 20)
    const each = 30
    const publishAll = async (topic: string) => {
      for (let count = 0; count < each; count++) await client.publish(message(topic, `${count}`))
    }
    await Promise.all(topics.map(publishAll))
    expect(requestsOf('Produce')).toBeLessThan((topics.length * each) / 4)
    for (const topic of topics) expect(await harness.readAll(client, topic)).toHaveLength(each)
  })

  test('messages that do not fit into one request are several', async () => {
    const client = await harness.client()
    const topics = await topicsOf(client, 4)
    const value = new Uint8Array(400 * 1024)
    await Promise.all(topics.map((topic) => client.publish({ topic, key: 'k', value, headers: {} })))
    expect(requestsOf('Produce')).toBe(2)
  })

  test('when one partition refuses its message, the others have stored theirs, once', async () => {
    const client = await harness.client()
    const [small, other] = [await harness.topic(client, { maxBytes: 10_000 }), await harness.topic(client)]
    const large = { topic: small, key: 'large', value: new Uint8Array(400_000), headers: {} }
    const keys = Array.from({ length: 20 }, (_, number) => `${number}`)
    const refused = expectCode('message_too_large', client.publish(large))
    const fine = keys.flatMap((key) => [message(small, key), message(other, key)])
    await Promise.all([refused, ...fine.map((each) => client.publish(each))])
    const textsOf = async (topic: string) => (await harness.readAll(client, topic)).map(textOf)
    expect(sorted(await textsOf(other))).toEqual(sorted(keys))
    // In the partition of the refused message the whole batch was refused, and halved until only that message was left.
    expect(sorted(await textsOf(small))).toEqual(sorted(keys))
  })

  test('when one topic is gone, the messages of the others are stored, once', async () => {
    const [client, admin] = [await harness.client(), await harness.client()]
    const [gone, ...kept] = await topicsOf(client, 4)
    await admin.deleteTopics([gone!])
    const refused = expectCode('topic_missing', client.publish(message(gone!, 'g')))
    await Promise.all([refused, ...kept.map((topic) => client.publish(message(topic, 'k')))])
    for (const topic of kept) expect((await harness.readAll(client, topic)).map(textOf)).toEqual(['k'])
  })

  test('a message that waits for the next request is stored before the broker closes', async () => {
    const [client, reader] = [await connect(), await harness.client()]
    const topic = await harness.topic(client)
    for (let count = 0; count < 60; count++) await client.publish(message(topic, `${count}`))
    const last = ['x', 'y', 'z'].map((text) => client.publish(message(topic, text)))
    await Promise.all([client.close(), ...last])
    expect(await harness.readAll(reader, topic)).toHaveLength(63)
  })

  test('a group whose messages come one by one does not fetch each of them', async () => {
    const clients = await Promise.all(Array.from({ length: 4 }, () => harness.client()))
    const topic = await harness.topic(clients[0]!)
    const member = harness.join(clients[0]!, { topic, maxInFlight: 100 }, (delivery) => delivery.ack())
    await clients[0]!.publish(message(topic, 'first'))
    await harness.eventually('it has joined', () => member.deliveries.length === 1)
    requests.length = 0
    const begun = performance.now()
    const publishAll = async (client: (typeof clients)[number], number: number) => {
      for (let count = 0; count < 100; count++) await client.publish(message(topic, `${number} ${count}`))
    }
    await Promise.all(clients.map(publishAll))
    await harness.eventually('all came', () => member.deliveries.length === 401)
    const [burst, everyMs] = [20, 10]
    const allowed = burst + (performance.now() - begun) / everyMs
    expect(requestsOf('Fetch')).toBeLessThanOrEqual(allowed + 2)
  })
})
