// A Kafka that is stopped in mid-work and started again: nobody waits for members whose sessions ended meanwhile.
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createClient, impatient, kafkaSettings } from '../../../src/broker/kafka/client.ts'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import { createLookup } from '../../../src/broker/kafka/lookup.ts'
import { KafkaSession } from '../../../src/broker/kafka/session.ts'
import { InFlightWindow } from '../../../src/broker/window/in-flight-window.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { createHarness, publishTexts } from '../suite/harness.ts'

const present = (await brokerSource('members that follow others, on Kafka', ['jars'])) !== undefined

/** Less than the session timeout of 45 s, for which the coordinator waits for a member that says nothing. */
const soon = { timeout: 20_000, interval: 50 }

describe.skipIf(!present)('on Kafka', { timeout: 120_000 }, () => {
  const harness = createHarness()
  let server: KafkaServer

  beforeAll(async () => {
    server = await startKafka()
    const connect = () => connectKafka({ brokers: server.bootstrap })
    harness.start({ connect, stop: async () => {}, patienceMs: 30_000 })
  })
  afterAll(async () => {
    await harness.closeClients()
    await server?.stop()
  })

  test('a session joins soon after the one before has crashed', async () => {
    const topic = await harness.topic(await harness.client())
    const settings = kafkaSettings({ brokers: server.bootstrap })
    const client = createClient(settings, impatient)
    const crashed = client.kafka.consumer({ groupId: 'followed', sessionTimeout: 45_000 })
    const joined = new Promise<string>((resolve) =>
      crashed.on(crashed.events.GROUP_JOIN, ({ payload }) => resolve(payload.memberId)),
    )
    await crashed.connect()
    await crashed.subscribe({ topics: [topic] })
    await crashed.run({ eachMessage: async () => {} })
    const before = { memberId: await joined, generation: 1 }
    client.abandon()

    const subscription = {
      topic,
      group: 'followed',
      from: 'earliest',
      maxInFlight: 1,
      ordering: 'none',
    } as const
    const window = new InFlightWindow(subscription, { changed() {} })
    const lookup = createLookup(settings)
    const session = new KafkaSession(settings, subscription, { window, lookup, before })
    expect(session.membership).toEqual(before)
    await expect.poll(() => session.membership?.generation, soon).toBeGreaterThan(1)
    expect(session.membership?.memberId).not.toBe(before.memberId)
    await session.close()
    lookup.close()
  })

  test('a member whose session timeout is refused takes the one of Kafka, says so once, and is given messages', async () => {
    const publisher = await harness.client()
    const topic = await harness.topic(publisher)
    const published = await publishTexts(publisher, topic, 2)
    const said: Record<string, unknown>[] = []
    const log = { debug() {}, warn: (fields: object) => void said.push({ ...fields }) }
    // The cluster allows 1 s and more.
    const broker = await connectKafka({ brokers: server.bootstrap, sessionTimeoutMs: 500, log })
    const { texts } = harness.join(broker, { topic })
    await expect.poll(() => texts.toSorted(), soon).toEqual(published)
    expect(said.filter(({ refusedMs }) => refusedMs === 500)).toMatchObject([{ sessionTimeoutMs: 45_000 }])
    await broker.close()
  })

  test('every member is given messages soon after the broker is back', async () => {
    const publisher = await harness.client()
    const members: { readonly topic: string; readonly texts: readonly string[] }[] = []
    for (let group = 0; group < 3; group++) {
      const topic = await harness.topic(publisher, { partitions: 4 })
      const subscription = { topic, group: harness.fresh('group'), maxInFlight: 4 }
      for (let count = 0; count < 2; count++)
        members.push({ topic, ...harness.join(await harness.client(), subscription) })
    }
    const everyMemberHasMore = async () => {
      const before = members.map(({ texts }) => texts.length)
      await expect
        .poll(async () => {
          for (const topic of new Set(members.map((member) => member.topic)))
            await publishTexts(publisher, topic, 8)
          return members.every(({ texts }, index) => texts.length > before[index]!)
        }, soon)
        .toBe(true)
    }
    await everyMemberHasMore()
    await server.shutDown(0)
    await wait(12_000)
    await server.restart(0)
    await everyMemberHasMore()
  })
})
