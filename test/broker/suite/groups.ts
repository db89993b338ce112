// Contract: how a group shares a topic, and what becomes of the messages of members that go.
import { expect, test } from 'vitest'
import {
  type ackAll,
  distinct,
  expectCode,
  firsts,
  type Harness,
  hold,
  message,
  placeOf,
  publishTexts,
  sorted,
  textOf,
} from './harness.ts'

export function groups(harness: Harness): void {
  test('a group sees what was published before it joined, and what comes later', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const early = await publishTexts(client, topic, 20, 'early')
    const member = harness.join(client, { topic })
    await harness.eventually('the early ones came', () => distinct(member.texts).length === early.length)
    const late = await publishTexts(client, topic, 20, 'late')
    await harness.eventually('all came', () => distinct(member.texts).length === 40)
    expect(distinct(member.texts)).toEqual(sorted([...early, ...late]))
    expect(member.deliveries.every((one) => one.topic === topic && one.attempt === 1)).toBe(true)
    const places = member.deliveries.map(placeOf)
    expect(new Set(places).size).toBe(places.length)
  })

  test('a new group that begins at the end sees nothing from before, and later all that came while it was away', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const subscription = { topic, group: harness.fresh('group'), from: 'latest' } as const
    await publishTexts(client, topic, 10, 'early')
    const first = harness.join(client, subscription)
    const seen: string[] = []
    await harness.eventually('it takes part', async () => {
      seen.push(...(await publishTexts(client, topic, 3, `round-${seen.length}-`)))
      return first.texts.length > 0
    })
    await harness.eventually('it saw the last round', () => first.texts.includes(seen.at(-1)!))
    await harness.within('it has left', first.leave())
    const away = await publishTexts(client, topic, 10, 'away')
    const second = harness.join(client, subscription)
    await harness.eventually('it saw what came', () => away.every((text) => second.texts.includes(text)))
    expect([...first.texts, ...second.texts].filter((text) => text.startsWith('early'))).toEqual([])
  })

  test('two groups each see everything', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const [one, other] = [harness.join(client, { topic }), harness.join(await harness.client(), { topic })]
    const texts = await publishTexts(client, topic, 50)
    for (const member of [one, other]) {
      await harness.eventually('a group saw all', () => distinct(member.texts).length === 50)
      expect(distinct(member.texts)).toEqual(sorted(texts))
    }
  })

  test.each(['two clients', 'one client'])(
    'two members of a group share its messages, and lose none: %s',
    async (clients) => {
      const [publisher, one] = [await harness.client(), await harness.client()]
      const other = clients === 'one client' ? one : await harness.client()
      const topic = await harness.topic(publisher, { partitions: 4 })
      const group = harness.fresh('group')
      const members = [harness.join(one, { topic, group }), harness.join(other, { topic, group })]
      const published: string[] = []
      await harness.eventually('both take part', async () => {
        published.push(...(await publishTexts(publisher, topic, 20, `round-${published.length}-`)))
        return members.every((member) => member.texts.length > 0)
      })
      published.push(...(await publishTexts(publisher, topic, 100, 'last-')))
      await harness.eventually(
        'all were seen',
        () => distinct(...members.map((member) => member.texts)).length === published.length,
      )
      expect(distinct(...members.map((member) => member.texts))).toEqual(sorted(published))
    },
  )

  test('messages in flight when the connection of a member closed go to another member', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first)
    const group = harness.fresh('group')
    const texts = await publishTexts(first, topic, 10)
    const crashing = harness.join(first, { topic, group }, hold)
    await harness.eventually('all are in flight', () => distinct(crashing.texts).length === 10)
    await first.close()
    const member = harness.join(second, { topic, group })
    await harness.eventually('the other has them', () => distinct(member.texts).length === 10)
    expect(distinct(member.texts)).toEqual(sorted(texts))
  })

  test('messages in flight when a member broke off its iteration are delivered again', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const group = harness.fresh('group')
    const texts = await publishTexts(client, topic, 5)
    const subscription = { topic, group, maxInFlight: 10, from: 'earliest', ordering: 'none' } as const
    const broken = async () => {
      for await (const delivery of client.consume(subscription, new AbortController().signal)) return delivery
    }
    const left = await harness.within('one was delivered', broken())
    expect(left).toBeDefined()
    const member = harness.join(client, { topic, group })
    await harness.eventually('all came to the next member', () => distinct(member.texts).length === 5)
    expect(distinct(member.texts)).toEqual(sorted(texts))
    await left!.ack() // too late: it changes nothing
    expect(left!.signal.aborted).toBe(true)
  })

  test('what was acked before a graceful end is not delivered again', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first)
    const group = harness.fresh('group')
    await publishTexts(first, topic, 20)
    const before = harness.join(first, { topic, group })
    await harness.eventually('all were acked', () => distinct(before.texts).length === 20)
    await harness.within('the member left', before.leave())
    await first.close()
    const late = await publishTexts(second, topic, 20, 'late')
    const after = harness.join(second, { topic, group })
    await harness.eventually('the late ones came', () => distinct(after.texts).length >= 20)
    await harness.eventually('nothing is left', async () => (await second.lag(group, topic)).total === 0)
    expect(distinct(after.texts)).toEqual(sorted(late))
  })

  test('skips nothing when messages were acked out of order before a crash', async () => {
    const [first, second] = [await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 1 })
    const group = harness.fresh('group')
    const texts = await publishTexts(first, topic, 20)
    const kept = new Set([texts[3], texts[11]])
    const crashing = harness.join(first, { topic, group }, async (delivery) => {
      if (!kept.has(textOf(delivery))) await delivery.ack()
    })
    await harness.eventually('all were delivered', () => distinct(crashing.texts).length === 20)
    await first.close()
    const member = harness.join(second, { topic, group })
    await harness.eventually('those not acked come again', () =>
      [...kept].every((text) => member.texts.includes(text!)),
    )
    await harness.eventually('nothing is left', async () => (await second.lag(group, topic)).total === 0)
  })

  test('members that come and go lose nothing', async () => {
    const publisher = await harness.client()
    const topic = await harness.topic(publisher, { partitions: 4 })
    const group = harness.fresh('group')
    const acked = new Set<string>()
    const act = async (delivery: Parameters<typeof ackAll>[0]) => {
      if (delivery.signal.aborted) return
      acked.add(textOf(delivery))
      await delivery.ack()
    }
    const staying = harness.join(publisher, { topic, group, maxInFlight: 10 }, act)
    const published: string[] = []
    for (let round = 0; round < 3; round++) {
      published.push(...(await publishTexts(publisher, topic, 40, `before-${round}-`)))
      const client = await harness.client()
      const guest = harness.join(client, { topic, group, maxInFlight: 10 }, act)
      const during = await publishTexts(publisher, topic, 40, `during-${round}-`)
      published.push(...during)
      await harness.eventually('work goes on', () => during.some((text) => acked.has(text)))
      if (round % 2 === 0) await harness.within('the guest left', guest.leave())
      else await client.close()
    }
    await harness.eventually('all were acked', () => acked.size === published.length)
    expect(staying.over).toBe(false)
    expect([...acked].sort()).toEqual(sorted(published))
  })

  test('a member that joins takes over, and the one that had a message before can no longer settle it', async (context) => {
    harness.needs('reassignment', context)
    const [first, second, third] = [await harness.client(), await harness.client(), await harness.client()]
    const topic = await harness.topic(first, { partitions: 4 })
    const group = harness.fresh('group')
    await publishTexts(first, topic, 40)
    const before = harness.join(first, { topic, group }, hold)
    await harness.eventually('all are in flight', () => distinct(before.texts).length === 40)
    const after = harness.join(second, { topic, group }, hold)
    await harness.eventually('some were lost', () => before.deliveries.some((one) => one.signal.aborted))
    const lost = () => distinct(before.deliveries.filter((one) => one.signal.aborted).map(textOf))
    await harness.eventually('the other has what was lost', () => {
      const there = new Set(after.texts)
      return lost().every((text) => there.has(text))
    })
    const lostTexts = lost()
    expect(lostTexts.length).toBeLessThan(40)
    for (const one of before.deliveries) if (one.signal.aborted) await one.ack()
    // Both go: what the first acked after it had lost it must come again, since nobody else acked it.
    await Promise.all([first.close(), second.close()])
    const last = harness.join(third, { topic, group })
    await harness.eventually('what was lost comes again', () =>
      lostTexts.every((text) => last.texts.includes(text)),
    )
  })

  test('a handler that works longer than a session lasts keeps its messages', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 2 })
    const member = harness.join(client, { topic, maxInFlight: 4 }, async (delivery) => {
      await new Promise((resolve) => setTimeout(resolve, harness.slowHandlerMs))
      await delivery.ack()
    })
    const texts = await publishTexts(client, topic, 4)
    await harness.eventually('all are in work', () => member.texts.length >= 4)
    await new Promise((resolve) => setTimeout(resolve, harness.slowHandlerMs))
    await harness.eventually(
      'all are settled',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(distinct(member.texts)).toEqual(sorted(texts))
    expect(new Set(member.deliveries.map(placeOf)).size).toBe(member.deliveries.length)
    expect(member.deliveries.some((one) => one.signal.aborted)).toBe(false)
  })

  test('a group cannot consume a topic that does not exist', async () => {
    const client = await harness.client()
    const subscription = {
      topic: harness.fresh('missing'),
      group: harness.fresh('group'),
      maxInFlight: 1,
    } as const
    const consumption = client.consume(
      { ...subscription, from: 'earliest', ordering: 'none' },
      new AbortController().signal,
    )
    await harness.within(
      'it is refused',
      expectCode('topic_missing', consumption[Symbol.asyncIterator]().next()),
    )
  })

  test('a member that waits on an empty topic gets what comes, key by key in order', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const member = harness.join(client, { topic })
    for (let index = 0; index < 5; index++) {
      await client.publish(message(topic, `m${index}`, 'same'))
      await harness.eventually('it came', () => member.texts.includes(`m${index}`))
    }
    expect(firsts(member.texts)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4'])
  })
}
