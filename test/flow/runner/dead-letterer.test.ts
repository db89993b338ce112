import { afterEach, describe, expect, test, vi } from 'vitest'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { deadTopic, topicSpec } from '../../../src/broker/topics.ts'
import { GraphmillError } from '../../../src/errors.ts'
import { type AnyProcessor, defineProcessor } from '../../../src/flow/processor.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import { refusing, startFlow, type TestFlow, worker } from '../../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const start = async (processors: readonly AnyProcessor[], more = {}) =>
  (flow = await startFlow(processors, more))

/** Refuses every chunk, and says so. */
const speaking = defineProcessor({
  name: 'speaking',
  inputs: ['chunk'],
  outputs: ['rejected'],
  handle() {
    throw new GraphmillError('prompt_unknown', 'no such prompt')
  },
  async *onDead(_, error) {
    yield { to: 'rejected', payload: { items: [{ reason: error.code }] } }
  },
})

describe('a message that is given up', () => {
  test('is dead at once when it can never succeed, with the outputs of its onDead', async () => {
    const metrics = createMetrics()
    const { send, first, topic } = await start([speaking], { metrics })
    await send('chunk', { text: 'x' })
    expect((await first(topic('rejected'), 1))[0]!.payload).toMatchObject({
      items: [{ reason: 'prompt_unknown' }],
    })
    await expect
      .poll(() => metrics.registry.metrics())
      .toContain('graphmill_dead_letters_total{processor="speaking",code="prompt_unknown"} 1')
  })

  test('after it was brought back names that replay as the cause of its death', async () => {
    const { broker, first, topic } = await start([worker(() => undefined)])
    const headers = { id: 'one', documentId: 'urn:d', chunkId: 'urn:d/0/9' }
    for (const more of [{}, { replayed: 'replay-1' }])
      await broker.publish({
        topic: topic('chunk'),
        key: 'k',
        value: Buffer.from('no avro'),
        headers: { ...headers, ...more },
      })
    const deaths = await first(topic('progress'), 2)
    expect(deaths.map(({ causationId }) => causationId).sort()).toEqual(['one', 'replay-1'])
    expect(new Set(deaths.map(({ id }) => id)).size).toBe(2)
  })

  test('because its bytes are undecodable, or of an unknown schema, is dead with those bytes', async () => {
    const started = await start([worker(() => undefined)])
    const { broker, send, first, topic } = started
    const bad = [Buffer.from('not avro'), Buffer.from('c3010102030405060708aa', 'hex')]
    for (const value of bad)
      await broker.publish({
        topic: topic('chunk'),
        key: 'k',
        value,
        headers: { documentId: 'urn:d', chunkId: 'urn:d/0/9' },
      })
    await send('chunk', { text: 'neighbour' })
    const letters = await started.letters('chunk', 2)
    expect(letters.map(({ headers }) => headers['dead-code']).sort()).toEqual([
      'bytes_undecodable',
      'schema_unknown',
    ])
    expect(letters.map(({ value }) => Buffer.from(value).toString('hex')).sort()).toEqual(
      bad.map((value) => value.toString('hex')).sort(),
    )
    expect(await first(topic('topics'), 1)).toHaveLength(1)
    const dead = await first(topic('progress'), 2)
    for (const entry of dead)
      expect(entry).toMatchObject({ chunkId: 'urn:d/0/9', payload: { kind: 'dead', unit: 'worker' } })
  })
})

describe('a letter that can not be written as it is', () => {
  test('because its topic takes no such size keeps the beginning, and holds up none of its neighbours', async () => {
    const cluster = createMemoryCluster()
    const chunks = 'gm.flow.chunk.default.default'
    await cluster.connect().ensureTopics([
      { ...topicSpec(chunks), partitions: 1, maxBytes: 3 * 1024 * 1024 },
      { ...topicSpec(deadTopic(chunks)), maxBytes: 100 * 1024 },
    ])
    const started = await start([worker(() => undefined)], { cluster })
    const { broker, send, first, topic } = started
    const headers = {
      id: 'large',
      documentId: 'urn:d',
      chunkId: 'urn:d/0/9',
      huge: 'x'.repeat(200_000),
      last: 'z',
    }
    await broker.publish({ topic: chunks, key: 'k', value: Buffer.alloc(2_000_000, 'x'), headers })
    await send('chunk', { text: 'neighbour' })
    const [letter] = await started.letters('chunk', 1)
    expect(letter!.value.byteLength).toBeGreaterThan(1000)
    expect(Buffer.from(letter!.value).toString()).toMatch(/^x+$/)
    const { huge: _, ...others } = headers
    expect(letter!.headers).toMatchObject({
      ...others,
      'dead-code': 'message_too_large',
      'dead-cut': '2000000',
      'dead-topic': chunks,
      'dead-position': '0:0',
    })
    expect(await first(topic('topics'), 1)).toHaveLength(1)
    expect((await first(topic('progress'), 1))[0]).toMatchObject({
      chunkId: 'urn:d/0/9',
      payload: { kind: 'dead' },
    })
    const group = 'gm.worker.chunk.default.default'
    await expect.poll(async () => (await broker.lag(group, chunks)).total).toBe(0)
  })

  test('for a reason that only an operator can fix is tried again, less and less often', async () => {
    const tried: number[] = []
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    const { publish } = broker
    broker.publish = async (message) => {
      if (!message.topic.endsWith('.dead')) return publish(message)
      tried.push(performance.now())
      throw new GraphmillError('broker_refused', 'not for you')
    }
    vi.spyOn(Math, 'random').mockReturnValue(0.1)
    const { send } = await start(
      [worker(() => Promise.reject(new GraphmillError('message_invalid', 'no')))],
      {
        cluster,
        broker,
      },
    )
    await send('chunk', { text: 'poison' })
    await expect.poll(() => tried.length, { timeout: 10_000 }).toBe(5)
    vi.restoreAllMocks()
    const pauses = tried.slice(1).map((at, index) => at - tried[index]!)
    expect(pauses[3]!).toBeGreaterThan(2 * pauses[0]!)
  })

  test('is written though its headers fit into no entry on progress', async () => {
    const started = await start([worker(() => undefined)])
    const { broker, topic } = started
    const headers = { id: 'odd', documentId: 'd'.repeat(65 * 1024) }
    await broker.publish({ topic: topic('chunk'), key: 'k', value: Buffer.from('no avro'), headers })
    const [letter] = await started.letters('chunk', 1)
    expect(letter!.headers).toMatchObject({ ...headers, 'dead-code': 'bytes_undecodable' })
  })
})

describe('its order', () => {
  test('is onDead, an entry on progress, the letter, and only then the ack', async () => {
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    const { publish } = broker
    const stored: string[] = []
    const gate = Promise.withResolvers<void>()
    broker.publish = async (message) => {
      if (message.topic.endsWith('.dead')) await gate.promise
      await publish(message)
      if (/rejected|progress|dead/.test(message.topic)) stored.push(message.topic)
    }
    const { send, topic, letters } = await start([speaking], { cluster, broker })
    await send('chunk', { text: 'x' })
    await expect.poll(() => stored).toEqual([topic('rejected'), topic('progress')])
    const lag = async () => (await broker.lag('gm.speaking.chunk.default.default', topic('chunk'))).total
    expect(await lag()).toBe(1)
    gate.resolve()
    expect(await letters('chunk', 1)).toHaveLength(1)
    await expect.poll(lag).toBe(0)
    expect(stored).toEqual([topic('rejected'), topic('progress'), deadTopic(topic('chunk'))])
  })
})

describe('the topic of dead letters', () => {
  /** How often it was asked for. */
  function counting() {
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    const ensure = vi.spyOn(broker, 'ensureTopics')
    const asked = () =>
      ensure.mock.calls.flatMap(([topics]) => topics).filter(({ name }) => name.endsWith('.dead')).length
    return { cluster, broker, ensure, asked }
  }

  test('is asked for once, however many letters come', async () => {
    const { asked, ...made } = counting()
    const { send, letters } = await start([refusing()], made)
    for (let n = 0; n < 20; n++) await send('chunk', { text: `poison ${n}` })
    expect(await letters('chunk', 20)).toHaveLength(20)
    expect(asked()).toBe(1)
  })

  test('is asked for again when it could not be made', async () => {
    const { asked, ensure, ...made } = counting()
    const { send, letters } = await start([refusing()], made)
    ensure.mockRejectedValueOnce(new GraphmillError('broker_unavailable', 'away'))
    for (let n = 0; n < 20; n++) await send('chunk', { text: `poison ${n}` })
    expect(await letters('chunk', 20)).toHaveLength(20)
    expect(asked()).toBeLessThan(20)
  })

  test('is made again when it was deleted, and no message is handled twice for that', async () => {
    const { broker, send, topic, letters, all } = await start([speaking])
    await send('chunk', { text: 'first' })
    await letters('chunk', 1)
    await broker.deleteTopics([deadTopic(topic('chunk'))])
    for (let n = 0; n < 10; n++) await send('chunk', { text: `poison ${n}` })
    const found = await letters('chunk', 10)
    expect(new Set(found.map(({ headers }) => headers['dead-attempts']))).toEqual(new Set(['1']))
    expect(await all(topic('rejected'))).toHaveLength(11)
  })

  test('is made again when the topic of the message was deleted too', async () => {
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const slow = worker(async (text) => {
      if (text === 'first') throw new GraphmillError('message_invalid', 'no')
      entered.resolve()
      await gate.promise
      throw new GraphmillError('llm_unavailable', 'away')
    })
    const { broker, runtime, send, topic, letters } = await start([slow])
    await send('chunk', { text: 'first' })
    await letters('chunk', 1)
    await send('chunk', { text: 'in flight' })
    await entered.promise
    await broker.deleteTopics([topic('chunk'), deadTopic(topic('chunk'))])
    await expect(runtime.done).rejects.toMatchObject({ code: 'topic_missing' })
    gate.resolve()
    await runtime.stop(60_000)
    const [letter] = await letters('chunk', 1)
    expect(letter!.headers['dead-code']).toBe('llm_unavailable')
  })
})
