// Contract: making, listing and deleting topics, and how far a group is behind.
import { expect, test } from 'vitest'
import { distinct, expectCode, type Harness, hold, message, publishTexts, textOf } from './harness.ts'

export function topics(harness: Harness): void {
  test('makes the topics that are missing, and leaves those that exist as they are', async () => {
    const [one, other] = [await harness.client(), await harness.client()]
    const prefix = harness.fresh('made')
    const [first, second] = [`${prefix}.a`, `${prefix}.b`]
    await Promise.all([
      one.ensureTopics([{ name: first, partitions: 3 }]),
      other.ensureTopics([{ name: first, partitions: 3 }]),
    ])
    await one.publish(message(first, 'kept'))
    await other.ensureTopics([
      { name: first, partitions: 5 },
      { name: second, partitions: 1 },
    ])
    expect(await one.listTopics(prefix)).toEqual([
      { name: first, partitions: 3 },
      { name: second, partitions: 1 },
    ])
    expect(await harness.readAll(other, first)).toHaveLength(1)
  })

  test('can be used at once after it was made', async () => {
    const client = await harness.client()
    for (let round = 0; round < 5; round++) {
      const topic = await harness.topic(client)
      await client.publish(message(topic, 'm'))
      expect(await harness.readAll(client, topic)).toHaveLength(1)
    }
  })

  test('lists topics by the beginning of their names, in order', async () => {
    const client = await harness.client()
    const prefix = harness.fresh('listed')
    const names = ['c', 'a', 'b'].map((end) => `${prefix}.${end}`)
    await client.ensureTopics(names.map((name) => ({ name, partitions: 2 })))
    expect((await client.listTopics(`${prefix}.`)).map((topic) => topic.name)).toEqual([...names].sort())
    expect((await client.listTopics(`${prefix}.b`)).map((topic) => topic.name)).toEqual([`${prefix}.b`])
    expect(await client.listTopics(`${prefix}.nothing`)).toEqual([])
  })

  test('says how far a group is behind, down to nothing', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 3 })
    await publishTexts(client, topic, 30)
    const member = harness.join(client, { topic }, hold)
    await harness.eventually('all are in flight', () => distinct(member.texts).length === 30)
    const before = await client.lag(member.group, topic)
    const stored = (await harness.readAll(client, topic)).length // a repeated publish counts twice
    expect(before.total).toBe(stored)
    expect(before.partitions.reduce((sum, one) => sum + one.lag, 0)).toBe(stored)
    expect(before.partitions.every((one) => one.topic === topic)).toBe(true)
    for (const one of member.deliveries) await one.ack()
    await harness.eventually(
      'nothing is left',
      async () => (await client.lag(member.group, topic)).total === 0,
    )
    expect(await client.lag(harness.fresh('group'), topic)).toMatchObject({ total: stored, members: 0 })
  })

  test('says how many members a group has', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    const group = harness.fresh('group')
    const members = async () => (await client.lag(group, topic)).members
    expect(await members()).toBe(0)
    const first = harness.join(client, { topic, group })
    await harness.eventually('there is one', async () => (await members()) === 1)
    const second = harness.join(await harness.client(), { topic, group })
    await harness.eventually('there are two', async () => (await members()) === 2)
    await second.leave()
    await harness.eventually('there is one again', async () => (await members()) === 1)
    await first.leave()
    await harness.eventually('there is none', async () => (await members()) === 0)
  })

  test('deletes what every group has settled before given ends, and nothing else', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client, { partitions: 2 })
    const [slow, none] = [harness.fresh('slow'), { expected: [], ignored: [] }]
    await publishTexts(client, topic, 20)
    const fast = harness.join(client, { topic })
    const behind = harness.join(client, { topic, group: slow }, hold)
    const lagOf = async (group: string) => (await client.lag(group, topic)).total
    await harness.eventually('one group has settled all', async () => (await lagOf(fast.group)) === 0)
    await harness.eventually('the other holds all', () => distinct(behind.texts).length === 20)
    const ends = await client.ends(topic)
    await publishTexts(client, topic, 5, 'later')
    const first = await client.deleteSettled({ topic, ends, ...none })
    expect(first.groups.toSorted()).toEqual([fast.group, slow].toSorted())
    expect(first.deleted).toBe(false)
    expect(first.behind).toMatchObject([{ group: slow, members: 1 }])
    expect(distinct((await harness.readAll(client, topic)).map(textOf))).toHaveLength(25)
    await harness.eventually('it holds what came later, too', () => distinct(behind.texts).length === 25)
    for (const one of behind.deliveries) await one.ack()
    await harness.eventually(
      'all of it is deleted',
      async () => (await client.deleteSettled({ topic, ends, ...none })).deleted,
    )
    const left = distinct((await harness.readAll(client, topic)).map(textOf))
    expect(left.filter((text) => !text.startsWith('later'))).toEqual([])
    // Both groups go on where they were, and get what comes: it stays while one of them holds it.
    const last = await publishTexts(client, topic, 5, 'last')
    for (const { texts } of [fast, behind])
      await harness.eventually('what came is read', () => distinct(texts).length === 30)
    expect(await client.deleteSettled({ topic, ends, ...none })).toMatchObject({ behind: [], deleted: true })
    expect(distinct((await harness.readAll(client, topic)).map(textOf))).toEqual(
      expect.arrayContaining(distinct(last)),
    )
  })

  test('deletes nothing that a group without a position still expects, unless that group is ignored', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    await publishTexts(client, topic, 3)
    const ends = await client.ends(topic)
    const group = harness.fresh('group')
    const waiting = await client.deleteSettled({ topic, ends, expected: [group], ignored: [] })
    expect(waiting).toMatchObject({ behind: [{ group, members: 0 }], deleted: false })
    expect((await harness.readAll(client, topic)).length).toBeGreaterThanOrEqual(3)
    const deleted = await client.deleteSettled({ topic, ends, expected: [group], ignored: [group] })
    expect(deleted).toEqual({ groups: [], behind: [], deleted: true })
    expect(await harness.readAll(client, topic)).toEqual([])
    await publishTexts(client, topic, 1, 'new')
    expect(await harness.readAll(client, topic)).toHaveLength(1)
  })

  test('says that an empty topic has no lag', async () => {
    const client = await harness.client()
    const topic = await harness.topic(client)
    expect((await client.lag(harness.fresh('group'), topic)).total).toBe(0)
  })

  test('says whether a topic exists', async () => {
    const client = await harness.client()
    const topic = harness.fresh('there')
    expect(await client.hasTopic(topic)).toBe(false)
    await client.ensureTopics([{ name: topic, partitions: 1 }])
    expect(await client.hasTopic(topic)).toBe(true)
    await client.deleteTopics([topic])
    await harness.eventually('it is gone', async () => !(await client.hasTopic(topic)))
    expect(await client.listTopics(topic)).toEqual([])
  })

  test('deletes topics, and does not mind those that are gone', async () => {
    const [client, other] = [await harness.client(), await harness.client()]
    const [kept, deleted] = [await harness.topic(client), await harness.topic(client)]
    await publishTexts(client, deleted, 3)
    await client.deleteTopics([deleted])
    await harness.eventually('it is gone', async () => (await other.listTopics(deleted)).length === 0)
    await harness.eventually('publish is refused', () =>
      other.publish(message(deleted, 'm')).then(
        () => false,
        (error: unknown) => (error as { code?: string }).code === 'topic_missing',
      ),
    )
    await client.deleteTopics([deleted])
    await client.publish(message(kept, 'm'))
    await expectCode('topic_missing', other.publish(message(deleted, 'm')))
  })
}
