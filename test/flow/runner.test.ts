import { afterEach, describe, expect, test, vi } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory.ts'
import { deadTopic, topicName, topicSpec } from '../../src/broker/topics.ts'
import { GraphmillError } from '../../src/errors.ts'
import { type AnyProcessor, defineProcessor } from '../../src/flow/processor.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { scope, startFlow, type TestFlow } from '../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const start = async (processors: readonly AnyProcessor[], more = {}) =>
  (flow = await startFlow(processors, more))

/** Turns a chunk into a topics message; its text steers it. */
const worker = (handle: (text: string, attempt: number) => void | Promise<void>) => {
  const attempts = new Map<string, number>()
  return defineProcessor({
    name: 'worker',
    inputs: ['chunk'],
    outputs: ['topics'],
    async *handle(message) {
      const { text } = message.payload
      attempts.set(text, (attempts.get(text) ?? 0) + 1)
      await handle(text, attempts.get(text)!)
      yield {
        to: 'topics',
        payload: { run: { id: 'r', startedAt: 1 }, facts: [{ topic: text, definition: 'd' }] },
      }
    },
  })
}

const readRaw = async ({ broker }: TestFlow, topic: string, count: number) => {
  const letters = []
  for await (const entry of broker.read(
    { topic, from: 'earliest', until: 'never' },
    AbortSignal.timeout(20_000),
  )) {
    letters.push(entry)
    if (letters.length === count) break
  }
  return letters
}

const untilTopic = async ({ broker }: TestFlow, topic: string) => {
  while ((await broker.listTopics(topic)).length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe('a message that can be handled', () => {
  test('becomes messages that inherit its envelope and name its id as their cause', async () => {
    const { send, first, topic } = await start([worker(() => undefined)])
    const id = await send(
      'chunk',
      { text: 'mills' },
      { documentId: 'urn:x', chunkId: 'urn:x/0/3', collection: 'books' },
    )
    const [message] = await first(topic('topics'), 1)
    expect(message).toMatchObject({
      ...scope,
      source: 'worker',
      causationId: id,
      documentId: 'urn:x',
      chunkId: 'urn:x/0/3',
      collection: 'books',
    })
  })

  test('is acked only when the broker has stored what it led to', async () => {
    let handled = 0
    const started = await start([worker(() => void handled++)])
    const { cluster, broker, send, topic } = started
    const heal = cluster.faults.failPublish((name) => name === topic('topics'))
    await send('chunk', { text: 'mills' })
    const group = 'gm.worker.chunk.default.default'
    await expect.poll(() => handled).toBe(1)
    expect((await broker.lag(group, topic('chunk'))).total).toBe(1)
    heal()
    await started.first(topic('topics'), 1)
    await expect.poll(async () => (await broker.lag(group, topic('chunk'))).total).toBe(0)
  })

  test('is settled only when what its handler defers to resolves, and handled again when that rejects', async () => {
    const waits: PromiseWithResolvers<void>[] = []
    const waiter = defineProcessor({
      name: 'worker',
      inputs: ['chunk'],
      outputs: [],
      // biome-ignore lint/correctness/useYield: it only waits
      async *handle() {
        waits.push(Promise.withResolvers())
        return { after: waits.at(-1)!.promise }
      },
    })
    const { send, broker, topic } = await start([waiter])
    await send('chunk', { text: 'mills' })
    const lag = async () => (await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total
    await vi.waitFor(() => expect(waits).toHaveLength(1))
    waits[0]!.reject(new GraphmillError('broker_unavailable', 'away'))
    await vi.waitFor(() => expect(waits).toHaveLength(2), 10_000)
    expect(await lag()).toBe(1)
    waits[1]!.resolve()
    await vi.waitFor(async () => expect(await lag()).toBe(0))
  })

  test('gives the same ids when it is handled again', async () => {
    const cluster = createMemoryCluster()
    const { send, first, topic } = await start([worker(() => undefined)], { cluster })
    await send('chunk', { text: 'mills' }, { id: 'one' })
    await first(topic('topics'), 1)
    await send('chunk', { text: 'mills' }, { id: 'one' })
    await send('chunk', { text: 'mills' }, { id: 'two' })
    const ids = (await first(topic('topics'), 3)).map(({ id, causationId }) => ({ id, causationId }))
    const ofOne = ids.filter(({ causationId }) => causationId === 'one')
    expect(ofOne[0]!.id).toBe(ofOne[1]!.id)
    expect(new Set(ids.map(({ id }) => id)).size).toBe(2)
  })

  test('gives equal outputs of its own different ids', async () => {
    const twice = defineProcessor({
      name: 'twice',
      inputs: ['chunk'],
      outputs: ['topics'],
      async *handle() {
        for (let n = 0; n < 2; n++)
          yield { to: 'topics', payload: { run: { id: 'r', startedAt: 1 }, facts: [] } }
      },
    })
    const { send, first, topic } = await start([twice])
    await send('chunk', { text: 'x' })
    const [one, other] = await first(topic('topics'), 2)
    expect(one!.id).not.toBe(other!.id)
  })
})

describe('a message that fails', () => {
  test('is tried again for as long as the failure is of the kind that passes', async () => {
    const { send, first, topic } = await start([
      worker((_, attempt) => {
        if (attempt < 4) throw new GraphmillError('llm_unavailable', 'away')
      }),
    ])
    await send('chunk', { text: 'mills' })
    expect(await first(topic('topics'), 1)).toHaveLength(1)
  })

  test('unexpectedly is tried three times, then dead-lettered with its bytes, and said on progress', async () => {
    let tries = 0
    const started = await start([
      worker((text) => {
        if (text !== 'poison') return
        tries++
        throw new TypeError('x is not a function')
      }),
    ])
    const { send, first, topic } = started
    const id = await send('chunk', { text: 'poison' })
    await send('chunk', { text: 'neighbour' })
    await untilTopic(started, deadTopic(topic('chunk')))
    const [letter] = await readRaw(started, deadTopic(topic('chunk')), 1)
    expect(tries).toBe(3)
    expect(letter!.headers).toMatchObject({
      id,
      'dead-code': 'unexpected',
      'dead-message': 'x is not a function',
      'dead-processor': 'worker',
      'dead-topic': topic('chunk'),
      'dead-attempts': '3',
    })
    expect(started.codec.decode(letter!.value, letter!.headers)).toMatchObject({
      id,
      payload: { text: 'poison' },
    })
    expect((await first(topic('topics'), 1))[0]!.payload).toMatchObject({ facts: [{ topic: 'neighbour' }] })
    expect((await first(topic('progress'), 1))[0]!.payload).toMatchObject({
      kind: 'dead',
      unit: 'worker',
      error: { type: 'unexpected' },
    })
  })

  test('is dead at once when it can never succeed, with the last words of its processor', async () => {
    const metrics = createMetrics()
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
    const { send, first, topic } = await start([speaking], { metrics })
    await send('chunk', { text: 'x' })
    expect((await first(topic('rejected'), 1))[0]!.payload).toMatchObject({
      items: [{ reason: 'prompt_unknown' }],
    })
    await expect
      .poll(() => metrics.registry.metrics())
      .toContain('graphmill_dead_letters_total{processor="speaking",code="prompt_unknown"} 1')
  })

  test('past its deadline is dead without being handled', async () => {
    let handled = 0
    const started = await start([worker(() => void handled++)])
    const { send, topic } = started
    await send('chunk', { text: 'late' }, { deadline: Date.now() - 1 })
    await untilTopic(started, deadTopic(topic('chunk')))
    const [letter] = await readRaw(started, deadTopic(topic('chunk')), 1)
    expect(letter!.headers['dead-code']).toBe('deadline_exceeded')
    expect(handled).toBe(0)
  })

  test('for a reason that only a person can mend pauses and says so on progress', async () => {
    const { send, first, topic, broker } = await start([
      worker(() => {
        throw new GraphmillError('llm_authentication', 'wrong key')
      }),
    ])
    await send('chunk', { text: 'x' })
    expect((await first(topic('progress'), 1))[0]!.payload).toMatchObject({
      kind: 'paused',
      error: { type: 'llm_authentication' },
    })
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
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
    await untilTopic(started, deadTopic(topic('chunk')))
    const letters = await readRaw(started, deadTopic(topic('chunk')), 2)
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
    const [letter] = await readRaw(started, deadTopic(chunks), 1)
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

  test('because somebody else must act is tried again, less and less often', async () => {
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

  test('because its topic was deleted makes it again; while it is there nobody asks for it again', async () => {
    const cluster = createMemoryCluster()
    const broker = cluster.connect()
    const ensure = vi.spyOn(broker, 'ensureTopics')
    const refuse = () => Promise.reject(new GraphmillError('message_invalid', 'no'))
    const started = await start([worker(refuse)], { cluster, broker })
    const { send, topic } = started
    const dead = deadTopic(topic('chunk'))
    const asked = () => ensure.mock.calls.flatMap(([topics]) => topics).filter(({ name }) => name === dead)
    for (let n = 0; n < 20; n++) await send('chunk', { text: `poison ${n}` })
    await untilTopic(started, dead)
    expect(await readRaw(started, dead, 20)).toHaveLength(20)
    expect(asked()).toHaveLength(1)
    await broker.deleteTopics([dead])
    await send('chunk', { text: 'later' })
    await untilTopic(started, dead)
    expect(await readRaw(started, dead, 1)).toHaveLength(1)
    expect(asked()).toHaveLength(2)
  })

  test('is written though its headers fit into no entry on progress', async () => {
    const started = await start([worker(() => undefined)])
    const { broker, topic } = started
    const headers = { id: 'odd', documentId: 'd'.repeat(65 * 1024) }
    await broker.publish({ topic: topic('chunk'), key: 'k', value: Buffer.from('no avro'), headers })
    await untilTopic(started, deadTopic(topic('chunk')))
    const [letter] = await readRaw(started, deadTopic(topic('chunk')), 1)
    expect(letter!.headers).toMatchObject({ ...headers, 'dead-code': 'bytes_undecodable' })
  })
})

describe('replies', () => {
  const echo = defineProcessor({
    name: 'echo',
    inputs: ['prompt'],
    outputs: ['reply'],
    async *handle(message) {
      handled++
      yield { to: 'reply', payload: { run: { id: 'r', startedAt: 1 }, text: message.payload.promptId } }
    },
    async *onDead(_, error) {
      yield {
        to: 'reply',
        payload: { run: { id: 'r', startedAt: 1 }, error: { type: error.code, message: error.message } },
      }
    },
  })
  let handled = 0
  const replyTo = topicName({ space: 'gm', class: 'response', role: 'prompt', receiver: 'client', ...scope })

  test('go to the response topic that the request names, under its correlation id', async () => {
    const { broker, send, first } = await start([echo])
    await broker.ensureTopics([topicSpec(replyTo)])
    const id = await send('prompt', { promptId: 'p', terms: {} }, { replyTo })
    expect((await first(replyTo, 1))[0]).toMatchObject({ correlationId: id, payload: { text: 'p' } })
  })

  test('to a topic that is gone, of another flow or of no flow are refused, and the request is dead, at once', async () => {
    handled = 0
    const started = await start([echo])
    const { send, topic } = started
    const foreign = topicName({
      space: 'gm',
      class: 'response',
      role: 'prompt',
      receiver: 'client',
      workspace: 'other',
      flow: 'default',
    })
    for (const address of [replyTo, foreign, topic('chunk'), 'nonsense', null])
      await send('prompt', { promptId: 'p', terms: {} }, { replyTo: address })
    await untilTopic(started, deadTopic(topic('prompt')))
    const letters = await readRaw(started, deadTopic(topic('prompt')), 5)
    const codes = letters.map(({ headers }) => headers['dead-code']).sort()
    expect(codes).toEqual([
      'reply_topic_refused',
      'reply_topic_refused',
      'reply_topic_refused',
      'reply_topic_refused',
      'topic_missing',
    ])
    expect(handled).toBe(1)
  })
})

describe('stopping', () => {
  test('finishes what is in hand and takes nothing more', async () => {
    let release = () => {}
    const entered = new Promise<void>((resolve) => (release = resolve))
    let finish = () => {}
    const gate = new Promise<void>((resolve) => (finish = resolve))
    const slow = {
      ...worker(async () => {
        release()
        await gate
      }),
      maxInFlight: 1,
    }
    const started = await start([slow])
    const { send, mill, all, topic, broker } = started
    await send('chunk', { text: 'in hand' })
    await send('chunk', { text: 'left' })
    await entered
    const stopped = mill.stop(20_000)
    finish()
    await stopped
    expect((await all(topic('topics'))).map(({ payload }) => payload)).toMatchObject([
      { facts: [{ topic: 'in hand' }] },
    ])
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
  })

  test('hands back what does not finish within the grace period', async () => {
    let release = () => {}
    const entered = new Promise<void>((resolve) => (release = resolve))
    const stuck = defineProcessor({
      name: 'worker',
      inputs: ['chunk'],
      outputs: ['topics'],
      async *handle(_, context) {
        release()
        await new Promise((_, reject) =>
          context.signal.addEventListener('abort', () => reject(context.signal.reason)),
        )
      },
    })
    const { send, mill, topic, broker } = await start([stuck])
    await send('chunk', { text: 'x' })
    await entered
    await mill.stop(10)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
  })
})

describe('a topic of the flow that is gone', () => {
  const gone = expect.objectContaining({ code: 'topic_missing' })

  test('ends the loops, and a message that leads there is handled again when it is back, and never given up', async () => {
    const cluster = createMemoryCluster()
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const slow = worker(async () => {
      entered.resolve()
      await gate.promise
    })
    const { send, topic, broker, mill } = await start([slow], { cluster })
    const id = await send('chunk', { text: 'mills' })
    await entered.promise
    await broker.deleteTopics([topic('topics')])
    gate.resolve()
    await expect(mill.done).rejects.toEqual(gone)
    await mill.stop(10_000)
    expect(await broker.listTopics(deadTopic(topic('chunk')))).toEqual([])
    const again = await start([worker(() => undefined)], { cluster })
    expect(await again.first(topic('topics'), 1)).toMatchObject([{ causationId: id }])
  })

  test('is told at once, and what is in hand of others is finished before the end', async () => {
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const slow = worker(async () => {
      entered.resolve()
      await gate.promise
    })
    const idle = defineProcessor({ name: 'idle', inputs: ['document'], outputs: [], async *handle() {} })
    const { send, topic, broker, mill, all } = await start([slow, idle])
    await send('chunk', { text: 'mills' })
    await entered.promise
    await broker.deleteTopics([topic('document')])
    await expect(mill.done).rejects.toEqual(gone)
    let ended = false
    const stopped = mill.stop(60_000).then(() => (ended = true))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(ended).toBe(false)
    gate.resolve()
    await stopped
    expect(await all(topic('topics'))).toHaveLength(1)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(0)
  })

  test('leaves what is in hand of it to be finished, and what fails of that to its dead-letter topic', async () => {
    const entered: string[] = []
    const gate = Promise.withResolvers<void>()
    const slow = worker(async (text) => {
      entered.push(text)
      await gate.promise
      if (text === 'bad') throw new GraphmillError('llm_unavailable', 'away')
    })
    const started = await start([slow])
    const { send, topic, broker, mill, all } = started
    await send('chunk', { text: 'good' })
    await send('chunk', { text: 'bad' })
    await expect.poll(() => entered.length).toBe(2)
    await broker.deleteTopics([topic('chunk')])
    await expect(mill.done).rejects.toEqual(gone)
    gate.resolve()
    await mill.stop(60_000)
    expect(await all(topic('topics'))).toHaveLength(1)
    const [letter] = await readRaw(started, deadTopic(topic('chunk')), 1)
    expect(letter!.headers['dead-code']).toBe('llm_unavailable')
  })

  test('keeps a message from dying unsaid', async () => {
    const cluster = createMemoryCluster()
    const refusing = worker(() => {
      throw new GraphmillError('message_invalid', 'no')
    })
    const { send, topic, broker, mill } = await start([refusing], { cluster })
    await broker.deleteTopics([topic('progress')])
    await send('chunk', { text: 'x' })
    await expect(mill.done).rejects.toEqual(gone)
    await mill.stop(10_000)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
    const again = await start([refusing], { cluster })
    const [entry] = await again.first(topic('progress'), 1)
    expect(entry!.payload).toMatchObject({ kind: 'dead', error: { type: 'message_invalid' } })
    await untilTopic(again, deadTopic(topic('chunk')))
  })
})
