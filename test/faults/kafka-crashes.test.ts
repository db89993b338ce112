// kill -9 of one graphmill process after the other in mid-work on real Kafka, each started again at once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type Outcome, type Site, undisturbed } from './execution.ts'
import { crashAndRestart } from './scenarios.ts'
import { secondAnswer } from './second-answer.ts'

const present = (await brokerSource('crashes, on Kafka', ['jars'])) !== undefined

// The group waits for a member that is gone until its session is over, 45 s: side by side, that is waited for once.
describe.skipIf(!present).concurrent('crashes, on Kafka', { timeout: 300_000 }, () => {
  let server: KafkaServer
  let site: Site
  let expected: Outcome

  beforeAll(async () => {
    server = await startKafka()
    site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    await using llm = await startLlmServer()
    expected = await undisturbed(llm.url)
  })
  afterAll(() => server?.stop())

  test.each(['extract-definitions', 'prompt', 'emit-triples', 'store-triples'])(
    'kill -9 of %s in mid-work loses nothing',
    async (victim) => {
      await crashAndRestart(site, { victim, expected })
      expect.hasAssertions()
    },
  )

  test('a model that answers differently after a crash: nothing of either answer is lost, one is counted', async () => {
    await secondAnswer(site)
    expect.hasAssertions()
  })
})
