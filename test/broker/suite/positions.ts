// Contract: the first position of a group, given before it has a member.
import { expect, test } from 'vitest'
import { distinct, type Harness, hold, message, publishTexts, sorted } from './harness.ts'

export function positions(harness: Harness): void {
  const startOf = (topic: string, from: 'earliest' | 'latest') =>
    ({ group: harness.fresh('group'), topic, from, ordering: 'none' }) as const

  test('a group that begins at the end has its place at once: what is published next is its own, whenever it joins', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 10, 'early')
    const start = startOf(topic, 'latest')
    await client.ensureGroups([start])
    expect((await client.lag(start.group, topic)).total).toBe(0)
    const next = await publishTexts(client, topic, 10, 'next')
    await (await harness.client()).ensureGroups([start])
    const member = harness.join(client, start)
    await harness.eventually('all came', () => distinct(member.texts).length >= 10)
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(start.group, topic)).total === 0,
    )
    expect(distinct(member.texts)).toEqual(sorted(next))
  })

  test('a group that begins at the oldest message gets all', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const early = await publishTexts(client, topic, 10, 'early')
    const start = startOf(topic, 'earliest')
    await client.ensureGroups([start])
    const next = await publishTexts(client, topic, 10, 'next')
    expect((await client.lag(start.group, topic)).total).toBeGreaterThanOrEqual(20)
    const member = harness.join(client, start)
    await harness.eventually('all came', () => distinct(member.texts).length === 20)
    expect(distinct(member.texts)).toEqual(sorted([...early, ...next]))
  })

  test('several processes may do it at once: what each publishes afterwards is read', async () => {
    const clients = await Promise.all([1, 2, 3, 4].map(() => harness.client()))
    const topic = await harness.topic(clients[0]!)
    const starts = Array.from({ length: 5 }, () => startOf(topic, 'latest'))
    const published = await Promise.all(
      clients.map(async (client, index) => {
        await client.ensureGroups(starts)
        return publishTexts(client, topic, 5, `of-${index}-`)
      }),
    )
    const members = starts.map((start, index) => harness.join(clients[index % 4]!, start))
    for (const member of members)
      await harness.eventually('a group saw all', () => distinct(member.texts).length === 20)
    expect(distinct(members[0]!.texts)).toEqual(sorted(published.flat()))
  })

  test('leaves groups that have members or a position as they are', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const [held, settled] = [startOf(topic, 'earliest'), startOf(topic, 'earliest')]
    await publishTexts(client, topic, 10, 'early')
    const holding = harness.join(await harness.client(), held, hold)
    const done = harness.join(client, settled)
    await harness.eventually(
      'both have them',
      () => distinct(holding.texts).length === 10 && distinct(done.texts).length === 10,
    )
    await harness.within('one has left', done.leave())
    await publishTexts(client, topic, 5, 'later')
    const lagOf = async ({ group }: { readonly group: string }) => (await client.lag(group, topic)).total
    const before = [await lagOf(held), await lagOf(settled)]
    await client.ensureGroups([held, settled].map((start) => ({ ...start, from: 'latest' as const })))
    await client.ensureGroups([held, settled])
    expect([await lagOf(held), await lagOf(settled)]).toEqual(before)
    await harness.eventually('its member goes on', () => distinct(holding.texts).length === 15)
    expect(holding.deliveries.some((one) => one.signal.aborted)).toBe(false)
  })

  test('does nothing for a topic that is missing, and all for the others', async () => {
    const client = await harness.client()
    const [topic, missing] = [await harness.topic(client), harness.fresh('missing')]
    const start = startOf(topic, 'latest')
    await client.ensureGroups([startOf(missing, 'latest'), start])
    await client.publish(message(topic, 'm'))
    const member = harness.join(client, start)
    await harness.eventually('it came', () => member.texts.includes('m'))
    expect(await client.hasTopic(missing)).toBe(false)
  })
}
