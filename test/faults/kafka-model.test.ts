// The model stays away, on real Kafka; and an execution that nothing disturbs, to compare with.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type Outcome, type Site, undisturbed } from './execution.ts'
import { calm, modelAway } from './scenarios.ts'

const present = (await brokerSource('faults of the model, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present).concurrent('faults of the model, on Kafka', { timeout: 120_000 }, () => {
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

  test('an execution that nothing disturbs gives the triples that the memory broker gave', async () => {
    await calm(site, expected)
    expect.hasAssertions()
  })

  test('the model is unavailable for 15 s during work: nothing is lost', async () => {
    await modelAway(site, expected)
    expect.hasAssertions()
  })
})
