// Contract: how consuming ends: gracefully with the signal, at once with close().
import { expect, test } from 'vitest'
import type { Delivery } from '../../../src/broker/broker.ts'
import { distinct, type Harness, hold, placeOf, publishTexts, sorted, textOf } from './harness.ts'

const never = 600_000

export function endings(harness: Harness): void {
  test('ends gracefully: nothing new comes, it waits for its messages in flight, and the next member starts behind them', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 1 })
    const group = harness.fresh('group')
    const texts = await publishTexts(first, topic, 10)
    const leaving = harness.join(first, { topic, group, maxInFlight: 3 }, hold)
    await harness.eventually('three are in flight', () => leaving.texts.length === 3)
    leaving.stop.abort()
    const [one, two, three] = leaving.deliveries as [Delivery, Delivery, Delivery]
    await one.ack()
    await two.ack()
    expect(leaving.over).toBe(false)
    expect(three.signal.aborted).toBe(false)
    await three.ack()
    await harness.within('it ended', leaving.ended)
    expect(leaving.texts).toHaveLength(3)
    const next = harness.join(second, { topic, group })
    await harness.eventually('the rest came', () => distinct(next.texts).length >= 7)
    await harness.eventually('nothing is left', async () => (await second.lag(group, topic)).total === 0)
    expect(sorted(next.texts)).toEqual(sorted(texts.filter((text) => !leaving.texts.includes(text))))
  })

  test('keeps its messages in flight while it ends, though others of the group go on', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 4 })
    const group = harness.fresh('group')
    const leaving = harness.join(first, { topic, group })
    const staying = harness.join(second, { topic, group })
    let round = 0
    await harness.eventually('both take part', async () => {
      await publishTexts(first, topic, 20, `r${round++}-`)
      return leaving.texts.length > 0 && staying.texts.length > 0
    })
    await harness.eventually('all is settled', async () => (await first.lag(group, topic)).total === 0)
    const inFlight: Delivery[] = []
    leaving.act = (one) => void inFlight.push(one)
    // A broker may give all of one round to the same member.
    await harness.eventually('it has some in flight', async () => {
      await publishTexts(first, topic, 20, `r${round++}-`)
      return inFlight.length > 0
    })
    leaving.stop.abort()
    const later: string[] = []
    await harness.eventually('the other goes on', async () => {
      later.push(...(await publishTexts(first, topic, 20, `later${round++}-`)))
      return later.some((text) => staying.texts.includes(text))
    })
    expect(leaving.over).toBe(false)
    expect(inFlight.filter((one) => one.signal.aborted)).toEqual([])
    for (const one of inFlight) await one.ack()
    await harness.within('it ended', leaving.ended)
    await harness.eventually('the other has all that came later', () =>
      later.every((text) => staying.texts.includes(text)),
    )
    await harness.eventually('nothing is left', async () => (await second.lag(group, topic)).total === 0)
    const kept = new Set(inFlight.map(placeOf))
    expect(staying.deliveries.filter((one) => kept.has(placeOf(one)))).toEqual([])
  })

  test('drops a message that is to be retried after the end was announced', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 1 })
    const group = harness.fresh('group')
    await publishTexts(first, topic, 2)
    const leaving = harness.join(first, { topic, group }, hold)
    await harness.eventually('both are in flight', () => distinct(leaving.texts).length === 2)
    leaving.stop.abort()
    await leaving.deliveries[0]!.ack()
    await leaving.deliveries[1]!.retryLater(never)
    await harness.within('it ended', leaving.ended)
    const next = harness.join(second, { topic, group })
    await harness.eventually('it came to the next', () => next.texts.includes(textOf(leaving.deliveries[1]!)))
    expect(next.texts).not.toContain(textOf(leaving.deliveries[0]!))
  })

  test('drops messages that wait for a retry when the end is announced', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first)
    const group = harness.fresh('group')
    const texts = await publishTexts(first, topic, 4)
    const leaving = harness.join(first, { topic, group }, (one) => one.retryLater(never))
    await harness.eventually('all wait', () => distinct(leaving.texts).length === 4)
    await harness.within('it ended', leaving.leave())
    const next = harness.join(second, { topic, group })
    await harness.eventually('they came to the next', () => distinct(next.texts).length === 4)
    expect(distinct(next.texts)).toEqual(sorted(texts))
  })

  test('ends at once when nothing is in flight, or when the signal had aborted before', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 3)
    const stopped = harness.join(client, { topic })
    await harness.eventually(
      'all are settled',
      async () => (await client.lag(stopped.group, topic)).total === 0,
    )
    await harness.within('it ended', stopped.leave())
    const subscription = {
      topic,
      group: stopped.group,
      maxInFlight: 1,
      from: 'earliest',
      ordering: 'none',
    } as const
    const consumption = client.consume(subscription, AbortSignal.abort())[Symbol.asyncIterator]()
    expect(await harness.within('it is over', consumption.next())).toMatchObject({ done: true })
  })

  test('close ends consumers and readers at once, also with messages in flight', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 5)
    const member = harness.join(client, { topic }, hold)
    let read = 0
    const reading = (async () => {
      for await (const _ of client.read(
        { topic, from: 'earliest', until: 'never' },
        new AbortController().signal,
      ))
        read++
    })()
    await harness.eventually('both have all', () => read >= 5 && distinct(member.texts).length === 5)
    await harness.within('it closed', client.close())
    await harness.within('the member ended', member.ended)
    await harness.within('the reader ended', reading)
    expect(member.deliveries.every((one) => one.signal.aborted)).toBe(true)
    await member.deliveries[0]!.ack()
    await client.close()
  })

  test('a member that ended leaves its messages to the others that stay', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 4 })
    const group = harness.fresh('group')
    const members = [harness.join(first, { topic, group }), harness.join(second, { topic, group })]
    let published = 0
    await harness.eventually('both take part', async () => {
      published += (await publishTexts(first, topic, 20, `r${published}-`)).length
      return members.every((member) => member.texts.length > 0)
    })
    await harness.within('one left', members[0]!.leave())
    const after = await publishTexts(first, topic, 40, 'after-')
    await harness.eventually('the other has all that came later', () => {
      const there = new Set(members[1]!.texts)
      return after.every((text) => there.has(text))
    })
    await harness.eventually('nothing is left', async () => (await second.lag(group, topic)).total === 0)
    expect(distinct(...members.map((member) => member.texts))).toHaveLength(published + 40)
  })
}
