// Documents that are edited, removed and erased on real Kafka, while processes die and the broker restarts.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import kafkajs from 'kafkajs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { eraseEverywhere } from './erasing.ts'
import type { Site } from './execution.ts'
import { updatesWithFaults } from './updates.ts'
import { removalWithoutValue } from './without-value.ts'

const present = (await brokerSource('documents that change, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('documents that change, on Kafka', { timeout: 400_000 }, () => {
  let server: KafkaServer
  let site: Site
  let folder: string

  beforeAll(async () => {
    // Kafka looks for files to delete at once, and not each five minutes.
    const looks = { 'log.initial.task.delay.ms': 100, 'log.retention.check.interval.ms': 500 }
    const properties = { ...looks, 'log.segment.delete.delay.ms': 100 }
    server = await startKafka({ properties })
    folder = await mkdtemp(join(tmpdir(), 'graphmill-updates-'))
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
  })
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test('an erased document is nowhere afterwards, and the letters of others still wait', async () => {
    await eraseEverywhere(site, folder)
    expect.hasAssertions()
  })

  test('a null value removes the document with its key', async () => {
    const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: 0 })
    const producer = kafka.producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
    await producer.connect()
    await removalWithoutValue(site, (topic, key) =>
      producer.send({ topic, messages: [{ key, value: null }] }),
    )
    await producer.disconnect()
    expect.hasAssertions()
  })

  test('deleted bytes stay on the disk as long as their file has a message that is kept', async () => {
    const broker = await site.connect()
    const [topic, word] = ['erased', 'Xanthippe']
    const publish = (text: string) =>
      broker.publish({ topic, key: '', value: Buffer.from(text), headers: {} })
    const deleteAll = async () =>
      broker.deleteSettled({ topic, ends: await broker.ends(topic), expected: [], ignored: [] })
    await broker.ensureTopics([{ name: topic, partitions: 1 }])
    await publish(word)
    expect(await deleteAll()).toMatchObject({ deleted: true })
    await publish('a neighbour')
    const read: string[] = []
    const range = { topic, from: 'earliest', until: 'end' } as const
    for await (const { value } of broker.read(range, new AbortController().signal))
      read.push(Buffer.from(value).toString())
    expect(read).toEqual(['a neighbour'])
    const admin = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: 0 }).admin()
    await admin.connect()
    const configEntries = [{ name: 'segment.ms', value: '1' }]
    const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await admin.alterConfigs({ validateOnly: false, resources })
    await admin.disconnect()
    const log = join(server.folders[0]!, `${topic}-0`)
    const files = async () => (await readdir(log)).filter((name) => name.includes('.log')).sort()
    const isClosed = async () => {
      await publish('in the next file')
      return (await files()).length > 1
    }
    await expect.poll(isClosed, { timeout: 30_000 }).toBe(true)
    const [first] = await files()
    expect((await readFile(join(log, first!))).includes(word)).toBe(true)
    expect(await deleteAll()).toMatchObject({ deleted: true })
    await expect.poll(files, { timeout: 60_000 }).not.toContain(first)
    await broker.close()
  })

  test('every processor is killed, and the broker restarts: the store holds what the surviving versions state', async () => {
    await updatesWithFaults(site, async () => {
      await server.kill(0)
      await server.restart(0)
    })
    expect.hasAssertions()
  })
})
