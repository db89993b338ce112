// The Kafka broker while brokers die, stay down and come back, and while handlers are slow and busy: nothing is lost, and
// no member loses its messages in flight.
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import type { Broker, Delivery } from '../../../src/broker/broker.ts'
import { connectKafka } from '../../../src/broker/kafka/kafka.ts'
import type { GraphmillError } from '../../../src/errors.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { createHarness, distinct, message, publishTexts, sorted, textOf } from '../suite/harness.ts'

const present = (await brokerSource('Kafka with faults', ['jars'])) !== undefined

describe.skipIf(!present)('Kafka with faults', () => {
  const harness = createHarness()
  let server: KafkaServer
  let over: AbortController

  async function begin(brokers: 1 | 3, sessionTimeoutMs: number): Promise<void> {
    over = new AbortController()
    server = await startKafka({ brokers })
    const connect = () => connectKafka({ brokers: server.bootstrap, sessionTimeoutMs })
    harness.start({ connect, stop: async () => {}, patienceMs: 60_000 })
  }
  afterEach(async () => {
    over.abort()
    await harness.closeClients()
    await server?.stop()
  })

  test('each of three brokers dies in turn, by SIGKILL, under load: nothing is lost', {
    timeout: 300_000,
  }, async () => {
    await begin(3, 6000)
    const [publisher, one, other] = [await harness.client(), await harness.client(), await harness.client()]
    const topic = await harness.topic(publisher, { partitions: 6 })
    const group = harness.fresh('group')
    const settled = new Set<string>()
    const work = async (delivery: Delivery) => {
      await new Promise((resolve) => setTimeout(resolve, 5))
      if (!delivery.signal.aborted) settled.add(textOf(delivery))
      await delivery.ack()
    }
    for (const client of [one, other]) harness.join(client, { topic, group, maxInFlight: 20 }, work)
    const load = startLoad(publisher, topic, over.signal)
    for (let broker = 0; broker < 3; broker++) {
      const before = { stored: load.stored.size, settled: settled.size }
      await harness.eventually('work goes on', () => settled.size > before.settled + 50)
      await server.kill(broker)
      const dead = { stored: load.stored.size, settled: settled.size }
      await harness.eventually(
        'work goes on without it',
        () => load.stored.size > dead.stored + 100 && settled.size > dead.settled + 100,
      )
      await server.restart(broker)
    }
    await load.stop()
    await harness.eventually('all that was stored is settled', () =>
      [...load.stored].every((text) => settled.has(text)),
    )
    await harness.eventually('nothing is left', async () => (await one.lag(group, topic)).total === 0)
  })

  test('a handler awaits for 90 s, the broker is down for 30 s and the event loop is busy for 20 s: all is kept', {
    timeout: 180_000,
  }, async () => {
    await begin(1, 45_000)
    const begun = performance.now()
    const at = (seconds: number) =>
      new Promise((resolve) => setTimeout(resolve, seconds * 1000 - (performance.now() - begun)))
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 3 })
    const texts = await publishTexts(client, topic, 30)
    const member = harness.join(client, { topic, maxInFlight: 60 }, async (delivery) => {
      if (textOf(delivery) === 'm0') await at(90)
      await delivery.ack()
    })
    await harness.eventually('all came', () => member.texts.length === 30)

    await server.kill(0)
    // Published while no broker answers, as the runner does: again, as long as the broker is unavailable.
    const late = Array.from({ length: 30 }, (_, index) => `late${index}`)
    const publishing = Promise.all(late.map((text) => publishAgain(client, { topic, text }, over.signal)))
    await at(35)
    await server.restart(0)
    await harness.within('the late ones are stored', publishing)
    await harness.eventually('the late ones came', () => distinct(member.texts).length === 60)

    const end = performance.now() + 20_000
    while (performance.now() < end);

    await at(90)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(member.deliveries.filter((one) => one.signal.aborted)).toEqual([])
    expect(sorted(member.texts.filter((text) => !late.includes(text)))).toEqual(sorted(texts))
    expect(distinct(member.texts)).toEqual(sorted([...texts, ...late]))
  })
})

/** Publishes one text after another, some at a time, until it is stopped; the texts that were stored are noted. */
function startLoad(client: Broker, topic: string, signal: AbortSignal) {
  const stored = new Set<string>()
  let going = true
  let count = 0
  const lanes = Array.from({ length: 8 }, async () => {
    while (going && !signal.aborted) {
      const text = `t${count++}`
      await publishAgain(client, { topic, text }, signal)
      stored.add(text)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })
  const done = Promise.all(lanes)
  done.catch(() => {}) // handled where it is stopped
  return {
    stored,
    stop: () => {
      going = false
      return done
    },
  }
}

/** Again as long as the broker is unavailable, or until the test is over: a client that is closed refuses at once, forever. */
async function publishAgain(
  client: Broker,
  { topic, text }: { readonly topic: string; readonly text: string },
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      return await client.publish(message(topic, text))
    } catch (error) {
      if (signal.aborted || (error as GraphmillError).retry !== 'later') throw error
    }
    await delay(10)
  }
}
