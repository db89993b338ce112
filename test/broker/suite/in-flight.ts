// Contract: the messages that a member has in flight: bounds, redelivery, and order by key.
import { expect, test } from 'vitest'
import { type Delivery, maxMessageBytes } from '../../../src/broker/broker.ts'
import { distinct, firsts, type Harness, message, publishTexts, sorted, textOf } from './harness.ts'

/** Long enough that it never comes within a test. */
const never = 600_000

export function inFlight(harness: Harness): void {
  test('delivers again after retryLater, counting attempts', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const member = harness.join(client, { topic }, (one) =>
      one.attempt < 4 ? one.retryLater(20) : one.ack(),
    )
    await client.publish({ topic, key: 'k', value: new TextEncoder().encode('again'), headers: { h: 'v' } })
    await harness.eventually('the fourth attempt came', () => member.deliveries.length === 4)
    expect(member.deliveries.map((one) => one.attempt)).toEqual([1, 2, 3, 4])
    expect(new Set(member.deliveries.map((one) => one.position)).size).toBe(1)
    expect(member.deliveries[3]).toMatchObject({ key: 'k', headers: { h: 'v' } })
    expect(member.texts).toEqual(['again', 'again', 'again', 'again'])
    await harness.eventually('it is settled', async () => (await client.lag(member.group, topic)).total === 0)
  })

  test('waits before it delivers again for as long as it was asked to', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    let asked = 0
    let came = 0
    harness.join(client, { topic }, async (one) => {
      if (one.attempt === 1) {
        asked = performance.now()
        return one.retryLater(300)
      }
      came = performance.now()
      await one.ack()
    })
    await client.publish(message(topic, 'm'))
    await harness.eventually('it came again', () => came > 0)
    expect(came - asked).toBeGreaterThan(290)
  })

  test('other messages of the partition pass one that waits to be delivered again', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const texts = await publishTexts(client, topic, 30)
    const member = harness.join(client, { topic, maxInFlight: 5 }, (one) =>
      textOf(one) === texts[0] ? one.retryLater(never) : one.ack(),
    )
    await harness.eventually('the others passed', () => distinct(member.texts).length === 30)
    expect(member.texts.filter((text) => text === texts[0])).toHaveLength(1)
    expect((await client.lag(member.group, topic)).total).toBeGreaterThan(0)
  })

  test('a message that waits to be delivered again counts as in flight', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const member = harness.join(client, { topic, maxInFlight: 2 }, (one) => one.retryLater(never))
    const witness = harness.join(await harness.client(), { topic })
    await publishTexts(client, topic, 10)
    await harness.eventually('another group saw all', () => distinct(witness.texts).length === 10)
    await harness.eventually('two came', () => member.texts.length >= 2)
    await publishTexts(client, topic, 10, 'more')
    await harness.eventually('another group saw more', () => distinct(witness.texts).length === 20)
    expect(member.texts).toHaveLength(2)
  })

  test('has at most maxInFlight unsettled, and goes on as they settle', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const unsettled = new Set<Delivery>()
    let most = 0
    const member = harness.join(client, { topic, maxInFlight: 3 }, (one) => {
      unsettled.add(one)
      most = Math.max(most, unsettled.size)
    })
    const texts = await publishTexts(client, topic, 30)
    await harness.eventually('all came', async () => {
      const [one] = unsettled
      if (one !== undefined && unsettled.size === 3) {
        unsettled.delete(one)
        await one.ack()
      }
      return distinct(member.texts).length === 30
    })
    expect(most).toBe(3)
    expect(distinct(member.texts)).toEqual(sorted(texts))
  })

  test('holds at most maxBytes, and lets one larger message pass alone', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const sizes = [40_000, 40_000, 40_000, 300_000, 40_000, 40_000, 40_000, 40_000]
    for (const bytes of sizes) {
      await client.publish({ topic, key: 'k', value: new Uint8Array(bytes), headers: {} })
    }
    const held: Delivery[] = []
    const bytes = () => held.reduce((sum, one) => sum + one.value.byteLength, 0)
    const moments: { readonly count: number; readonly bytes: number }[] = []
    const member = harness.join(client, { topic, maxBytes: 100_000 }, (one) => {
      held.push(one)
      moments.push({ count: held.length, bytes: bytes() })
    })
    for (let settled = 0; settled < sizes.length; settled++) {
      await harness.eventually('one is in flight', () => held.length > 0)
      await held.shift()!.ack()
    }
    const delivered = member.deliveries.map((one) => one.value.byteLength)
    expect(delivered.sort()).toEqual(sizes.sort())
    expect(moments.filter((moment) => moment.bytes > 100_000)).toEqual([{ count: 1, bytes: 300_000 }])
  })

  test('with order by key, gives a message only after the one before it of the same key is settled', async (context) => {
    harness.needs('key-order', context)
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 2 })
    const busy = new Set<string>()
    const clashes: string[] = []
    const settled = new Map<string, string[]>()
    let most = 0
    harness.join(client, { topic, ordering: 'key', maxInFlight: 20 }, async (one) => {
      if (one.attempt === 1 && busy.has(one.key)) clashes.push(textOf(one))
      busy.add(one.key)
      most = Math.max(most, busy.size)
      await new Promise((resolve) => setImmediate(resolve))
      if (one.attempt === 1 && Number(textOf(one).slice(1)) % 5 === 0) return one.retryLater(10)
      busy.delete(one.key)
      settled.set(one.key, [...(settled.get(one.key) ?? []), textOf(one)])
      await one.ack()
    })
    const texts = await publishTexts(client, topic, 60, 'm', (index) => `key-${index % 6}`)
    await harness.eventually('all are settled', () => distinct(...settled.values()).length === 60)
    expect(clashes).toEqual([])
    expect(most).toBeGreaterThan(1)
    for (let key = 0; key < 6; key++) {
      expect(firsts(settled.get(`key-${key}`) ?? [])).toEqual(texts.filter((_, index) => index % 6 === key))
    }
  })

  test('with order by key, a key that waits does not hold up the other keys of its partition', async (context) => {
    harness.needs('key-order', context)
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    await publishTexts(client, topic, 20, 'm', (index) => (index % 4 === 0 ? 'stuck' : `key-${index}`))
    const member = harness.join(client, { topic, ordering: 'key', maxInFlight: 20 }, (one) =>
      one.key === 'stuck' ? undefined : one.ack(),
    )
    await harness.eventually('the other keys passed', () => distinct(member.texts).length === 16)
    expect(member.texts.filter((text) => Number(text.slice(1)) % 4 === 0)).toEqual(['m0'])
  })

  test('with order by member, the messages of a key are in flight together at one member', async (context) => {
    harness.needs('key-order', context)
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 3 })
    const group = harness.fresh('group')
    const inFlight = new Map<string, { member: number; one: Delivery }[]>()
    const clashes: string[] = []
    const members = [0, 1].map((member) => {
      const subscription = { topic, group, ordering: 'member', maxInFlight: 100 } as const
      return harness.join(client, subscription, (one) => {
        if (one.key.startsWith('early')) return one.ack()
        const held = inFlight.get(one.key) ?? []
        inFlight.set(one.key, [...held, { member, one }])
        if (held.some((other) => other.member !== member && !other.one.signal.aborted))
          clashes.push(textOf(one))
        return undefined
      })
    })
    let early = 0
    await harness.eventually('both have joined', async () => {
      await publishTexts(client, topic, 20, 'e', () => `early-${early++}`)
      return members.every(({ deliveries }) => deliveries.length > 0)
    })
    await publishTexts(client, topic, 60, 'm', (index) => `key-${index % 12}`)
    const held = () => [...inFlight.values()].map((list) => list.filter(({ one }) => !one.signal.aborted))
    await harness.eventually('all are in flight at once', () => held().flat().length === 60)
    expect(clashes).toEqual([])
    for (const list of held()) expect(list).toHaveLength(5)
    for (const { one } of held().flat()) await one.ack()
    await harness.eventually('nothing is left', async () => (await client.lag(group, topic)).total === 0)
    expect(new Set([...inFlight.values()].flat().map(({ member }) => member)).size).toBe(2)
  })

  test('a message that stays in flight for long holds up the others only for a while', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const texts = await publishTexts(client, topic, 1500)
    const kept: Delivery[] = []
    const member = harness.join(client, { topic, maxInFlight: 50 }, async (one) => {
      if (kept.length === 0) kept.push(one)
      else await one.ack()
    })
    await harness.eventually('a thousand passed it', () => distinct(member.texts).length > 1000)
    await kept[0]!.ack()
    await harness.eventually('all came', () => distinct(member.texts).length === 1500)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(distinct(member.texts)).toEqual(sorted(texts))
  })

  test('delivers a message of the largest size', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const value = Uint8Array.from({ length: maxMessageBytes }, (_, index) => index % 251)
    await client.publish({ topic, key: 'k', value, headers: {} })
    const member = harness.join(client, { topic, maxBytes: 1000 })
    await harness.eventually('it came', () => member.deliveries.length > 0)
    expect(Buffer.compare(member.deliveries[0]!.value, value)).toBe(0)
  })

  test('settling twice, or asking for it again after settling, changes nothing', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 1 })
    const member = harness.join(client, { topic, maxInFlight: 1 }, async (one) => {
      await Promise.all([one.ack(), one.ack()])
      await one.retryLater(0)
    })
    const texts = await publishTexts(client, topic, 10)
    await harness.eventually('all came', () => distinct(member.texts).length === 10)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(sorted(member.texts)).toEqual(sorted(texts))
  })
}
