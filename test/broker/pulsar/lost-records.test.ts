// Messages that a real Pulsar expired before a group had read them.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Delivery, LostRange } from '../../../src/broker/broker.ts'
import { connectPulsarBinary, connectPulsarWebSocket } from '../../../src/broker/pulsar/pulsar.ts'
import { brokerSource } from '../../support/brokers.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'
import { type PulsarServer, startPulsar } from '../../support/pulsar-server.ts'
import { createHarness, publishTexts } from '../suite/harness.ts'

const source = await brokerSource('messages that Pulsar expired', ['jars'])

const ways = ['WebSocket', ...(nativePulsar('messages that Pulsar expired') ? ['binary'] : [])]

describe.skipIf(!source).each(ways)('Messages that Pulsar expired (%s)', { timeout: 120_000 }, (way) => {
  const harness = createHarness()
  let server: PulsarServer

  beforeAll(async () => {
    server = await startPulsar()
    const { url, binaryUrl, adminUrl } = server
    const connect = () =>
      way === 'binary'
        ? connectPulsarBinary({ url: binaryUrl, adminUrl, pingIntervalMs: 500 })
        : connectPulsarWebSocket({ url, pingIntervalMs: 500 })
    harness.start({ connect, stop: async () => {}, patienceMs: 60_000 })
  }, 120_000)
  afterEach(() => harness.closeClients())
  afterAll(() => server?.stop())

  const admin = (method: string, path: string) =>
    fetch(`${server.url.replace(/^ws/, 'http')}/admin/v2/persistent/public/default/${path}`, { method })
  /** Expires all that is older than a second, when something is. */
  const expire = (topic: string, group: string) =>
    harness.eventually('messages are old enough to expire', async () => {
      await admin('POST', `${topic}-partition-0/subscription/${group}/expireMessages/1`)
      const answer = await admin('GET', `${topic}-partition-0/stats`)
      const stats = (await answer.json()) as { subscriptions: Record<string, { totalMsgExpired: number }> }
      return stats.subscriptions[group]!.totalMsgExpired > 0
    })
  const noting = (lost: LostRange[]) => async (range: LostRange) => void lost.push(range)

  test('while a group had no member are reported once, by one member', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const group = harness.fresh('group')
    const early = harness.join(client, { topic, group })
    await publishTexts(client, topic, 5)
    await harness.eventually('five are settled', () => early.texts.length === 5)
    await client.close()
    const other = await harness.client()
    await publishTexts(other, topic, 7)
    await expire(topic, group)

    const lost: LostRange[] = []
    const clients = await Promise.all([0, 1].map(() => harness.client()))
    for (const each of clients) harness.join(each, { topic, group, onLost: noting(lost) })
    await harness.eventually('they are reported', () => lost.length > 0)
    expect(lost[0]).toMatchObject({ topic, partition: 0, first: undefined, count: 7 })
    expect(lost[0]!.before).toBeLessThanOrEqual(Date.now())
    await Promise.all(clients.map((each) => each.close()))

    const later = await harness.client()
    const member = harness.join(later, { topic, group, onLost: noting(lost) })
    await publishTexts(other, topic, 1)
    await harness.eventually('it goes on', () => member.texts.length === 1)
    expect(lost).toHaveLength(1)
  })

  test('while a member is behind are reported; again when the first report failed, and then the new ones alone', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const group = harness.fresh('group')
    const held: Delivery[] = []
    const lost: LostRange[] = []
    const onLost = async (range: LostRange) => {
      lost.push(range)
      if (lost.length === 1) throw new Error('not now')
    }
    harness.join(
      client,
      { topic, group, maxInFlight: 1, onLost },
      async (delivery) => void held.push(delivery),
    )
    await publishTexts(client, topic, 6)
    await harness.eventually('one is in flight', () => held.length === 1)
    await expire(topic, group)
    await harness.eventually('they are reported twice', () => lost.length === 2)
    // The second has all of the first, and what Pulsar expired meanwhile.
    const [failed, again] = lost
    expect(again).toMatchObject({ topic: failed!.topic, partition: 0, first: undefined })
    expect(again!.count).toBeGreaterThanOrEqual(failed!.count!)
    const before = again!.count!
    // Also the one in flight: Pulsar has settled it.
    await harness.eventually(
      'all have expired',
      () => lost.slice(1).reduce((sum, { count = 0 }) => sum + count, 0) >= 5,
    )
    await publishTexts(client, topic, 3)
    await harness.eventually('more expire', async () => {
      await admin('POST', `${topic}-partition-0/subscription/${group}/expireMessages/1`)
      return lost.slice(1).reduce((sum, { count = 0 }) => sum + count, 0) >= before + 2
    })
  })
})
