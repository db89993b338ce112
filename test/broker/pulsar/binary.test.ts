// What only the binary protocol has: no admin API, non-persistent topics of others, and a client that is closed in any state.
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Broker, Delivery } from '../../../src/broker/broker.ts'
import { connectPulsarBinary, findProtocols } from '../../../src/broker/pulsar/pulsar.ts'
import { brokerSource } from '../../support/brokers.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'
import { type PulsarServer, startPulsar } from '../../support/pulsar-server.ts'

const present = nativePulsar('Pulsar binary') && (await brokerSource('Pulsar binary', ['jars'])) !== undefined
const eventually = (assertion: () => void | Promise<void>) =>
  vi.waitFor(assertion, { timeout: 30_000, interval: 20 })

describe.runIf(present)('Pulsar over its binary protocol', { timeout: 60_000 }, () => {
  let server: PulsarServer
  let brokers: Broker[] = []
  let topics = 0
  const { signal } = new AbortController()

  const connect = async (adminUrl: string | undefined = server.adminUrl) => {
    const broker = await connectPulsarBinary({ url: server.binaryUrl, adminUrl })
    brokers.push(broker)
    return broker
  }
  /** Nothing answers at port 8080, the default of the admin API, of this machine. */
  const connectWithoutAdmin = async () => {
    const broker = await connectPulsarBinary({ url: server.binaryUrl })
    brokers.push(broker)
    return broker
  }
  const message = (topic: string, text: string) => ({
    topic,
    key: text,
    value: Buffer.from(text),
    headers: {},
  })
  const subscription = (topic: string) =>
    ({ group: 'g', topic, maxInFlight: 50, from: 'earliest', ordering: 'none' }) as const
  const join = (broker: Broker, topic: string) => {
    const seen: Delivery[] = []
    const stop = new AbortController()
    const ended = (async () => {
      for await (const delivery of broker.consume(subscription(topic), stop.signal)) seen.push(delivery)
    })()
    ended.catch(() => {}) // handled where one awaits `ended`
    return { seen, stop, ended }
  }
  const fresh = async (partitions = 3) => {
    const topic = `binary-${++topics}`
    await (await connect()).ensureTopics([{ name: topic, partitions }])
    return topic
  }
  const read = async (broker: Broker, range: Parameters<Broker['read']>[0]) => {
    const found: string[] = []
    for await (const { value } of broker.read(range, signal)) found.push(Buffer.from(value).toString())
    return found.sort()
  }

  beforeAll(async () => {
    server = await startPulsar()
  }, 200_000)
  afterEach(async () => {
    await Promise.all(brokers.map((broker) => broker.close()))
    brokers = []
  })
  afterAll(() => server?.stop(), 60_000)

  test('without the admin API, topics are used as they are, and all missing ones are named', async () => {
    const [there, absent] = [await fresh(), ['zulu', 'alpha']]
    const broker = await connectWithoutAdmin()
    await broker.ensureTopics([{ name: there, partitions: 3 }])
    const wanted = [there, ...absent].map((name) => ({ name, partitions: 3 }))
    await expect(broker.ensureTopics(wanted)).rejects.toMatchObject({
      code: 'topic_missing',
      message: expect.stringMatching(/alpha, zulu.*--pulsar-admin/),
    })
    expect(await Promise.all([there, 'alpha'].map((name) => broker.hasTopic(name)))).toEqual([true, false])
    await broker.publish(message(there, 'a'))
    await expect(broker.publish(message('alpha', 'a'))).rejects.toMatchObject({ code: 'topic_missing' })
    await expect(join(broker, 'alpha').ended).rejects.toMatchObject({ code: 'topic_missing' })
    const member = join(broker, there)
    await eventually(() => expect(member.seen).toHaveLength(1))
    await expect(broker.lag('g', there)).rejects.toMatchObject({ code: 'broker_refused' })
  })

  test('without the admin API, a group gets its place at the end, and only the first time', async () => {
    const topic = await fresh()
    const [broker, other] = [await connectWithoutAdmin(), await connectWithoutAdmin()]
    await broker.publish(message(topic, 'early'))
    const start = { ...subscription(topic), from: 'latest' } as const
    await broker.ensureGroups([start, { ...start, topic: 'alpha' }])
    await broker.publish(message(topic, 'next'))
    await other.ensureGroups([start])
    const member = join(broker, topic)
    await broker.publish(message(topic, 'last'))
    await eventually(() => expect(member.seen.length).toBeGreaterThanOrEqual(2))
    expect(member.seen.map(({ key }) => key).sort()).toEqual(['last', 'next'])
  })

  test('without the admin API, a topic is read to its end', async () => {
    const topic = await fresh()
    const broker = await connectWithoutAdmin()
    expect(await read(broker, { topic, from: 'earliest', until: 'end' })).toEqual([])
    const texts = Array.from({ length: 300 }, (_, n) => `m${n}`)
    await Promise.all(texts.map((text) => broker.publish(message(topic, text))))
    expect(await read(broker, { topic, from: 'earliest', until: 'end' })).toEqual(texts.sort())
    expect(await read(broker, { topic, from: 'latest', until: 'end' })).toEqual([])
  })

  test('an address of the admin API that is given must answer', async () => {
    await expect(connect('http://127.0.0.1:9')).rejects.toMatchObject({ code: 'broker_unavailable' })
  })

  test('a non-persistent topic of others is consumed and produced to', async () => {
    const topic = `non-persistent://public/default/other-${++topics}`
    await fetch(`${server.adminUrl}/admin/v2/${topic.replace('://', '/')}`, { method: 'PUT' })
    for (const broker of [await connect(), await connectWithoutAdmin()]) {
      const member = join(broker, topic)
      await eventually(async () => {
        await broker.publish(message(topic, 'm')) // what nobody consumes at that moment is lost
        expect(member.seen.length).toBeGreaterThan(0)
      })
      expect(member.seen[0]).toMatchObject({ topic, key: 'm' })
      await Promise.all(member.seen.map((delivery) => delivery.ack()))
    }
  })

  test('a reader that is opened while messages come gets all of them, in order', async () => {
    const broker = await connect()
    for (let round = 0; round < 8; round++) {
      const topic = await fresh(1)
      const publish = (n: number) =>
        broker.publish({ topic, key: 'k', value: Buffer.from(`${n}`), headers: {} })
      for (let n = 0; n < 10; n++) await publish(n)
      let isReading = true
      const publishing = (async () => {
        for (let n = 10; isReading; n++) await publish(n)
      })()
      for (const until of ['end', 'never'] as const) {
        const found: number[] = []
        for await (const { value } of broker.read({ topic, from: 'earliest', until }, signal)) {
          found.push(Number(Buffer.from(value).toString()))
          if (until === 'never' && found.length === 60) break
        }
        expect(found.length).toBeGreaterThanOrEqual(10)
        expect(found).toEqual(found.map((_, n) => n))
      }
      isReading = false
      await publishing
    }
  })

  test('closing ends at once in every state: while opening, in flight, waiting, publishing and reading', async () => {
    const topic = await fresh()
    const filler = await connect()
    await Promise.all(Array.from({ length: 200 }, (_, n) => filler.publish(message(topic, `m${n}`))))
    for (const waits of [0, 5, 20, 60, 150, 400]) {
      const broker = await connect()
      const member = join(broker, topic)
      const reading = broker.read({ topic, from: 'earliest', until: 'never' }, signal)[Symbol.asyncIterator]()
      const next = reading.next()
      const published = broker.publish(message(topic, 'late')).catch((error: { code: string }) => error.code)
      await new Promise((resolve) => setTimeout(resolve, waits)) // each is another state
      await broker.close()
      await Promise.all([member.ended, next])
      expect([undefined, 'broker_unavailable']).toContain(await published)
      for (const delivery of member.seen) expect(delivery.signal.aborted).toBe(true)
    }
  })

  test('what may be used is found: the module, and the WebSocket service of the server', async () => {
    const { adminUrl, binaryUrl: url } = server
    const found = { withoutNative: undefined, withoutWebSocket: undefined }
    expect(await findProtocols({ url, adminUrl })).toMatchObject(found)
    const nowhere = await findProtocols({ url, adminUrl: 'http://127.0.0.1:9' })
    expect(nowhere).toMatchObject({ withoutNative: undefined, withoutWebSocket: expect.any(String) })
  })
})
