// Limits that replicas share, on real Kafka.
import { afterAll, beforeAll, describe, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { sharedBudget, sharedRate } from './shared-limits.ts'

const present = (await brokerSource('limits that replicas share, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present).concurrent('limits that replicas share, on Kafka', { timeout: 180_000 }, () => {
  let server: KafkaServer
  beforeAll(async () => {
    server = await startKafka()
  })
  afterAll(() => server?.stop())
  const broker = () => `kafka://${server.bootstrap.join()}`

  test('hold in every minute while one joins, one stops and one is killed', () => sharedRate(broker()))
  test('a budget is passed by calls in flight only, and goes on when it is raised', () =>
    sharedBudget(broker()))
})
