// Many documents loaded side by side: how many at a time, in which order they are reported, and what stops them.
import { afterEach, expect, test } from 'vitest'
import type { Broker, OutgoingBytes } from '../../src/broker/broker.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import type { NamedSource } from '../../src/documents/read.ts'
import { GraphmillError } from '../../src/errors.ts'
import { type LoadOutcome, loadDocuments } from '../../src/flow/load-documents.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { scope, startFlow, type TestFlow } from '../support/flow.ts'

const flows: TestFlow[] = []
afterEach(async () => {
  for (const flow of flows.splice(0)) await flow.stop()
})

const source = (name: string, more: Partial<NamedSource> = {}): NamedSource => ({
  name,
  title: name,
  uri: `file:///${name}`,
  mediaType: 'text/plain',
  holds: 1000,
  async *text() {
    yield `${name} is about a mill.`
  },
  ...more,
})
const names = (count: number) => Array.from({ length: count }, (_, number) => `${number}.txt`)

async function* found(some: readonly (NamedSource | GraphmillError)[]) {
  yield* some
}

/** Messages are stored only when the test says so, if `isHeld`. */
async function start(isHeld: (message: OutgoingBytes) => boolean = () => false) {
  const flow = await startFlow([])
  flows.push(flow)
  await flow.broker.ensureTopics(
    (['document', 'progress'] as const).map((port) => topicSpec(flow.topic(port))),
  )
  const held: { readonly message: OutgoingBytes; store(): Promise<void> }[] = []
  const broker: Broker = {
    ...flow.broker,
    async publish(message) {
      if (!isHeld(message)) return flow.broker.publish(message)
      const { promise, resolve } = Promise.withResolvers<void>()
      held.push({
        message,
        async store() {
          await flow.broker.publish(message)
          resolve()
        },
      })
      return promise
    },
  }
  const outcomes: LoadOutcome[] = []
  const stop = new AbortController()
  let ids = 0
  const load = (some: AsyncIterable<NamedSource | GraphmillError>) =>
    loadDocuments(
      some,
      {
        broker,
        codec: flow.codec,
        circuits: createCircuits(),
        clock: { now: () => 1 },
        ids: { next: () => `id-${++ids}` },
        space: 'gm',
        scope,
        collection: 'default',
        source: 'test',
        onOutcome: (outcome) => void outcomes.push(outcome),
      },
      stop.signal,
    )
  const kindsOf = async () => {
    const entries = (await flow.all(flow.topic('progress'))) as Message<'Progress'>[]
    return entries.map(({ payload }) => `${payload.title}: ${payload.kind}`)
  }
  const reported = () =>
    outcomes.map((outcome) => ('loaded' in outcome ? outcome.document.name : outcome.error.code))
  return { flow, held, stop, load, outcomes, reported, kindsOf }
}

const isPart = ({ topic }: OutgoingBytes) => topic.includes('.document.')
const turns = async (count = 20) => {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}
const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise(setImmediate)
}

test('documents are published side by side, and no more are found than there is room for', async () => {
  const { held, load, reported } = await start(isPart)
  let pulled = 0
  async function* many() {
    for (const name of names(1000)) {
      pulled++
      yield source(name)
    }
  }
  const loading = load(many())
  await until(() => held.length >= 128)
  await turns()
  expect(held).toHaveLength(128)
  expect(pulled).toBeLessThanOrEqual(129)
  let most = 0
  while (reported().length < 1000) {
    most = Math.max(most, held.length)
    await held.shift()?.store()
    await turns(1)
  }
  await loading
  expect(most).toBeLessThanOrEqual(128)
  expect(reported()).toEqual(names(1000))
})

test('large documents are published only as many at a time as there is memory for, and too large ones alone', async () => {
  const megabytes = (mib: number) => ({ holds: mib * 1024 * 1024 })
  const { held, load, reported } = await start(isPart)
  const sizes = [6, 6, 6, 100, 1, 1]
  const loading = load(found(sizes.map((mib, number) => source(`${number}.txt`, megabytes(mib)))))
  const seen: number[] = []
  while (reported().length < sizes.length) {
    await turns()
    seen.push(held.length)
    await held.shift()?.store()
    await turns()
  }
  await loading
  // Two of the first three, then the third; nothing beside the one that is larger than all memory together.
  expect(seen).toEqual([2, 2, 1, 1, 2, 1])
})

test('outcomes come in the order of the documents, with those that failed in their places', async () => {
  const { held, load, reported } = await start(isPart)
  const unreadable = source('bad.txt', {
    async *text() {
      yield await Promise.reject(new GraphmillError('document_unreadable', 'bad.txt: gone.'))
    },
  })
  const missing = new GraphmillError('document_unreadable', 'none.txt: there is no such file.')
  const loading = load(found([source('1'), unreadable, source('2'), missing, source('3')]))
  await until(() => held.length === 3)
  await held[2]!.store()
  await turns()
  expect(reported()).toEqual([])
  await held[0]!.store()
  await until(() => reported().length > 0)
  await turns()
  expect(reported()).toEqual(['1', 'document_unreadable'])
  await held[1]!.store()
  await loading
  expect(reported()).toEqual(['1', 'document_unreadable', '2', 'document_unreadable', '3'])
})

test('a document is announced when all of its parts are stored, and loaded when that is', async () => {
  const { flow, held, load, reported, kindsOf } = await start(isPart)
  const long = source('long.txt', {
    async *text() {
      yield 'A mill grinds.\n'.repeat(40_000)
    },
  })
  const loading = load(found([long]))
  await until(() => held.length === 2)
  await held[1]!.store()
  await turns()
  expect(await kindsOf()).toEqual(['long.txt: loading'])
  await held[0]!.store()
  await loading
  expect(await kindsOf()).toEqual(['long.txt: loading', 'long.txt: document'])
  expect(reported()).toEqual(['long.txt'])
  expect(await flow.all(flow.topic('document'))).toHaveLength(2)
})

test('when loading is stopped, what has begun is finished, and nothing else begins', async () => {
  const { held, stop, load, reported, kindsOf } = await start(isPart)
  async function* many() {
    for (const name of names(1000)) yield source(name)
  }
  const loading = load(many())
  await until(() => held.length === 128)
  stop.abort(new GraphmillError('aborted', 'Stopped by SIGINT.'))
  for (const { store } of held) await store()
  await expect(loading).rejects.toMatchObject({ code: 'aborted' })
  expect(reported()).toEqual(names(128))
  const kinds = await kindsOf()
  expect(kinds.filter((kind) => kind.endsWith(': document'))).toHaveLength(128)
  expect(kinds).toHaveLength(2 * 128)
})

test('an error that is of no document ends the load, when the documents that had begun have ended', async () => {
  const { held, load, reported } = await start(isPart)
  const broken = source('broken.txt', {
    async *text() {
      yield await Promise.reject(new GraphmillError('broker_refused', 'no'))
    },
  })
  const loading = load(found([source('1'), broken, source('2')]))
  await until(() => held.length > 0)
  await turns()
  expect(reported()).toEqual([])
  for (const { store } of held) await store()
  await expect(loading).rejects.toMatchObject({ code: 'broker_refused' })
  expect(reported().slice(0, 2)).toEqual(['1', 'broker_refused'])
})
