import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic, topicSpec } from '../../src/broker/topics.ts'
import { type ReplayContext, replayOne, replayWaiting } from '../../src/cli/replay.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'

const codec = createCodec(loadSchemas())
const source = 'gm.flow.chunk.default.default'
const progress = 'gm.flow.progress.default.default'
const letters = deadTopic(source)
const group = 'gm.dead-replay.flow.chunk.default.default.dead'

let cluster = createMemoryCluster()
let broker: Broker
let refused: string[] = []
let stop = new AbortController()
beforeEach(async () => {
  cluster = createMemoryCluster()
  broker = cluster.connect()
  refused = []
  stop = new AbortController()
  await broker.ensureTopics([source, progress, letters].map((name) => topicSpec(name)))
})
afterEach(async () => {
  stop.abort()
  await broker.close()
})

const place = (): ReplayContext => ({
  broker: cluster.connect(),
  codec,
  signal: stop.signal,
  onRefused: (letter, { code }) => refused.push(`${letter.headers['id']} ${code}`),
})

/** A dead letter as the runner writes it, for the chunk at `position`. */
const die = (id: string, position: number, headers: Record<string, string> = {}, value = Buffer.from(id)) =>
  broker.publish({
    topic: letters,
    key: 'k',
    value,
    headers: {
      id,
      documentId: 'urn:d',
      chunkId: `urn:d/0/${position}`,
      'dead-topic': source,
      'dead-position': `0:${position}`,
      'dead-code': 'unexpected',
      ...headers,
    },
  })

const stored = async (topic: string) => {
  const found: ReadMessage[] = []
  for await (const entry of broker.read({ topic, from: 'earliest', until: 'end' }, stop.signal))
    found.push(entry)
  return found
}
const said = async () =>
  (await stored(progress)).map(({ value, headers }) => codec.decode(value, headers) as Message<'Progress'>)

describe('replaying the waiting dead letters', () => {
  test('publishes each message unchanged, and reports it on progress', async () => {
    await die('one', 0)
    await die('two', 1)
    expect(await replayWaiting(place(), letters, group)).toBe(2)
    const back = await stored(source)
    expect(back.map(({ key, value }) => [key, Buffer.from(value).toString()])).toEqual([
      ['k', 'one'],
      ['k', 'two'],
    ])
    const entries = await said()
    expect(entries.map(({ causationId, chunkId, payload }) => [causationId, chunkId, payload.kind])).toEqual([
      ['one', 'urn:d/0/0', 'replayed'],
      ['two', 'urn:d/0/1', 'replayed'],
    ])
    // If it dies again, that death names the replay.
    expect(back.map(({ headers }) => headers)).toEqual(
      entries.map(({ id, chunkId, causationId }) => ({
        id: causationId,
        documentId: 'urn:d',
        chunkId,
        replayed: id,
      })),
    )
    expect(await replayWaiting(place(), letters, group)).toBe(0)
  })

  test('reports a dead letter that cannot be replayed, writes nothing about it to progress, and continues', async () => {
    await die('large', 0, {}, Buffer.alloc(750_000))
    await die('cut', 1, { 'dead-cut': '2000000' })
    await die('lost', 2, { 'dead-topic': 'gm.flow.chunk.default.gone' })
    await die('odd', 3, { 'dead-topic': 'of no one' })
    await die('small', 4)
    expect(await replayWaiting(place(), letters, group)).toBe(1)
    expect(refused).toEqual([
      'large message_too_large',
      'cut message_invalid',
      'lost topic_missing',
      'odd message_invalid',
    ])
    expect((await stored(source)).map(({ headers }) => headers['id'])).toEqual(['small'])
    expect((await said()).map(({ causationId }) => causationId)).toEqual(['small'])
  })

  test('replays a message over the size limit if its topic accepts it', async () => {
    await broker.deleteTopics([source])
    await broker.ensureTopics([{ ...topicSpec(source), maxBytes: 3 * 1024 * 1024 }])
    await die('large', 0, {}, Buffer.alloc(2_000_000))
    expect(await replayWaiting(place(), letters, group)).toBe(1)
    expect((await stored(source))[0]!.value.byteLength).toBe(2_000_000)
  })

  test('replays a message that died in several groups once', async () => {
    for (const processor of ['a', 'b', 'c']) await die('one', 0, { 'dead-processor': processor })
    expect(await replayWaiting(place(), letters, group)).toBe(3)
    expect(await stored(source)).toHaveLength(1)
  })

  test('ends for two concurrent replays, with every dead letter replayed', async () => {
    for (let position = 0; position < 50; position++) await die(`${position}`, position)
    const counts = await Promise.all([place(), place()].map((each) => replayWaiting(each, letters, group)))
    expect(counts[0]! + counts[1]!).toBe(50)
    expect(new Set((await stored(source)).map(({ headers }) => headers['id'])).size).toBe(50)
    expect((await broker.lag(group, letters)).total).toBe(0)
  })

  test('leaves messages that die again for the next replay, even if another replay has replayed the rest', async () => {
    for (let position = 0; position < 3; position++) await die(`${position}`, position)
    // Another replay has all of them in flight, and one dies again at once, repeatedly.
    const other = new AbortController()
    const subscription = {
      group,
      topic: letters,
      maxInFlight: 8,
      from: 'earliest',
      ordering: 'none',
    } as const
    const theirs = broker.consume(subscription, other.signal)[Symbol.asyncIterator]()
    const first = await theirs.next()
    const ours = replayWaiting(place(), letters, group)
    const poison = (async () => {
      for await (const { headers } of broker.read(
        { topic: source, from: 'latest', until: 'never' },
        stop.signal,
      ))
        await die(headers['id']!, 9, { replayed: headers['replayed']! })
    })()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await die('0', 9, { replayed: 'theirs-0' })
    await first.value!.ack()
    for (let taken = 1; taken < 3; taken++) await (await theirs.next()).value!.ack()
    other.abort()
    await theirs.next()
    expect(await ours).toBe(1)
    await expect.poll(async () => (await broker.lag(group, letters)).total).toBe(1)
    stop.abort()
    await poison
  })
})

test('the newest dead letter of a message is replayed by its id, even if it was replayed before', async () => {
  await die('one', 0)
  await die('one', 5, { replayed: 'before-0' })
  await die('two', 6)
  expect(await replayWaiting(place(), letters, group)).toBe(3)
  expect(await replayOne(place(), letters, 'one')).toBe(true)
  expect((await said()).at(-1)!.causationId).toBe('before-0')
  expect(await replayOne(place(), letters, 'none')).toBe(false)
})

test('a message that dies again before its replay is reported stays dead', async () => {
  const aggregate = createProgressAggregate()
  const entry = (payload: Partial<Message<'Progress'>['payload']>, causationId = ''): Message<'Progress'> => {
    const header = {
      source: 'test',
      time: 0,
      workspace: 'default',
      flow: 'default',
      collection: '',
      documentId: 'urn:d',
      chunkId: 'urn:d/0/0',
      correlationId: '',
      causationId,
      replyTo: null,
      deadline: null,
      traceparent: null,
    }
    const sealing = { topic: progress, salt: '', id: (digest: string) => digest }
    const { value, headers } = codec.encode(header, { type: 'Progress', payload } as never, sealing)
    return codec.decode(value, headers) as Message<'Progress'>
  }
  const dead = { kind: 'dead', topic: source, unit: 'u' }
  await die('one', 0)
  await replayWaiting(place(), letters, group)
  const [back] = await stored(source)
  aggregate.add(entry({ kind: 'document', parts: 1 }))
  aggregate.add(entry({ kind: 'part', part: 0, chunks: 1, units: ['u'] }))
  aggregate.add(entry(dead, 'one'))
  aggregate.add(entry(dead, back!.headers['replayed']))
  for (const message of await said()) aggregate.add(message)
  expect(aggregate.status('urn:d')).toMatchObject({ units: { dead: 1 } })
})
