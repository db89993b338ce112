import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Broker } from '../../../src/broker/broker.ts'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { deadTopic, topicName, topicSpec } from '../../../src/broker/topics.ts'
import { GraphmillError } from '../../../src/errors.ts'
import { type AnyProcessor, defineProcessor } from '../../../src/flow/processor.ts'
import type { Message } from '../../../src/messages/envelope.ts'
import { scope, startFlow, type TestFlow, worker } from '../../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const start = async (processors: readonly AnyProcessor[], more = {}) =>
  (flow = await startFlow(processors, more))

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
    const letters = await started.letters('prompt', 5)
    const codes = letters.map(({ headers }) => headers['dead-code']).sort()
    expect(codes).toEqual([
      'reply_topic_missing',
      'reply_topic_refused',
      'reply_topic_refused',
      'reply_topic_refused',
      'reply_topic_refused',
    ])
    expect(handled).toBe(0)
  })

  test.each(['is looked up', 'is written to'])(
    'to a topic that is refused when it %s: the requests are dead, and no others wait',
    async (when) => {
      handled = 0
      const cluster = createMemoryCluster()
      const barred = topicName({
        space: 'gm',
        class: 'response',
        role: 'prompt',
        receiver: 'barred',
        ...scope,
      })
      const connection = cluster.connect()
      const refuse = (topic: string) => {
        if (topic === barred) throw new GraphmillError('topic_refused', `${topic}: not for you`)
      }
      const broker: Broker = {
        ...connection,
        async hasTopic(topic) {
          if (when === 'is looked up') refuse(topic)
          return connection.hasTopic(topic)
        },
        async publish(message) {
          refuse(message.topic)
          return connection.publish(message)
        },
      }
      const { send, first, letters, all, topic } = await start([echo], { broker, cluster })
      await connection.ensureTopics([topicSpec(replyTo), topicSpec(barred)])
      // More than the processor has in flight at once.
      const count = 70
      for (let n = 0; n < count; n++) await send('prompt', { promptId: 'p', terms: {} }, { replyTo: barred })
      const id = await send('prompt', { promptId: 'p', terms: {} }, { replyTo })
      expect(await first(replyTo, 1)).toMatchObject([{ correlationId: id }])
      const dead = await letters('prompt', count)
      expect(dead.map(({ headers }) => headers['dead-code'])).toEqual(
        Array(count).fill('reply_topic_refused'),
      )
      expect(handled).toBe(when === 'is looked up' ? 1 : count + 1)
      const said = (await all(topic('progress'))) as Message<'Progress'>[]
      expect(said.map(({ payload }) => payload.kind)).toEqual(Array(count).fill('dead'))
    },
  )

  test('to a client that leaves while its request is handled: the request is dead, the flow goes on', async () => {
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const slow = defineProcessor({
      ...echo,
      async *handle(message, context) {
        entered.resolve()
        await gate.promise
        yield* echo.handle(message, context)
      },
    })
    const { broker, send, first, letters } = await start([slow])
    await broker.ensureTopics([topicSpec(replyTo)])
    await send('prompt', { promptId: 'p', terms: {} }, { replyTo })
    await entered.promise
    await broker.deleteTopics([replyTo])
    gate.resolve()
    const [letter] = await letters('prompt', 1)
    expect(letter!.headers).toMatchObject({ 'dead-code': 'reply_topic_missing', 'dead-processor': 'echo' })
    await broker.ensureTopics([topicSpec(replyTo)])
    const id = await send('prompt', { promptId: 'p', terms: {} }, { replyTo })
    expect(await first(replyTo, 1)).toMatchObject([{ correlationId: id }])
  })
})

describe('the context of a request', () => {
  const echo = defineProcessor({
    name: 'echo',
    inputs: ['prompt'],
    outputs: ['reply'],
    async *handle({ payload: { context } }) {
      yield { to: 'reply', payload: { run: { id: 'r', startedAt: 1 }, context } }
    },
  })

  test('has at most 4 KiB of UTF-8, names and values together', async () => {
    const replyTo = topicName({
      space: 'gm',
      class: 'response',
      role: 'prompt',
      receiver: 'client',
      ...scope,
    })
    const { broker, send, first, letters } = await start([echo])
    await broker.ensureTopics([topicSpec(replyTo)])
    const ask = (context: Record<string, string>) =>
      send('prompt', { promptId: 'p', terms: {}, context }, { replyTo })
    const fits = 'é'.repeat((4096 - 'name'.length) / 2)
    const id = await ask({ name: fits })
    expect(await first(replyTo, 1)).toMatchObject([
      { correlationId: id, payload: { context: { name: fits } } },
    ])
    const tooLarge = await ask({ name: `${fits}x` })
    const [letter] = await letters('prompt', 1)
    expect(letter!.headers).toMatchObject({ id: tooLarge, 'dead-code': 'context_too_large' })
  })
})

describe('what is no message of its topic', () => {
  test('is a dead letter that says so: another type, no value', async () => {
    const said: string[] = []
    const topics = (text: string) => {
      said.push(text)
      return {
        to: 'topics' as const,
        payload: { run: { id: 'r', startedAt: 1 }, facts: [{ topic: text, definition: 'd' }] },
      }
    }
    const listening = defineProcessor({
      name: 'worker',
      inputs: ['chunk'],
      outputs: ['topics'],
      async *handle() {
        yield topics('handled')
      },
      async *onDead(_, { code }) {
        yield topics(code)
      },
    })
    const { broker, codec, topic, letters } = await start([listening])
    const header = {
      source: 'test',
      time: 0,
      ...scope,
      collection: 'default',
      documentId: 'urn:d',
      chunkId: 'urn:d/0/0',
      correlationId: 'c',
      causationId: '',
      replyTo: null,
      deadline: null,
      traceparent: null,
    }
    const request = { type: 'PromptRequest', payload: { promptId: 'p', terms: {} } } as const
    await broker.publish(codec.encode(header, request, { topic: topic('chunk'), salt: '', id: (id) => id }))
    await broker.publish({ topic: topic('chunk'), key: 'k', value: new Uint8Array(), headers: {} })
    const dead = await letters('chunk', 2)
    expect(dead.map(({ headers }) => [headers['dead-code'], headers['dead-attempts']]).sort()).toEqual([
      ['message_empty', '1'],
      ['message_misplaced', '1'],
    ])
    expect(dead.map(({ headers }) => headers['dead-message'])).toContain(
      'A PromptRequest is on a topic that takes Chunk.',
    )
    expect(said).toEqual([])
  })
})

describe('stopping', () => {
  test('finishes what is in flight and takes nothing more', async () => {
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
    const { send, runtime, all, topic, broker } = started
    await send('chunk', { text: 'in flight' })
    await send('chunk', { text: 'left' })
    await entered
    const stopped = runtime.stop(20_000)
    finish()
    await stopped
    expect((await all(topic('topics'))).map(({ payload }) => payload)).toMatchObject([
      { facts: [{ topic: 'in flight' }] },
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
    const { send, runtime, topic, broker } = await start([stuck])
    await send('chunk', { text: 'x' })
    await entered
    await runtime.stop(10)
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
    const { send, topic, broker, runtime } = await start([slow], { cluster })
    const id = await send('chunk', { text: 'mills' })
    await entered.promise
    await broker.deleteTopics([topic('topics')])
    gate.resolve()
    await expect(runtime.done).rejects.toEqual(gone)
    await runtime.stop(10_000)
    expect(await broker.listTopics(deadTopic(topic('chunk')))).toEqual([])
    const again = await start([worker(() => undefined)], { cluster })
    expect(await again.first(topic('topics'), 1)).toMatchObject([{ causationId: id }])
  })

  test('is reported at once, and what others have in flight is finished before the end', async () => {
    const entered = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    const slow = worker(async () => {
      entered.resolve()
      await gate.promise
    })
    const idle = defineProcessor({ name: 'idle', inputs: ['document'], outputs: [], async *handle() {} })
    const { send, topic, broker, runtime, all } = await start([slow, idle])
    await send('chunk', { text: 'mills' })
    await entered.promise
    await broker.deleteTopics([topic('document')])
    await expect(runtime.done).rejects.toEqual(gone)
    let ended = false
    const stopped = runtime.stop(60_000).then(() => (ended = true))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(ended).toBe(false)
    gate.resolve()
    await stopped
    expect(await all(topic('topics'))).toHaveLength(1)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(0)
  })

  test('lets its messages in flight finish, and those that fail go to its dead-letter topic', async () => {
    const entered: string[] = []
    const gate = Promise.withResolvers<void>()
    const slow = worker(async (text) => {
      entered.push(text)
      await gate.promise
      if (text === 'bad') throw new GraphmillError('llm_unavailable', 'away')
    })
    const started = await start([slow])
    const { send, topic, broker, runtime, all } = started
    await send('chunk', { text: 'good' })
    await send('chunk', { text: 'bad' })
    await expect.poll(() => entered.length).toBe(2)
    await broker.deleteTopics([topic('chunk')])
    await expect(runtime.done).rejects.toEqual(gone)
    gate.resolve()
    await runtime.stop(60_000)
    expect(await all(topic('topics'))).toHaveLength(1)
    const [letter] = await started.letters('chunk', 1)
    expect(letter!.headers['dead-code']).toBe('llm_unavailable')
  })

  test('keeps a message from dying unsaid', async () => {
    const cluster = createMemoryCluster()
    const refusing = worker(() => {
      throw new GraphmillError('message_invalid', 'no')
    })
    const { send, topic, broker, runtime } = await start([refusing], { cluster })
    await broker.deleteTopics([topic('progress')])
    await send('chunk', { text: 'x' })
    await expect(runtime.done).rejects.toEqual(gone)
    await runtime.stop(10_000)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
    const again = await start([refusing], { cluster })
    const [entry] = await again.first(topic('progress'), 1)
    expect(entry!.payload).toMatchObject({ kind: 'dead', error: { type: 'message_invalid' } })
    expect(await again.letters('chunk', 1)).toHaveLength(1)
  })
})
