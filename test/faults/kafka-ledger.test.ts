// Replicas of the ledger come and go, on real Kafka: nothing is counted twice, and nothing is forgotten.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { ledgerReplicas } from './ledger-replicas.ts'

const present = (await brokerSource('replicas of the ledger, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('the ledger, on Kafka', { timeout: 180_000 }, () => {
  let server: KafkaServer

  beforeAll(async () => {
    server = await startKafka()
  })
  afterAll(() => server?.stop())

  test('says the same in the end while replicas join, leave and are killed', async () => {
    const brokers = server.bootstrap
    await ledgerReplicas({
      brokerUrl: `kafka://${brokers.join()}`,
      connect: () => connectKafka({ brokers }),
    })
    expect.hasAssertions()
  })
})
