// Contract: reading a topic without a group.
import { expect, test } from 'vitest'
import type { Broker, ReadMessage, TopicRange } from '../../../src/broker/broker.ts'
import { distinct, expectCode, type Harness, message, publishTexts, sorted, textOf } from './harness.ts'

export function reading(harness: Harness): void {
  test('reads from the oldest message to the end, and ends', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    expect(await harness.readAll(client, topic)).toEqual([])
    const texts = await publishTexts(client, topic, 30)
    expect(distinct((await harness.readAll(client, topic)).map(textOf))).toEqual(sorted(texts))
    expect(distinct((await harness.readAll(client, topic)).map(textOf))).toEqual(sorted(texts))
  })

  test('takes nothing from a group', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const texts = await publishTexts(client, topic, 10)
    await harness.readAll(client, topic)
    const member = harness.join(client, { topic })
    await harness.eventually('the group has all', () => distinct(member.texts).length === 10)
    expect(distinct((await harness.readAll(client, topic)).map(textOf))).toEqual(sorted(texts))
  })

  test('follows a topic from its end until it is aborted', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const old = await publishTexts(client, topic, 10, 'old')
    const reader = startReading(client, { topic, from: 'latest', until: 'never' })
    let probes = 0
    await harness.eventually('the reader stands at the end', async () => {
      await client.publish(message(topic, `probe${probes++}`))
      return reader.texts.length > 0
    })
    const fresh = await publishTexts(client, topic, 10, 'new')
    await harness.eventually('it has all that is new', () =>
      fresh.every((text) => reader.texts.includes(text)),
    )
    expect(reader.texts.filter((text) => old.includes(text))).toEqual([])
    reader.stop.abort()
    await harness.within('it ended', reader.ended)
  })

  test('follows a topic from its oldest message', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const old = await publishTexts(client, topic, 10, 'old')
    const reader = startReading(client, { topic, from: 'earliest', until: 'never' })
    await harness.eventually('it has the old ones', () => distinct(reader.texts).length === 10)
    const fresh = await publishTexts(client, topic, 10, 'new')
    await harness.eventually('it has all', () => distinct(reader.texts).length === 20)
    expect(distinct(reader.texts)).toEqual(sorted([...old, ...fresh]))
    reader.stop.abort()
    await harness.within('it ended', reader.ended)
  })

  test('begins just behind given positions, and with the oldest message of the other partitions', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 3 })
    await publishTexts(client, topic, 60)
    const stored = await harness.readAll(client, topic)
    const [one, other] = [...new Set(stored.map((each) => each.partition))]
    const ofOne = stored.filter((each) => each.partition === one)
    const middle = ofOne[Math.floor(ofOne.length / 2)]!
    const reader = startReading(client, { topic, from: { [one!]: middle.position }, until: 'end' })
    await harness.within('it ended', reader.ended)
    const expected = stored.filter(
      (each) => each.partition !== one || ofOne.indexOf(each) > ofOne.indexOf(middle),
    )
    expect(sorted(reader.texts)).toEqual(sorted(expected.map(textOf)))
    expect(reader.messages.some((each) => each.partition === other)).toBe(true)

    const last = ofOne.at(-1)!
    const empty = startReading(client, {
      topic,
      from: { [one!]: last.position },
      until: 'end',
      partition: one!,
    })
    await harness.within('it ended', empty.ended)
    expect(empty.texts).toEqual([])
  })

  test('reads a single partition, in order', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 3 })
    await publishTexts(client, topic, 60)
    const stored = await harness.readAll(client, topic)
    for (let partition = 0; partition < 3; partition++) {
      const reader = startReading(client, { topic, from: 'earliest', until: 'end', partition })
      await harness.within('it ended', reader.ended)
      expect(reader.texts).toEqual(stored.filter((each) => each.partition === partition).map(textOf))
    }
  })

  test('reads the newest message of every key of a compacted topic, and so does a group', async (context) => {
    harness.needs('compaction', context)
    const client = await harness.client()
    const topic = await harness.topic(client, { compacted: true })
    for (let version = 0; version < 3; version++) {
      await Promise.all(['a', 'b', 'c'].map((key) => client.publish(message(topic, `${key}${version}`, key))))
    }
    const newest = new Map((await harness.readAll(client, topic)).map((one) => [one.key, textOf(one)]))
    expect([...newest].sort()).toEqual([
      ['a', 'a2'],
      ['b', 'b2'],
      ['c', 'c2'],
    ])
    const member = harness.join(client, { topic })
    await harness.eventually('the group has the newest', () =>
      ['a2', 'b2', 'c2'].every((text) => member.texts.includes(text)),
    )
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
  })

  test('can be broken off by the reader', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 10)
    const first = async () => {
      const range = { topic, from: 'earliest', until: 'never' } as const
      for await (const one of client.read(range, new AbortController().signal)) return textOf(one)
    }
    expect(await harness.within('the first was read', first())).toMatch(/^m[0-9]$/)
  })

  test('refuses a topic that does not exist', async () => {
    const client = await harness.client()
    const range = { topic: harness.fresh('missing'), from: 'earliest', until: 'end' } as const
    const read = client.read(range, new AbortController().signal)
    await harness.within('it is refused', expectCode('topic_missing', read[Symbol.asyncIterator]().next()))
  })
}

/** Reads in the background, noting what came. */
function startReading(client: Broker, range: TopicRange) {
  const messages: ReadMessage[] = []
  const texts: string[] = []
  const stop = new AbortController()
  const ended = (async () => {
    for await (const one of client.read(range, stop.signal)) {
      messages.push(one)
      texts.push(textOf(one))
    }
  })()
  ended.catch(() => {}) // handled where one awaits `ended`
  return { messages, texts, stop, ended }
}
