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
server?.catch(() => {}) // seen by `beforeAll`

afterAll(async () => (await server)?.stop())

interface Asked {
  readonly request: { readonly apiName: string }
  readonly response: { decode(bytes: unknown): Promise<Answer> }
}

interface Connection {
  send(asked: Asked): Promise<unknown>
}

/** Of a produce request, or of a question about topics. */
interface Answer {
  readonly topics?: readonly { topicName: string; partitions: { partition: number; errorCode: number }[] }[]
  clientSideThrottleTime?: number
  readonly topicMetadata?: readonly { topic: string; topicErrorCode: number }[]
}

const codes = { notLeader: 6, timedOut: 7, refused: 29 }

describe.skipIf(!present)('Kafka', { timeout: 60_000 }, () => {
  const harness = createHarness()
  const connect = async () => connectKafka({ brokers: (await server!).bootstrap })
  const { prototype }: { prototype: Connection } = createRequire(import.meta.url)(
    'kafkajs/src/network/connection',
  )
  /** The names of the requests that this process has sent. */
  const requests: string[] = []
  /** Changes what the broker answers. */
  let alter: (answer: Answer, connection: Connection) => unknown = () => {}
  const { send } = prototype
  prototype.send = function (asked) {
    requests.push(asked.request.apiName)
    const decode = async (bytes: unknown) => {
      const answer = await asked.response.decode(bytes)
      await alter(answer, this)
      return answer
    }
    return send.call(this, { ...asked, response: { ...asked.response, decode } })
  }
  const requestsOf = (name: string) => requests.filter((each) => each === name).length

  beforeAll(async () => {
    await server
    harness.start({ connect, stop: async () => {} })
  }, 120_000)
  beforeEach(() => {
    requests.length = 0
    alter = () => {}
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
    const each = 150
    const begun = performance.now()
    const publishAll = async (topic: string) => {
      for (let count = 0; count < each; count++) await client.publish(message(topic, `${count}`))
    }
    await Promise.all(topics.map(publishAll))
    const [burst, everyMs] = [40, 10]
    expect(requestsOf('Produce')).toBeLessThanOrEqual(burst + (performance.now() - begun) / everyMs + 2)
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

  /** The answers for one topic say this of its partitions, `times` in all. */
  const answerFor = (topic: string, errorCode: number, times: number) => {
    let left = times
    alter = ({ topics = [] }) => {
      const partitions = topics
        .filter(({ topicName }) => topicName === topic)
        .flatMap((each) => each.partitions)
      if (partitions.length === 0 || left-- <= 0) return
      for (const partition of partitions) partition.errorCode = errorCode
    }
  }

  test.each([
    ['has moved', codes.notLeader],
    ['may not have been replicated', codes.timedOut],
  ])('when a partition %s, its messages alone are sent again, in their order', async (_, code) => {
    const client = await harness.client()
    const [moved, ...others] = await topicsOf(client, 4)
    answerFor(moved!, code, 2)
    const texts = ['a', 'b', 'c']
    const publishAll = (topic: string) => texts.map((text) => client.publish(message(topic, text, 'key')))
    const first = [moved!, ...others].flatMap(publishAll)
    await Promise.resolve()
    await Promise.all([...first, client.publish(message(moved!, 'd', 'key'))])
    const textsOf = async (topic: string) => (await harness.readAll(client, topic)).map(textOf)
    // Here they were stored each time: publishing is not idempotent.
    expect((await textsOf(moved!)).join('')).toMatch(/^(abcd?){3}d?$/)
    expect((await textsOf(moved!)).at(-1)).toBe('d')
    for (const topic of others) expect(await textsOf(topic)).toEqual(texts)
  })

  test('when the answer to a request is lost, all of it is sent again, and each key keeps its order', async () => {
    const client = await harness.client()
    const topics = await topicsOf(client, 3)
    let isLost = false
    alter = ({ topics: answered }) => {
      if (answered === undefined || isLost) return
      isLost = true
      throw Object.assign(new Error('closed'), { name: 'KafkaJSConnectionClosedError' })
    }
    const texts = ['a', 'b', 'c', 'd']
    await Promise.all(
      topics.flatMap((topic) => texts.map((text) => client.publish(message(topic, text, 'key')))),
    )
    for (const topic of topics)
      expect((await harness.readAll(client, topic)).map(textOf)).toEqual([...texts, ...texts])
  })

  test('when one topic is refused for writing, its messages alone are refused, and the others are stored once', async () => {
    const client = await harness.client()
    const [refused, ...others] = await topicsOf(client, 4)
    answerFor(refused!, codes.refused, Number.POSITIVE_INFINITY)
    await Promise.all([
      expectCode('topic_refused', client.publish(message(refused!, 'r'))),
      ...others.map((topic) => client.publish(message(topic, 'k'))),
    ])
    for (const topic of others) expect((await harness.readAll(client, topic)).map(textOf)).toEqual(['k'])
  })

  test('what goes on alone holds up no shared requests: a broker answers those of a connection in turn', async () => {
    const client = await harness.client()
    const [slow, ...others] = await topicsOf(client, 4)
    const used = new Map<string, Set<Connection>>()
    let isSlow = true
    const { promise: replicated, resolve: replicate } = Promise.withResolvers<void>()
    alter = async ({ topics = [] }, connection) => {
      for (const { topicName, partitions } of topics) {
        used.set(topicName, (used.get(topicName) ?? new Set()).add(connection))
        if (topicName !== slow) continue
        if (isSlow) for (const partition of partitions) partition.errorCode = codes.timedOut
        else await replicated
        isSlow = false
      }
    }
    const late = client.publish(message(slow!, 's'))
    await Promise.all(others.map((topic) => client.publish(message(topic, 'first'))))
    await harness.eventually('it goes on alone', () => used.get(slow!)!.size === 2)
    const alone = [...used.get(slow!)!].at(-1)!
    await Promise.all(others.map((topic) => client.publish(message(topic, 'second'))))
    replicate()
    await late
    for (const topic of others) expect(used.get(topic)).not.toContain(alone)
  })

  test('a broker that asks for fewer requests is given the time', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const throttleMs = 500
    alter = (answer) => {
      if (answer.topics) answer.clientSideThrottleTime = throttleMs
    }
    await client.publish(message(topic, 'a'))
    const begun = performance.now()
    await client.publish(message(topic, 'b'))
    expect(performance.now() - begun).toBeGreaterThan(throttleMs / 2)
    expect(sorted((await harness.readAll(client, topic)).map(textOf))).toEqual(['a', 'b'])
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
    const [burst, everyMs] = [20, 25]
    const allowed = burst + (performance.now() - begun) / everyMs
    expect(requestsOf('Fetch')).toBeLessThanOrEqual(allowed + 2)
  })
})
