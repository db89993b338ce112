// The Pulsar broker on servers and networks that fail or ask for credentials, and with what others made and wrote.
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import WebSocket from 'ws'
import type { Broker, Delivery, Subscription } from '../../../src/broker/broker.ts'
import type { PulsarOptions } from '../../../src/broker/pulsar/endpoint.ts'
import { connectPulsarBinary, connectPulsarWebSocket } from '../../../src/broker/pulsar/pulsar.ts'
import { brokerSource } from '../../support/brokers.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'
import { type PulsarServer, type PulsarServerOptions, startPulsar } from '../../support/pulsar-server.ts'
import { startTcpRelay, type TcpRelay } from '../../support/tcp-relay.ts'

const patience = 60_000
const eventually = (assertion: () => void | Promise<void>, timeout = patience) =>
  vi.waitFor(assertion, { timeout, interval: 20 })

let brokers: Broker[] = []
let relays: TcpRelay[] = []
let topics = 0

afterEach(async () => {
  await Promise.all(brokers.map((broker) => broker.close()))
  await Promise.all(relays.map((relay) => relay.stop()))
  brokers = []
  relays = []
})

async function connect(url: string, options: Partial<PulsarOptions> = {}): Promise<Broker> {
  const broker = await connectPulsarWebSocket({ url, ...options })
  brokers.push(broker)
  return broker
}

/** One of the two protocols. */
interface Way {
  readonly name: string
  readonly connect: (server: PulsarServer, options?: Partial<PulsarOptions>) => Promise<Broker>
  /** A broker that reaches the server through a relay. */
  readonly throughRelay: (
    server: PulsarServer,
    options?: Partial<PulsarOptions>,
  ) => Promise<{ readonly relay: TcpRelay; readonly broker: Broker }>
  /** What the server needs for `throughRelay`. */
  readonly serverOptions: () => PulsarServerOptions
  /** How long a silent connection may go unnoticed. */
  readonly silenceMs: number
}

const webSocket: Way = {
  name: 'over WebSockets',
  connect: ({ url }, options) => connect(url, options),
  async throughRelay({ url }, options) {
    const relay = await startTcpRelay(Number(new URL(url).port))
    relays.push(relay)
    return { relay, broker: await connect(`ws://127.0.0.1:${relay.port}`, options) }
  },
  serverOptions: () => ({}),
  silenceMs: patience,
}

function binaryWay(): Way {
  let relay: TcpRelay | undefined
  const open: Way['connect'] = async ({ binaryUrl, adminUrl }, options) => {
    const broker = await connectPulsarBinary({ ...options, url: binaryUrl, adminUrl })
    brokers.push(broker)
    return broker
  }
  return {
    name: 'over the binary protocol',
    connect: open,
    throughRelay: async (server, options) => ({ relay: relay!, broker: await open(server, options) }),
    // The server names its own address to clients: that of the relay.
    serverOptions: () => ({
      async advertise(brokerPort) {
        relay = await startTcpRelay(brokerPort)
        return relay.port
      },
    }),
    // The native client notices it by itself, after 30 to 60 s.
    silenceMs: 150_000,
  }
}

const ways = [webSocket, ...(nativePulsar('Pulsar faults over the binary protocol') ? [binaryWay()] : [])]

async function freshTopic(broker: Broker, partitions = 3): Promise<string> {
  const name = `faults.topic-${++topics}`
  await broker.ensureTopics([{ name, partitions }])
  return name
}

const message = (topic: string, text: string) => ({
  topic,
  key: text,
  value: new TextEncoder().encode(text),
  headers: {},
})
const textOf = ({ value }: { readonly value: Uint8Array }) => new TextDecoder().decode(value)
const texts = (count: number, name = 'm') => Array.from({ length: count }, (_, index) => `${name}${index}`)
const publishAll = (broker: Broker, topic: string, all: readonly string[]) =>
  Promise.all(all.map((text) => broker.publish(message(topic, text))))

async function readAll(broker: Broker, topic: string): Promise<string[]> {
  const found: string[] = []
  const range = { topic, from: 'earliest', until: 'end' } as const
  for await (const one of broker.read(range, new AbortController().signal)) found.push(textOf(one))
  return found
}

/** Joins a group in the background; `act` is not waited for. */
function joinGroup(
  broker: Broker,
  topic: string,
  act: (delivery: Delivery) => unknown,
  more: Partial<Subscription> = {},
) {
  const subscription = {
    group: 'group',
    topic,
    maxInFlight: 20,
    from: 'earliest',
    ordering: 'none',
    ...more,
  } as const
  const seen: string[] = []
  const stop = new AbortController()
  const ended = (async () => {
    for await (const delivery of broker.consume(subscription, stop.signal)) {
      seen.push(textOf(delivery))
      void act(delivery)
    }
  })()
  ended.catch(() => {}) // handled where one awaits `ended`
  return { seen, stop, ended }
}

const distinct = (list: readonly string[]) => [...new Set(list)].sort()

/** A broker that was let in by a server of which nothing is left. */
async function connectToGone(options: Partial<PulsarOptions>): Promise<Broker> {
  const server = createServer((_, response) => response.end('[]')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const broker = await connect(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, options)
  await server[Symbol.asyncDispose]()
  return broker
}

test('a message for a server that stays unavailable rejects after its time', async () => {
  const broker = await connectToGone({ publishTimeoutMs: 200 })
  const results = await Promise.allSettled([
    broker.publish(message('a', '1')),
    broker.publish(message('b', '2')),
  ])
  for (const result of results) {
    expect(result).toMatchObject({ status: 'rejected', reason: { code: 'broker_unavailable' } })
  }
  const away = { code: 'broker_unavailable' }
  await expect(broker.ensureTopics([{ name: 'a', partitions: 1 }])).rejects.toMatchObject(away)
  await expect(broker.lag('group', 'a')).rejects.toMatchObject(away)
})

test('a member whose server is unavailable waits for it, and can leave', async () => {
  const warnings: string[] = []
  const warn = (_: object, phrase: string) => void warnings.push(phrase)
  const log = { debug: warn, warn }
  const member = joinGroup(await connectToGone({ log }), 'a', () => {})
  await eventually(() => expect(warnings.length).toBeGreaterThan(1))
  member.stop.abort()
  await member.ended
})

describe.runIf((await brokerSource('Pulsar faults', ['jars'])) !== undefined).each(ways)(
  'with a real server, $name',
  (way) => {
    let server: PulsarServer

    beforeAll(async () => {
      // a server that closes silent sockets soon
      server = await startPulsar({
        ...way.serverOptions(),
        settings: { webSocketSessionIdleTimeoutMillis: 1_500 },
      })
    }, 180_000)
    afterAll(() => server.stop(), 60_000)

    test('a socket that is lost in mid-consumption is opened again, and nothing is lost', async () => {
      const { relay, broker } = await way.throughRelay(server)
      const topic = await freshTopic(broker)
      const all = texts(300)
      await publishAll(broker, topic, all)
      const lost: Delivery[] = []
      const acked = new Set<string>()
      let hold = false
      const member = joinGroup(broker, topic, async (delivery) => {
        if (hold) return lost.push(delivery)
        acked.add(textOf(delivery))
        await delivery.ack()
      })
      await eventually(() => expect(acked.size).toBeGreaterThan(20))
      hold = true
      await eventually(() => expect(lost.length).toBe(20))
      relay.drop()
      await eventually(() => expect(lost.every((delivery) => delivery.signal.aborted)).toBe(true))
      hold = false
      for (const delivery of lost.slice(0, 20)) await delivery.ack()
      for (const delivery of lost.slice(0, 20)) await delivery.retryLater(0)
      await eventually(() => expect(acked.size + lost.length).toBeGreaterThanOrEqual(300))
      await eventually(async () => {
        const again = lost.slice(20)
        await Promise.all(again.map((delivery) => delivery.ack()))
        expect((await broker.lag('group', topic)).total).toBe(0)
      })
      expect(distinct(member.seen)).toEqual(distinct(all))
    })

    test('a publish that follows a refusal at once is not overlooked', async () => {
      const broker = await way.connect(server)
      const topic = `faults.topic-${++topics}`
      const again = broker.publish(message(topic, '1')).catch(() => broker.publish(message(topic, '2')))
      await expect(again).rejects.toMatchObject({ code: 'topic_missing' })
    })

    test('what a lost socket left unanswered is sent again', async () => {
      const { relay, broker } = await way.throughRelay(server)
      const topic = await freshTopic(broker)
      await broker.publish(message(topic, 'first'))
      const all = texts(2_000)
      const published = publishAll(broker, topic, all)
      relay.drop()
      await published
      expect(distinct(await readAll(broker, topic))).toEqual(distinct(['first', ...all]))
    })

    test('a connection that has gone silent is dropped, and the member comes back', async () => {
      const { relay, broker } = await way.throughRelay(server, { pingIntervalMs: 200 })
      const topic = await freshTopic(broker)
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await broker.publish(message(topic, 'before'))
      await eventually(() => expect(member.seen).toEqual(['before']))
      relay.freeze()
      const direct = await way.connect(server)
      await direct.publish(message(topic, 'after'))
      await eventually(() => expect(member.seen).toContain('after'), way.silenceMs)
    }, 200_000)

    test('pings keep a socket on which nothing happens', async () => {
      const warnings: string[] = []
      // What the native client logs is not ours.
      const warn = (_: object, phrase: string) => {
        if (!phrase.startsWith('pulsar-client: ')) warnings.push(phrase)
      }
      const log = { debug: warn, warn }
      const broker = await way.connect(server, { pingIntervalMs: 400, log })
      const topic = await freshTopic(broker)
      const inFlight: Delivery[] = []
      joinGroup(broker, topic, (delivery) => inFlight.push(delivery))
      await broker.publish(message(topic, 'm'))
      await eventually(() => expect(inFlight).toHaveLength(1))
      // a socket without pings shows when the server has lost its patience
      const path = `/ws/v2/consumer/persistent/public/default/${topic}/other?pullMode=true`
      const silent = new WebSocket(server.url + path, { autoPong: false })
      await new Promise((resolve) => silent.once('close', resolve))
      expect(inFlight[0]?.signal.aborted).toBe(false)
      expect(warnings).toEqual([])
      await inFlight[0]?.ack()
      await eventually(async () => expect((await broker.lag('group', topic)).total).toBe(0))
    })

    test('a member whose topic was deleted ends with topic_missing', async () => {
      const broker = await way.connect(server, { pingIntervalMs: 200 })
      const topic = await freshTopic(broker)
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await broker.publish(message(topic, 'm'))
      await eventually(() => expect(member.seen).toEqual(['m']))
      await broker.deleteTopics([topic])
      await expect(member.ended).rejects.toMatchObject({ code: 'topic_missing' })
    })

    test('a member and a reader of a topic that was deleted end within seconds', async () => {
      const broker = await way.connect(server)
      const topic = await freshTopic(broker)
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      const range = { topic, from: 'earliest', until: 'never' } as const
      const reader = broker.read(range, new AbortController().signal)[Symbol.asyncIterator]()
      await broker.publish(message(topic, 'm'))
      await eventually(() => expect(member.seen).toEqual(['m']))
      await reader.next()
      const reading = reader.next()
      reading.catch(() => {}) // expected below
      const begun = performance.now()
      await broker.deleteTopics([topic])
      await expect(member.ended).rejects.toMatchObject({ code: 'topic_missing' })
      await expect(reading).rejects.toMatchObject({ code: 'topic_missing' })
      expect(performance.now() - begun).toBeLessThan(25_000)
    })

    test('hundreds of missing topics are refused each, and leave nothing open', {
      timeout: 180_000,
    }, async () => {
      // Each takes four questions, with a connection each: on a busy machine more than the usual 30 s.
      const broker = await way.connect(server, { publishTimeoutMs: 150_000 })
      const topic = await freshTopic(broker)
      const missing = Array.from({ length: 300 }, (_, n) =>
        broker.publish(message(`faults.missing-${n}`, 'm')),
      )
      const refused = await Promise.allSettled([...missing, broker.publish(message(topic, 'm'))])
      expect(refused.at(-1)).toMatchObject({ status: 'fulfilled' })
      expect(
        refused.slice(0, -1).map((one) => ((one as PromiseRejectedResult).reason as { code: string }).code),
      ).toEqual(missing.map(() => 'topic_missing'))
      expect(await broker.hasTopic(topic)).toBe(true)
      expect(await broker.hasTopic('faults.missing-0')).toBe(false)
    })

    test('dead letters larger than Pulsar or its WebSocket takes are refused alone', async () => {
      const broker = await way.connect(server)
      const topic = `${await freshTopic(broker)}.dead`
      await broker.ensureTopics([{ name: topic, partitions: 1 }])
      const sized = (bytes: number) =>
        broker.publish({ topic, key: `${bytes}`, value: new Uint8Array(bytes), headers: {} })
      // the first large one is above maxMessageSize, the second above the frame that the server reads
      const sizes = [10, 5_500_000, 20, 6_500_000, 30, 4_000_000]
      const results = await Promise.allSettled(sizes.map(sized))
      for (const [index, result] of results.entries()) {
        const small = (sizes[index] ?? 0) < 5_000_000
        if (small) expect(result).toEqual({ status: 'fulfilled', value: undefined })
        else expect(result).toMatchObject({ status: 'rejected', reason: { code: 'message_too_large' } })
      }
      expect(distinct((await readAll(broker, topic)).map((text) => `${text.length}`))).toEqual(
        distinct(['10', '20', '30', '4000000']),
      )
    })

    test('messages that a foreign producer joined into one entry are read and settled one by one', async () => {
      const broker = await way.connect(server)
      const topic = await freshTopic(broker, 1)
      const all = texts(10)
      await publishBatch(server.url, topic, all)
      const stored: { readonly position: string }[] = []
      const signal = new AbortController().signal
      for await (const one of broker.read({ topic, from: 'earliest', until: 'end' }, signal)) stored.push(one)
      expect(new Set(stored.map(({ position }) => position)).size).toBe(10)
      expect(new Set(stored.map(({ position }) => position.split(':')[1])).size).toBeLessThan(10) // they were joined
      const rest: string[] = []
      const from = { 0: stored[4]?.position ?? '' }
      for await (const one of broker.read({ topic, from, until: 'end' }, signal)) rest.push(textOf(one))
      expect(rest).toEqual(all.slice(5))
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await eventually(() => expect(distinct(member.seen)).toEqual(distinct(all)))
      await eventually(async () => expect((await broker.lag('group', topic)).total).toBe(0))
    })

    test('a topic that others made without partitions is used like any other', async () => {
      const broker = await way.connect(server)
      const topic = 'faults.plain'
      await fetch(`${server.url.replace('ws:', 'http:')}/admin/v2/persistent/public/default/${topic}`, {
        method: 'PUT',
      })
      const all = texts(10)
      await publishAll(broker, topic, all)
      expect(await readAll(broker, topic)).toEqual(all)
      expect(await broker.listTopics(topic)).toEqual([{ name: topic, partitions: 1 }])
      expect((await broker.lag('group', topic)).total).toBe(10)
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await eventually(() => expect(distinct(member.seen)).toEqual(distinct(all)))
      member.stop.abort()
      await member.ended
      expect(await broker.lag('group', topic)).toEqual({
        partitions: [{ topic, partition: 0, lag: 0 }],
        total: 0,
        members: 0,
      })
      await broker.deleteTopics([topic])
      expect(await broker.listTopics(topic)).toEqual([])
    })

    test('a topic keeps what its groups have settled', async () => {
      const broker = await way.connect(server)
      const topic = await freshTopic(broker)
      await broker.ensureTopics([{ name: `${topic}.week`, partitions: 1, retentionMs: 7 * 24 * 3_600_000 }])
      const retentionOf = async (name: string): Promise<unknown> => {
        const path = `/admin/v2/persistent/public/default/${name}/retention`
        return (await fetch(server.url.replace('ws:', 'http:') + path)).json()
      }
      await eventually(async () =>
        expect(await retentionOf(topic)).toEqual({ retentionTimeInMinutes: -1, retentionSizeInMB: -1 }),
      )
      await eventually(async () =>
        expect(await retentionOf(`${topic}.week`)).toEqual({
          retentionTimeInMinutes: 10_080,
          retentionSizeInMB: -1,
        }),
      )
      // Its maker was ended before it had set anything.
      const half = `${topic}.half`
      const path = `/admin/v2/persistent/public/default/${half}/partitions`
      const json = { 'content-type': 'application/json' }
      await fetch(server.url.replace('ws:', 'http:') + path, { method: 'PUT', headers: json, body: '2' })
      await broker.ensureTopics([{ name: half, partitions: 2 }])
      await eventually(async () =>
        expect(await retentionOf(half)).toEqual({ retentionTimeInMinutes: -1, retentionSizeInMB: -1 }),
      )
    })

    test.runIf(way === webSocket)('over TLS the certificate decides, and the broker works', async () => {
      const { ca, ...key } = await makeCertificate()
      const relay = await startTcpRelay(Number(new URL(server.url).port), key)
      relays.push(relay)
      const url = `wss://127.0.0.1:${relay.port}`
      const broker = await connect(url, { tls: { ca } })
      const topic = await freshTopic(broker)
      await broker.publish(message(topic, 'm'))
      expect(await readAll(broker, topic)).toEqual(['m'])
      await expect(connect(url)).rejects.toMatchObject({
        code: 'certificate_refused',
        message: expect.stringContaining('is self-signed, and not trusted here'),
      })
      const plain = server.url.replace('ws:', 'wss:')
      await expect(connect(plain)).rejects.toMatchObject({ code: 'tls_failed' })
    })

    test('while the server is restarted messages wait, and members and readers go on afterwards', async () => {
      // On a busy machine a restart takes longer than the usual 30 s.
      const broker = await way.connect(server, { publishTimeoutMs: 150_000 })
      const topic = await freshTopic(broker)
      const all = texts(40, 'before')
      const late = texts(40, 'while')
      const read: string[] = []
      const reading = (async () => {
        const range = { topic, from: 'earliest', until: 'never' } as const
        for await (const one of broker.read(range, new AbortController().signal)) read.push(textOf(one))
      })()
      const inFlight: Delivery[] = []
      let hold = true
      const member = joinGroup(broker, topic, (delivery) => (hold ? inFlight.push(delivery) : delivery.ack()))
      await publishAll(broker, topic, all)
      await eventually(() => expect(inFlight.length).toBe(20))
      await eventually(() => expect(read).toHaveLength(40))
      await server.shutDown()
      await eventually(() => expect(inFlight.every((delivery) => delivery.signal.aborted)).toBe(true))
      const published = publishAll(broker, topic, late)
      hold = false
      await server.restart()
      await published
      await eventually(() => expect(distinct(member.seen)).toEqual(distinct([...all, ...late])))
      await eventually(async () => expect((await broker.lag('group', topic)).total).toBe(0))
      await eventually(() => expect(distinct(read)).toEqual(distinct([...all, ...late])))
      await broker.close()
      await reading
    }, 240_000)

    test('a server that is killed has lost nothing of what it had confirmed', async () => {
      const broker = await way.connect(server)
      const topic = await freshTopic(broker)
      const all = texts(200)
      await publishAll(broker, topic, all)
      await server.kill()
      await server.restart()
      await eventually(async () => expect((await broker.lag('group', topic)).total).toBe(200))
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await eventually(() => expect(distinct(member.seen)).toEqual(distinct(all)))
    }, 180_000)
  },
)

describe.runIf((await brokerSource('Pulsar with tokens', ['jars'])) !== undefined).each(ways)(
  'a server that asks for a token and makes topics by itself, $name',
  (way) => {
    const secret = Buffer.alloc(32, 'graphmill')
    const token = tokenFor('graphmill', secret)
    let server: PulsarServer

    beforeAll(async () => {
      server = await startPulsar({
        token,
        settings: {
          allowAutoTopicCreation: true,
          authenticationEnabled: true,
          authorizationEnabled: true,
          superUserRoles: 'graphmill',
          authenticationProviders: 'org.apache.pulsar.broker.authentication.AuthenticationProviderToken',
          tokenSecretKey: `data:;base64,${secret.toString('base64')}`,
          brokerClientAuthenticationPlugin: 'org.apache.pulsar.client.impl.auth.AuthenticationToken',
          brokerClientAuthenticationParameters: `token:${token}`,
        },
      })
    }, 180_000)
    afterAll(() => server.stop(), 60_000)

    test('is used with the token, and refuses without', async () => {
      const broker = await way.connect(server, { token })
      const topic = await freshTopic(broker)
      await broker.publish(message(topic, 'm'))
      expect(await readAll(broker, topic)).toEqual(['m'])
      const member = joinGroup(broker, topic, (delivery) => delivery.ack())
      await eventually(() => expect(member.seen).toEqual(['m']))
      await expect(way.connect(server)).rejects.toMatchObject({ code: 'broker_refused' })
      await expect(way.connect(server, { token: 'wrong' })).rejects.toMatchObject({ code: 'broker_refused' })
    })

    test('refuses a topic to a role without the right to write to it, and says so of that topic', async () => {
      const broker = await way.connect(server, { token })
      const [own, other] = [await freshTopic(broker), await freshTopic(broker)]
      const grant = async (place: string, rights: readonly string[]) => {
        const url = `${server.url.replace(/^ws/, 'http')}/admin/v2/${place}/permissions/guest`
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
        const { status } = await fetch(url, { method: 'POST', headers, body: JSON.stringify(rights) })
        expect(status).toBe(204)
      }
      await grant('namespaces/public/default', ['consume'])
      await grant(`persistent/public/default/${own}`, ['produce'])
      const guest = await way.connect(server, { token: tokenFor('guest', secret) })
      await guest.publish(message(own, 'm'))
      expect(await readAll(broker, own)).toEqual(['m'])
      await expect(guest.publish(message(other, 'm'))).rejects.toMatchObject({ code: 'topic_refused' })
      await guest.publish(message(own, 'n'))
    })

    test('does not make a topic because we ask for it', async () => {
      const broker = await way.connect(server, { token })
      const topic = 'faults.missing'
      const missing = { code: 'topic_missing' }
      await expect(broker.publish(message(topic, 'm'))).rejects.toMatchObject(missing)
      await expect(joinGroup(broker, topic, () => {}).ended).rejects.toMatchObject(missing)
      await expect(readAll(broker, topic)).rejects.toMatchObject(missing)
      expect(await broker.listTopics(topic)).toEqual([])
    })
  },
)

/** A JWT as Pulsar wants it, signed with HS256. */
function tokenFor(subject: string, secret: Buffer): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'HS256' })}.${part({ sub: subject })}`
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
}

/** As a program that lets its client join messages. */
async function publishBatch(url: string, topic: string, all: readonly string[]): Promise<void> {
  const query = 'batchingEnabled=true&batchingMaxMessages=5&batchingMaxPublishDelay=1000'
  const socket = new WebSocket(`${url}/ws/v2/producer/persistent/public/default/${topic}?${query}`)
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let answers = 0
  const answered = new Promise<void>((resolve) => {
    socket.on('message', () => {
      if (++answers === all.length) resolve()
    })
  })
  for (const text of all) socket.send(JSON.stringify({ payload: Buffer.from(text).toString('base64') }))
  await answered
  socket.close()
}
