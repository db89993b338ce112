// On real Kafka: a message that kills its process comes to its end, and processes that are killed take no message with them.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import type { Site } from './execution.ts'
import { killing, rollingKills } from './killed-process.ts'

const present = (await brokerSource('killed processes, on Kafka', ['jars'])) !== undefined

// Each waits for deaths to be noticed most of the time, and has topics of its own.
describe.skipIf(!present).concurrent('killed processes, on Kafka', { timeout: 400_000 }, () => {
  let server: KafkaServer
  let site: Site

  beforeAll(async () => {
    server = await startKafka({ properties: { 'group.min.session.timeout.ms': 1000 } })
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
  })
  afterAll(() => server?.stop())

  test.each(['abort', 'memory', 'block'])(
    'a message that kills by %s is dead after it did so alone, and no other is',
    async (poison) => {
      const said = await killing(site, { poison })
      expect(said).toContain('waits alone')
      if (poison === 'block') expect(said).toContain('the main thread is blocked')
    },
  )

  test('a message that kills the replica with a group.instance.id each time is dead before a session would have ended', async () => {
    const start = performance.now()
    expect(await killing(site, { poison: 'abort', groupInstanceId: 'pod-1' })).toContain('waits alone')
    // At least four deaths: without the name, each would be noticed after 30 s.
    expect(performance.now() - start).toBeLessThan(100_000)
  })

  test('replicas killed at random, many times: no message is taken for the reason', async () => {
    await rollingKills(site, { kills: 24, seed: 17 })
  })
})
