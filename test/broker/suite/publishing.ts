// Contract: what publish promises.
import { expect, test } from 'vitest'
import { maxDeadLetterExtraBytes, maxMessageBytes } from '../../../src/broker/broker.ts'
import { deadTopic, topicSpec } from '../../../src/broker/topics.ts'
import {
  ackAll,
  distinct,
  expectCode,
  firsts,
  type Harness,
  message,
  publishTexts,
  sorted,
  textOf,
} from './harness.ts'

export function publishing(harness: Harness): void {
  test('has stored a message when publish resolves: key, headers and bytes as they were', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const value = Uint8Array.from({ length: 512 }, (_, index) => index % 256)
    const headers = { id: 'm-1', 'dead-message': 'naïve – 日本 🌾', empty: '', 'line-ends': 'a\r\nb' }
    const before = Date.now()
    await client.publish({ topic, key: 'clé/日本 "1"', value, headers })
    const [stored, ...more] = await harness.readAll(await harness.client(), topic)
    expect(more).toEqual([])
    expect(stored).toMatchObject({ topic, key: 'clé/日本 "1"', headers })
    expect([...stored!.value]).toEqual([...value])
    expect(Math.abs(stored!.timestamp - before)).toBeLessThan(60_000)
    expect(stored!.partition).toBeGreaterThanOrEqual(0)
    expect(stored!.partition).toBeLessThan(3)
  })

  test('takes an empty key, an empty value and no headers', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await client.publish({ topic, key: '', value: new Uint8Array(0), headers: {} })
    const [stored] = await harness.readAll(client, topic)
    expect(stored).toMatchObject({ key: '', headers: {} })
    expect(stored!.value.byteLength).toBe(0)
  })

  test('delivers to a group the same key, headers and bytes that were published', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const value = Uint8Array.from([0, 255, 195, 40, 0])
    await client.publish({ topic, key: 'ключ', value, headers: { a: '', b: 'ß', 'c-d': '🌾' } })
    const member = harness.join(client, { topic })
    await harness.eventually('it was delivered', () => member.deliveries.length > 0)
    expect(member.deliveries[0]).toMatchObject({
      topic,
      key: 'ключ',
      headers: { a: '', b: 'ß', 'c-d': '🌾' },
      attempt: 1,
    })
    expect([...member.deliveries[0]!.value]).toEqual([...value])
  })

  test('is not changed by what the publisher does with the bytes afterwards', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const value = new TextEncoder().encode('before')
    await client.publish({ topic, key: 'k', value, headers: {} })
    value.fill(0)
    expect((await harness.readAll(client, topic)).map(textOf)).toEqual(['before'])
  })

  test('puts the messages of a key into one partition, in the order of the calls', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 4 })
    const calls = Array.from({ length: 200 }, (_, index) => ({ key: `key-${index % 7}`, text: `${index}` }))
    await Promise.all(calls.map(({ key, text }) => client.publish(message(topic, text, key))))
    const stored = await harness.readAll(client, topic)
    for (let key = 0; key < 7; key++) {
      const ofKey = stored.filter((one) => one.key === `key-${key}`)
      expect(new Set(ofKey.map((one) => one.partition)).size).toBe(1)
      expect(firsts(ofKey.map(textOf))).toEqual(
        calls.filter((call) => call.key === `key-${key}`).map((call) => call.text),
      )
    }
    expect(new Set(stored.map((one) => one.partition)).size).toBeGreaterThan(1)
  })

  test('puts a key into the same partition whichever client publishes', async () => {
    const [one, other] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(one, { partitions: 4 })
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`)
    await Promise.all(keys.map((key) => one.publish(message(topic, 'one', key))))
    await Promise.all(keys.map((key) => other.publish(message(topic, 'other', key))))
    const stored = await harness.readAll(one, topic)
    for (const key of keys) {
      expect(new Set(stored.filter((each) => each.key === key).map((each) => each.partition)).size).toBe(1)
    }
  })

  test('stores every one of many messages published side by side to several topics', async () => {
    const client = await harness.client()
    const topics = [await harness.topic(client), await harness.topic(client), await harness.topic(client)]
    const texts = await Promise.all(topics.map((topic) => publishTexts(client, topic, 500)))
    for (const [index, topic] of topics.entries()) {
      const stored = (await harness.readAll(client, topic)).map(textOf)
      expect(distinct(stored)).toEqual(sorted(texts[index]!))
    }
  })

  test('refuses a message that is too large, alone: those published beside it are stored', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const sized = (bytes: number) =>
      client.publish({ topic, key: `${bytes}`, value: new Uint8Array(bytes), headers: {} })
    const results = await Promise.allSettled([
      sized(10),
      sized(maxMessageBytes + 1),
      sized(20),
      sized(maxMessageBytes),
    ])
    expect(results.map((result) => result.status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    expect((results[1] as PromiseRejectedResult).reason).toMatchObject({ code: 'message_too_large' })
    const stored = await harness.readAll(client, topic)
    expect(new Set(stored.map((one) => one.value.byteLength))).toEqual(new Set([10, 20, maxMessageBytes]))
  })

  test('lets a dead letter be larger, by what its headers need', async () => {
    const client = await harness.client()
    const source = await harness.topic(client)
    const dead = deadTopic(source)
    await client.ensureTopics([topicSpec(dead)])
    const headers = { 'dead-cause': 'x'.repeat(16 * 1024) }
    const sizes = [maxMessageBytes, maxMessageBytes + maxDeadLetterExtraBytes - 20 * 1024]
    for (const bytes of sizes)
      await client.publish({ topic: dead, key: 'k', value: new Uint8Array(bytes), headers })
    expect((await harness.readAll(client, dead)).map((one) => one.value.byteLength)).toEqual(sizes)
    const member = harness.join(client, { topic: dead })
    await harness.eventually('a group gets them too', () => member.deliveries.length >= 2)
  })

  test('takes the dead letter of whatever a topic takes', async (context) => {
    harness.needs('large-messages', context)
    const client = await harness.client()
    const source = await harness.topic(client, { maxBytes: 3 * 1024 * 1024 })
    await client.ensureTopics([topicSpec(deadTopic(source))])
    const value = new Uint8Array(2 * 1024 * 1024)
    await client.publish({
      topic: deadTopic(source),
      key: 'k',
      value,
      headers: { 'dead-code': 'message_too_large' },
    })
    const [letter] = await harness.readAll(client, deadTopic(source))
    expect(letter!.value.byteLength).toBe(value.byteLength)
  })

  test('takes what is brought back of a dead letter, if the topic does', async (context) => {
    harness.needs('large-messages', context)
    const client = await harness.client()
    const topic = await harness.topic(client, { maxBytes: 3 * 1024 * 1024 })
    const value = new Uint8Array(2 * 1024 * 1024)
    const message = { topic, key: 'k', value, headers: {} }
    await client.publish({ ...message, anySize: true })
    expect((await harness.readAll(client, topic)).map((one) => one.value.byteLength)).toEqual([
      value.byteLength,
    ])
    const small = await harness.topic(client)
    await expectCode(
      'message_too_large',
      client.publish({ ...message, topic: small, value: new Uint8Array(8 * 1024 * 1024), anySize: true }),
    )
  })

  test('refuses a topic that does not exist, while others go on, and does not make it', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const missing = harness.fresh('missing')
    const [there, gone] = await Promise.allSettled([
      client.publish(message(topic, 'a')),
      client.publish(message(missing, 'b')),
    ])
    expect(there.status).toBe('fulfilled')
    expect((gone as PromiseRejectedResult).reason).toMatchObject({
      name: 'GraphmillError',
      code: 'topic_missing',
    })
    expect(await client.listTopics(missing)).toEqual([])
  })

  test('publishes to a topic that was made by another client after a publish to it had failed', async () => {
    const [one, other] = [await harness.client(), await harness.client()]
    const topic = harness.fresh('late')
    await expectCode('topic_missing', one.publish(message(topic, 'too soon')))
    await other.ensureTopics([{ name: topic, partitions: 1 }])
    await harness.eventually('the topic is seen', () =>
      one.publish(message(topic, 'in time')).then(
        () => true,
        () => false,
      ),
    )
    expect((await harness.readAll(one, topic)).map(textOf)).toContain('in time')
  })

  test('takes messages of foreign producers, without key and headers', async (context) => {
    harness.needs('foreign-producers', context)
    const client = await harness.client()
    const topic = await harness.topic(client)
    await harness.under.publishForeign!(topic, new TextEncoder().encode('foreign'))
    const member = harness.join(client, { topic }, ackAll)
    await harness.eventually('it was delivered', () => member.texts.includes('foreign'))
    expect(member.deliveries[0]).toMatchObject({ key: '', headers: {} })
    expect(await harness.readAll(client, topic)).toMatchObject([{ key: '', headers: {} }])
  })
}
