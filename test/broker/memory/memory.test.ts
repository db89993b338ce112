import { expect, test, vi } from 'vitest'
import type { Broker, Delivery, Subscription } from '../../../src/broker/broker.ts'
import { createMemoryCluster, type MemoryClusterOptions } from '../../../src/broker/memory/memory.ts'
import { maxSettledAboveMark } from '../../../src/broker/window/offsets.ts'
import { expectCode, message, publishTexts, textOf } from '../suite/harness.ts'
import { brokerSuite } from '../suite.ts'

brokerSuite('memory', async () => {
  const cluster = createMemoryCluster()
  return {
    connect: async () => cluster.connect(),
    stop: async () => {},
    publishForeign: (topic, value) => cluster.connect().publish({ topic, key: '', value, headers: {} }),
    patienceMs: 5000,
    slowHandlerMs: 200,
  }
})

const never = new AbortController().signal

/** A cluster with one topic, `t`. */
async function open(
  options: MemoryClusterOptions & { readonly partitions?: number; readonly topic?: string } = {},
) {
  const cluster = createMemoryCluster(options)
  const broker = cluster.connect()
  const topic = options.topic ?? 't'
  await broker.ensureTopics([{ name: topic, partitions: options.partitions ?? 1 }])
  return { cluster, broker, topic }
}

/** One iteration of a group, that takes a message at each `next`. */
function member(broker: Broker, subscription: Partial<Subscription> = {}, signal: AbortSignal = never) {
  const whole = {
    group: 'g',
    topic: 't',
    maxInFlight: 10_000,
    from: 'earliest',
    ordering: 'none',
    ...subscription,
  } as const
  const iterator = broker.consume(whole, signal)[Symbol.asyncIterator]()
  const next = async (): Promise<Delivery> => (await iterator.next()).value
  const take = async (count: number) => {
    const taken: Delivery[] = []
    while (taken.length < count) taken.push(await next())
    return taken
  }
  return { iterator, next, take }
}

async function readTexts(broker: Broker, topic = 't'): Promise<string[]> {
  const texts: string[] = []
  for await (const one of broker.read({ topic, from: 'earliest', until: 'end' }, never))
    texts.push(textOf(one))
  return texts
}

/** Whether a promise is still pending after everything that can happen by itself has happened. */
async function pending(promise: Promise<unknown>): Promise<boolean> {
  const idle = new Promise<'idle'>((resolve) => setImmediate(() => setImmediate(() => resolve('idle'))))
  return (
    (await Promise.race([
      promise.then(
        () => 'done',
        () => 'done',
      ),
      idle,
    ])) === 'idle'
  )
}

test('spreads partitions evenly, and moves no more than it must', async () => {
  const { broker } = await open({ partitions: 12 })
  await publishTexts(broker, 't', 200)
  const first = member(broker)
  const mine = await first.take(200)
  expect(new Set(mine.map((one) => one.partition)).size).toBe(12)
  void member(broker).next()
  await vi.waitFor(() => expect(mine.some((one) => one.signal.aborted)).toBe(true))
  const owned = () => new Set(mine.filter((one) => !one.signal.aborted).map((one) => one.partition))
  const [afterSecond, secondOwned] = [owned(), owned().size]
  expect(secondOwned).toBe(6)
  void member(broker).next()
  await vi.waitFor(() => expect(owned().size).toBe(4))
  expect([...owned()].every((partition) => afterSecond.has(partition))).toBe(true)
})

test('stops a partition when a thousand are settled above the mark, and goes on when the mark moves', async () => {
  const { broker } = await open()
  await publishTexts(broker, 't', maxSettledAboveMark + 100)
  const { next, take } = member(broker)
  const stuck = await next()
  for (const one of await take(maxSettledAboveMark)) await one.ack()
  const blocked = next()
  expect(await pending(blocked)).toBe(true)
  await stuck.ack()
  expect(textOf(await blocked)).toBe(`m${maxSettledAboveMark + 1}`)
})

test('repeats after a crash what was settled above the mark, and nothing below it', async () => {
  const { cluster, broker } = await open()
  await publishTexts(broker, 't', 5)
  const [m0, , m2] = await member(broker).take(5)
  await m0!.ack()
  await m2!.ack()
  await broker.close()
  const again = await member(cluster.connect()).take(4)
  expect(again.map(textOf)).toEqual(['m1', 'm2', 'm3', 'm4'])
})

test('has no more in flight than it may after a lost message was acked all the same', async () => {
  const { cluster, broker } = await open()
  await publishTexts(broker, 't', 10)
  const { next, take } = member(broker, { maxInFlight: 2 })
  const lost = await take(2)
  cluster.faults.evict('g')
  for (const one of lost) await one.ack()
  await take(2)
  expect(await pending(next())).toBe(true)
})

test('stays whole when losing a message makes a member leave', async () => {
  const { broker } = await open({ partitions: 4 })
  await publishTexts(broker, 't', 40)
  const stop = new AbortController()
  const first = member(broker, {}, stop.signal)
  for (const one of await first.take(40)) {
    one.signal.addEventListener('abort', () => void first.iterator.return?.())
  }
  const texts = (await member(broker).take(40)).map(textOf)
  expect(new Set(texts).size).toBe(40)
})

test('keeps only the newest message of each key of a compacted topic, for ever', async () => {
  const { broker } = await open({ dropSettled: true })
  await broker.ensureTopics([{ name: 'compacted', partitions: 1, compacted: true }])
  for (let version = 0; version < 1000; version++) {
    for (const key of ['a', 'b']) await broker.publish(message('compacted', `${key}${version}`, key))
  }
  expect(await readTexts(broker, 'compacted')).toEqual(['a999', 'b999'])
  for (const one of await member(broker, { topic: 'compacted' }).take(2)) await one.ack()
  expect((await broker.lag('g', 'compacted')).total).toBe(0)
  expect(await readTexts(broker, 'compacted')).toEqual(['a999', 'b999'])
})

test('ends a consumption and a read whose topic is deleted with topic_missing', async () => {
  const { broker } = await open()
  const consuming = member(broker).iterator.next()
  const reading = broker
    .read({ topic: 't', from: 'earliest', until: 'never' }, never)
    [Symbol.asyncIterator]()
    .next()
  await broker.deleteTopics(['t'])
  await expectCode('topic_missing', consuming)
  await expectCode('topic_missing', reading)
})

test('leaves what a handler has of a deleted topic to it, and throws topic_missing when the next is asked for', async () => {
  const { broker } = await open()
  await broker.publish(message('t', 'm'))
  const { iterator } = member(broker)
  const { value: inFlight } = await iterator.next()
  await broker.deleteTopics(['t'])
  expect(inFlight.signal.aborted).toBe(false)
  await inFlight.ack()
  await expectCode('topic_missing', iterator.next())
  expect(await iterator.next()).toMatchObject({ done: true })
})

test('ends at return even while a next is waiting', async () => {
  const { broker } = await open()
  const { iterator } = member(broker)
  const waiting = iterator.next()
  await iterator.return?.()
  expect(await waiting).toMatchObject({ done: true })
})

test('refuses everything after close', async () => {
  const { broker } = await open()
  await broker.close()
  await expectCode('broker_unavailable', broker.publish(message('t', 'm')))
  await expectCode('broker_unavailable', broker.lag('g', 't'))
  await expectCode('broker_unavailable', member(broker).iterator.next())
})

test('leaves no timer running when messages that wait to be delivered again are given up', async () => {
  const { broker } = await open()
  await publishTexts(broker, 't', 3)
  vi.useFakeTimers()
  try {
    for (const one of await member(broker).take(3)) await one.retryLater(60_000)
    expect(vi.getTimerCount()).toBe(3)
    await broker.close()
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

test('stamps messages by the clock it was given', async () => {
  const { broker } = await open({ now: () => 1234 })
  await publishTexts(broker, 't', 1)
  expect((await member(broker).next()).timestamp).toBe(1234)
})

test('with dropSettled, forgets what every group has settled and every reader has passed', async () => {
  const { broker } = await open({ dropSettled: true })
  const [one, other] = [member(broker, { group: 'one' }), member(broker, { group: 'other' })]
  const firsts = [one.next(), other.next()]
  const reader = broker.read({ topic: 't', from: 'earliest', until: 'never' }, never)[Symbol.asyncIterator]()
  const read = reader.next()
  await publishTexts(broker, 't', 4)
  await read
  for (const delivery of [await firsts[0]!, ...(await one.take(3))]) await delivery.ack()
  expect(await readTexts(broker)).toEqual(['m0', 'm1', 'm2', 'm3'])
  for (const delivery of [await firsts[1]!, ...(await other.take(2))]) await delivery.ack()
  expect(await readTexts(broker)).toEqual(['m1', 'm2', 'm3']) // the reader has passed only the first
  await reader.return?.()
  expect(await readTexts(broker)).toEqual(['m3'])
})

test('with dropSettled, keeps what no group has seen, unless discard says that none will', async () => {
  const { broker } = await open({ dropSettled: true, discard: (topic) => topic === 'nobody' })
  await broker.ensureTopics([{ name: 'nobody', partitions: 1 }])
  const following = broker
    .read({ topic: 'nobody', from: 'earliest', until: 'never' }, never)
    [Symbol.asyncIterator]()
  const first = following.next()
  await publishTexts(broker, 't', 2)
  await publishTexts(broker, 'nobody', 2)
  expect(await readTexts(broker)).toEqual(['m0', 'm1'])
  expect((await first).value).toMatchObject({ key: 'm0' })
  expect((await following.next()).value).toMatchObject({ key: 'm1' })
  expect(await readTexts(broker, 'nobody')).toEqual([])
})

test('with maxTopicBytes, publishers wait for a group that is behind, and go on in order', async () => {
  const { broker } = await open({ maxTopicBytes: 10_000 })
  const { next } = member(broker)
  const first = next()
  const value = new Uint8Array(6000)
  const publish = (key: string) => broker.publish({ topic: 't', key, value, headers: {} })
  await publish('a')
  await publish('b')
  const [c, d] = [publish('c'), publish('d')]
  expect([await pending(c), await pending(d)]).toEqual([true, true])
  await (await first).ack()
  await c
  expect(await pending(d)).toBe(true)
  await (await next()).ack()
  await d
  expect([(await next()).key, (await next()).key]).toEqual(['c', 'd'])
})

test.each([
  { what: 'a topic without groups', topic: 't', group: false },
  { what: 'a response topic', topic: 'gm.response.prompt.extract-topics.default.default', group: true },
])('publishers do not wait on $what', async ({ topic, group }) => {
  const { broker } = await open({ maxTopicBytes: 1000, topic })
  if (group) void member(broker, { topic }).next()
  await publishTexts(broker, topic, 50)
  expect(await readTexts(broker, topic)).toHaveLength(50)
})

test('publishers that wait go on when the group drains or goes, so that a drain cannot lock up', async () => {
  for (const end of ['drain', 'leave'] as const) {
    const { broker } = await open({ maxTopicBytes: 1000 })
    const stop = new AbortController()
    const { iterator, next } = member(broker, {}, stop.signal)
    const first = next()
    await publishTexts(broker, 't', 2)
    await first
    const waiting = broker.publish(message('t', 'waiting'))
    expect(await pending(waiting)).toBe(true)
    if (end === 'drain') stop.abort()
    else await iterator.return?.()
    await waiting
  }
})

test('publishers that wait fail when their client closes or the topic is deleted', async () => {
  const { cluster, broker } = await open({ maxTopicBytes: 1000 })
  const other = cluster.connect()
  void member(other).next()
  await publishTexts(other, 't', 2)
  const closing = broker.publish(message('t', 'closing'))
  const deleted = other.publish(message('t', 'deleted'))
  await broker.close()
  await expectCode('broker_unavailable', closing)
  expect(await pending(deleted)).toBe(true)
  await other.deleteTopics(['t'])
  await expectCode('topic_missing', deleted)
})

test('holds a bounded number of bytes while far more passes through', async () => {
  const { broker } = await open({ dropSettled: true, maxTopicBytes: 1_000_000, partitions: 3 })
  const stop = new AbortController()
  let passed = 0
  const consuming = (async () => {
    const { iterator } = member(broker, { maxInFlight: 10 }, stop.signal)
    for (;;) {
      const { value, done } = await iterator.next()
      if (done) return
      passed += (value as Delivery).value.byteLength
      await (value as Delivery).ack()
    }
  })()
  let most = 0
  for (let round = 0; round < 100; round++) {
    const batch = Array.from({ length: 50 }, (_, index) =>
      broker.publish({ topic: 't', key: `${round} ${index}`, value: new Uint8Array(10_000), headers: {} }),
    )
    await Promise.all(batch)
    most = Math.max(most, (await readTexts(broker)).length * 10_000)
  }
  stop.abort()
  await consuming
  expect(passed).toBeGreaterThan(40_000_000)
  expect(most).toBeLessThan(1_100_000)
})

test('a fault makes publishing fail for some topics and for a while', async () => {
  const { cluster, broker } = await open()
  await broker.ensureTopics([{ name: 'other', partitions: 1 }])
  const endFault = cluster.faults.failPublish((topic) => topic === 't')
  await expectCode('broker_unavailable', broker.publish(message('t', 'lost')))
  await broker.publish(message('other', 'stored'))
  endFault()
  await broker.publish(message('t', 'stored again'))
  expect(await readTexts(broker)).toEqual(['stored again'])
  cluster.faults.failPublish(() => true, { stored: true })
  await expectCode('broker_unavailable', broker.publish(message('t', 'answer lost')))
  expect(await readTexts(broker)).toEqual(['stored again', 'answer lost'])
})

test('a fault takes the messages in flight from members, and they get them again', async () => {
  const { cluster, broker } = await open()
  await publishTexts(broker, 't', 4)
  const { next, take } = member(broker)
  const [m0, m1, m2] = await take(3)
  await m0!.ack()
  await m1!.ack()
  expect(cluster.faults.evict('g')).toBe(1)
  expect(m2!.signal.aborted).toBe(true)
  await m2!.ack()
  expect((await take(2)).map(textOf)).toEqual(['m2', 'm3'])
  cluster.faults.evict('g', { rewind: 1 })
  expect(textOf(await next())).toBe('m1')
})

test('a message of another key is found behind many that wait for one', async () => {
  const { broker } = await open()
  await publishTexts(broker, 't', 100, 'm', () => 'stuck')
  await broker.publish(message('t', 'other', 'other'))
  const { take } = member(broker, { ordering: 'key' })
  expect((await take(2)).map(textOf)).toEqual(['m0', 'other'])
})
