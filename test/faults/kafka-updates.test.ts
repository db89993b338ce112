// Documents that are edited, removed and erased on real Kafka, while processes die and the broker restarts.
import { mkdtemp, rm } from 'node:fs/promises'
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
    server = await startKafka()
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

  test('every processor is killed, and the broker restarts: the store holds what the surviving versions state', async () => {
    await updatesWithFaults(site, async () => {
      await server.kill(0)
      await server.restart(0)
    })
    expect.hasAssertions()
  })
})
