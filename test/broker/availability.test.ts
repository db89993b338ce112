import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { createAvailability } from '../../src/broker/availability.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { connectPulsarWebSocket } from '../../src/broker/pulsar/pulsar.ts'
import { GraphmillError } from '../../src/errors.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type PulsarServer, startPulsar } from '../support/pulsar-server.ts'
import { createHarness } from './suite/harness.ts'

const error = new GraphmillError('broker_unavailable', 'nobody is there')

/** Records what is logged and what is reported. */
function createNotes() {
  const logged: [level: string, fields: object, phrase: string][] = []
  const reported: (string | undefined)[] = []
  const note = (level: string) => (fields: object, phrase: string) => {
    if (level !== 'debug') logged.push([level, fields, phrase])
  }
  return {
    logged,
    reported,
    log: { debug: note('debug'), info: note('info'), warn: note('warn') },
    onAvailability: (reason: GraphmillError | undefined) => void reported.push(reason?.code),
  }
}

describe('a broker object', () => {
  test('reports once that its broker is unavailable, with the error, and once that it is available again', () => {
    const { log, logged, reported, onAvailability } = createNotes()
    const availability = createAvailability(log, onAvailability)
    for (let count = 0; count < 3; count++) expect(availability.unavailable(error)).toBe(true)
    for (let count = 0; count < 3; count++) availability.available()
    expect(reported).toEqual(['broker_unavailable', undefined])
    expect(logged).toEqual([
      ['warn', { err: error }, 'the broker is unavailable'],
      ['info', {}, 'the broker is available again'],
    ])
  })

  test('says nothing of one consumer that is cut off while another has just heard from the broker', () => {
    let now = 0
    const { log, reported, onAvailability } = createNotes()
    const availability = createAvailability(log, onAvailability, () => now)
    availability.available()
    now = 1999
    availability.unavailable(error)
    expect(reported).toEqual([])
    now = 2000
    availability.unavailable(error)
    expect(reported).toEqual(['broker_unavailable'])
  })

  test('says nothing while a connection is open, and for a moment after it was lost', async () => {
    let now = 0
    const { log, reported, onAvailability } = createNotes()
    const availability = createAvailability(log, onAvailability, () => now)
    const closed = Promise.withResolvers<void>()
    availability.connected(closed.promise)
    now = 60_000
    expect(availability.unavailable(error)).toBe(false)
    closed.resolve()
    await closed.promise
    expect(availability.unavailable(error)).toBe(true)
    expect(reported).toEqual([])
    now += 2000
    availability.unavailable(error)
    expect(reported).toEqual(['broker_unavailable'])
  })
})

const present = (await brokerSource('a Kafka that becomes unavailable', ['jars'])) !== undefined

describe.skipIf(!present)('on Kafka', { timeout: 120_000 }, () => {
  const harness = createHarness()
  let server: KafkaServer
  afterEach(async () => {
    await harness.closeClients()
    await server?.stop()
  })

  test.each(['idle', 'with as many messages in flight as they may have'])(
    'two consumers, %s, report once that it is unavailable, and once that it is available again',
    async (how) => {
      server = await startKafka()
      const { log, logged, reported, onAvailability } = createNotes()
      const connect = () => connectKafka({ brokers: server.bootstrap, log, onAvailability })
      harness.start({ connect, stop: async () => {}, patienceMs: 30_000 })
      const client = await harness.client()
      const topic = await harness.topic(client, { partitions: 2 })
      const members = ['one', 'other'].map((name) =>
        harness.join(client, { topic, group: harness.fresh(name), maxInFlight: 1 }, async () => {}),
      )
      const publish = () =>
        client.publish({ topic, key: 'k', value: new TextEncoder().encode('text'), headers: {} })
      if (how !== 'idle') await Promise.all([publish(), publish()])
      const inFlight = how === 'idle' ? 0 : 1
      await harness.eventually('they have it in flight', () =>
        members.every(({ deliveries }) => deliveries.length === inFlight),
      )
      // Longer than the silence after which a consumer asks: a broker that is available is not reported.
      await wait(6000)
      expect(reported).toEqual([])

      await server.shutDown(0)
      await harness.eventually('it is reported as unavailable', () => reported.length > 0)
      await wait(3000)
      expect(reported).toEqual(['broker_unavailable'])
      await server.restart(0)
      await harness.eventually('it is reported as available again', () => reported.length > 1)
      await wait(3000)
      expect(reported).toEqual(['broker_unavailable', undefined])
      // A consumer may have to begin again several times while its coordinator loads, and say so.
      expect(logged.filter(([, , phrase]) => phrase.startsWith('the broker'))).toEqual([
        [
          'warn',
          { err: expect.objectContaining({ code: 'broker_unavailable' }) },
          'the broker is unavailable',
        ],
        ['info', {}, 'the broker is available again'],
      ])
    },
  )
})

describe.skipIf(!present)('on Pulsar', { timeout: 180_000 }, () => {
  const harness = createHarness()
  let server: PulsarServer
  afterEach(async () => {
    await harness.closeClients()
    await server?.stop()
  })

  test('two consumers report once that it is unavailable, and once that it is available again', async () => {
    server = await startPulsar()
    const { log, logged, reported, onAvailability } = createNotes()
    const connect = () => connectPulsarWebSocket({ url: server.url, log, onAvailability })
    harness.start({ connect, stop: async () => {}, patienceMs: 60_000 })
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 2 })
    const members = ['one', 'other'].map((name) =>
      harness.join(client, { topic, group: harness.fresh(name) }),
    )
    await client.publish({ topic, key: 'k', value: new TextEncoder().encode('text'), headers: {} })
    await harness.eventually('both are there', () => members.every(({ texts }) => texts.length === 1))
    await server.kill()
    await harness.eventually('it is reported as unavailable', () => reported.length > 0)
    await server.restart()
    await harness.eventually('it is reported as available again', () => reported.length > 1)
    expect(reported).toEqual(['broker_unavailable', undefined])
    expect(logged.map(([, , phrase]) => phrase).filter((phrase) => phrase.startsWith('the broker'))).toEqual([
      'the broker is unavailable',
      'the broker is available again',
    ])
  })
})
