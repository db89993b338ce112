// Brokers of a real Kafka die and stay away in mid-run: nothing is lost.
import { setTimeout as delay } from 'node:timers/promises'
import kafkajs from 'kafkajs'
import { beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type Execution, type Outcome, openExecution, undisturbed, units } from './execution.ts'
import { expectAll } from './expect-all.ts'
import { someTriples } from './scenarios.ts'

const present = (await brokerSource('faults of the brokers, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present).concurrent('faults of the brokers, on Kafka', { timeout: 300_000 }, () => {
  let expected: Outcome

  beforeAll(async () => {
    await using llm = await startLlmServer()
    expected = await undisturbed(llm.url)
  })

  test('SIGKILL of the leader of a partition, among three brokers', async () => {
    await disturb(3, async (server, execution) => {
      const leader = await leaderOf(server, execution.topic('prompt'))
      await server.kill(leader)
    })
    expect.hasAssertions()
  })

  test('the only broker is stopped for 30 s', async () => {
    await disturb(1, async (server) => {
      await server.shutDown(0)
      await delay(30_000)
      await server.restart(0)
    })
    expect.hasAssertions()
  })

  async function disturb(
    brokers: 1 | 3,
    fault: (server: KafkaServer, execution: Execution) => Promise<void>,
  ): Promise<void> {
    const server = await startKafka({ brokers })
    try {
      const site = {
        brokerUrl: `kafka://${server.bootstrap.join()}`,
        connect: () => connectKafka({ brokers: server.bootstrap }),
      }
      await using llm = await startLlmServer({ latencyMs: 500 })
      const execution = await openExecution(site, { space: `brokers-${brokers}`, llmUrl: llm.url })
      await execution.startRuntime()
      await execution.load()
      await execution.until(({ units }) => units.done >= 100)
      await someTriples(execution)
      expect((await execution.until(() => true)).units.done).toBeLessThan(units)
      await fault(server, execution)
      await execution.until(({ state }) => state === 'done')
      await expectAll(execution, expected)
      await execution.close()
    } finally {
      await server.stop()
    }
  }
})

/** The index of the broker that leads partition 0 of a topic. */
async function leaderOf(server: KafkaServer, topic: string): Promise<number> {
  const kafka = new kafkajs.Kafka({ brokers: [...server.bootstrap], logLevel: kafkajs.logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  await admin.disconnect()
  const first = topics[0]?.partitions.find(({ partitionId }) => partitionId === 0)
  // Brokers are numbered from 1.
  return (first?.leader ?? 1) - 1
}
