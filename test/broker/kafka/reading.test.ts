// Reads of a topic to its end keep their connections for the next read, and find all that is stored, whatever has happened meanwhile.
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../../src/broker/broker.ts'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { createHarness, expectCode, publishTexts, sorted } from '../suite/harness.ts'

const present = (await brokerSource('Kafka that is read', ['jars'])) !== undefined

/** All sockets of this process to a server, whose module is patched. */
const opened: net.Socket[] = []
const connect = net.connect
const isOpen = (socket: net.Socket) => !socket.destroyed

describe.skipIf(!present)('reads of a topic to its end', { timeout: 120_000 }, () => {
  const harness = createHarness()
  let server: KafkaServer
  beforeAll(async () => {
    net.connect = ((...given: Parameters<typeof connect>) => {
      const socket = connect(...given)
      opened.push(socket)
      return socket
    }) as typeof connect
    syncBuiltinESMExports()
    server = await startKafka({ brokers: 1 })
    harness.start({ connect: () => connectKafka({ brokers: server.bootstrap }), stop: async () => {} })
  }, 60_000)
  afterAll(async () => {
    await harness.closeClients()
    await server?.stop()
    net.connect = connect
    syncBuiltinESMExports()
  })

  async function read(client: Broker, topic: string): Promise<string[]> {
    const texts: string[] = []
    const range = { topic, from: 'earliest', until: 'end' } as const
    for await (const { value } of client.read(range, AbortSignal.timeout(30_000)))
      texts.push(Buffer.from(value).toString())
    return sorted(texts)
  }

  test('one after the other, they share connections; side by side, each has its own; all end with the client', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const texts = await publishTexts(client, topic, 20)
    expect(await read(client, topic)).toEqual(sorted(texts))
    const before = opened.length
    for (let time = 0; time < 50; time++) expect(await read(client, topic)).toHaveLength(20)
    expect(opened.length - before).toBe(0)
    const all = await Promise.all(Array.from({ length: 20 }, () => read(client, topic)))
    for (const each of all) expect(each).toEqual(sorted(texts))
    const others = await Promise.all(
      Array.from({ length: 12 }, () => harness.topic(client, { partitions: 1 })),
    )
    for (const other of others) expect(await read(client, other)).toEqual([])
    // At most eight readers wait, of at most two connections each.
    const ofReaders = opened.slice(before).filter(isOpen).length
    expect(ofReaders).toBeLessThanOrEqual(16)
    await client.close()
    await harness.eventually('all are closed', () => !opened.some(isOpen))
  })

  test('they find new messages and partitions, and that a topic was deleted or made again', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    expect(await read(client, topic)).toEqual([])
    await publishTexts(client, topic, 3)
    expect(await read(client, topic)).toHaveLength(3)
    const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: 0 })
    const admin = kafka.admin()
    await admin.connect()
    await admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] })
    const producer = kafka.producer()
    await producer.connect()
    await producer.send({ topic, messages: [{ value: 'behind', partition: 1 }] })
    await Promise.all([producer.disconnect(), admin.disconnect()])
    expect(await read(client, topic)).toContain('behind')
    await client.deleteTopics([topic])
    await expectCode('topic_missing', read(client, topic))
    await client.ensureTopics([{ name: topic, partitions: 1 }])
    expect(await read(client, topic)).toEqual([])
  })

  test('they go on after the broker was killed', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const texts = await publishTexts(client, topic, 5)
    expect(await read(client, topic)).toEqual(sorted(texts))
    await server.kill(0)
    await server.restart(0)
    expect(await read(client, topic)).toEqual(sorted(texts))
  })
})
