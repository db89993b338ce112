// How the runner handles messages with which processes died, on the memory broker, which marks them as suspects.
import { afterEach, expect, test, vi } from 'vitest'
import { chunkText } from '../../../processors/chunk-text.ts'
import { ledger } from '../../../processors/ledger.ts'
import type { Broker, Delivery, Suspect } from '../../../src/broker/broker.ts'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { parseTopic } from '../../../src/broker/topics.ts'
import { GraphmillError } from '../../../src/errors.ts'
import type { Message } from '../../../src/messages/envelope.ts'
import { startFlow, type TestFlow, worker } from '../../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

/** The cluster's messages, where those of the topic with this key are suspects. */
function suspecting(key: string, suspect: Suspect, role = 'chunk') {
  const cluster = createMemoryCluster()
  const broker = cluster.connect()
  const marked = (delivery: Delivery): Delivery =>
    delivery.key !== key || parseTopic(delivery.topic)?.role !== role
      ? delivery
      : new Proxy(delivery, {
          get: (target, name) => {
            if (name === 'suspect') return suspect
            const value = Reflect.get(target, name)
            return typeof value === 'function' ? value.bind(target) : value
          },
        })
  const withSuspects: Broker = {
    ...broker,
    async *consume(subscription, signal) {
      for await (const delivery of broker.consume(subscription, signal)) yield marked(delivery)
    },
  }
  return { cluster, broker: withSuspects }
}

const withChunkId = (chunkId: string) => ({ chunkId })

test('a suspect is handled alone, and what counts if the process dies is stored before and after', async () => {
  const records: number[] = []
  const events: string[] = []
  const suspect = { deaths: async () => 0, record: async (deaths: number) => void records.push(deaths) }
  const free = Promise.withResolvers<void>()
  let working = 0
  const slow = worker(async (text) => {
    events.push(`${text} beside ${working++}, recorded ${records}`)
    await (text === 'suspect' ? undefined : free.promise)
    working--
  })
  flow = await startFlow([slow], suspecting('urn:s', suspect))
  await flow.send('chunk', { text: 'first' })
  await vi.waitFor(() => expect(events).toEqual(['first beside 0, recorded ']))
  await flow.send('chunk', { text: 'suspect' }, withChunkId('urn:s'))
  await flow.send('chunk', { text: 'last' })
  free.resolve()
  await flow.first(flow.topic('topics'), 3)
  expect(events).toContain('suspect beside 0, recorded 1')
  await vi.waitFor(() => expect(records).toEqual([1, 0]))
})

test('after three deaths alone it is dead without being handled', async () => {
  const records: number[] = []
  const handled: string[] = []
  const suspect = { deaths: async () => 3, record: async (deaths: number) => void records.push(deaths) }
  flow = await startFlow([worker((text) => void handled.push(text))], suspecting('urn:s', suspect))
  await flow.send('chunk', { text: 'poison' }, withChunkId('urn:s'))
  await flow.send('chunk', { text: 'good' })
  const [letter] = await flow.letters('chunk', 1)
  expect(letter!.headers).toMatchObject({ 'dead-code': 'killed_process', chunkId: 'urn:s' })
  await flow.first(flow.topic('topics'), 1)
  expect(handled).toEqual(['good'])
  await vi.waitFor(() => expect(records).toEqual([4, 0]))
})

test('an onDead that kills is left out at the next attempt', async () => {
  const onDead = vi.fn(async function* () {})
  const suspect = { deaths: async () => 4, record: async () => {} }
  const processor = { ...worker(() => {}), onDead }
  flow = await startFlow([processor], suspecting('urn:s', suspect))
  await flow.send('chunk', { text: 'poison' }, withChunkId('urn:s'))
  await flow.letters('chunk', 1)
  expect(onDead).not.toHaveBeenCalled()
})

test.each([
  ['three deaths', 3, 0],
  ['three deaths, the last of them in onDead', 4, null],
])('after %s, the ledger knows that a part of a document is lost', async (_, deaths, part) => {
  const suspect = { deaths: async () => deaths, record: async () => {} }
  let now = Date.now()
  flow = await startFlow([chunkText, ledger], {
    ...suspecting('urn:s', suspect, 'document'),
    clock: { now: () => (now += 1000) },
  })
  const header = { documentId: 'urn:s', chunkId: '', version: 'v', versionTime: 7 }
  await flow.send('progress', { kind: 'loading', title: 'd' }, header)
  const text = {
    title: 'd',
    uri: '',
    mediaType: 'text/plain',
    part: 0,
    offset: 0,
    text: 'poison',
    last: true,
  }
  await flow.send('document', text, header)
  await flow.send('progress', { kind: 'document', parts: 1, title: 'd' }, header)
  const newest = async () =>
    ((await flow!.all(flow!.topic('status'))).at(-1) as Message<'Status'> | undefined)?.payload
  await expect
    .poll(newest)
    .toMatchObject({ state: 'failed', error: { type: 'killed_process' }, version: 'v' })
  const dead = ((await flow.all(flow.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === 'dead',
  )
  expect(dead.map(({ payload }) => payload.part)).toEqual([part])
})

test('when the number of deaths can not be stored, it is tried again and never dead', async () => {
  let refusals = 2
  const handled: string[] = []
  const suspect = {
    deaths: async () => 0,
    record: async (deaths: number) => {
      if (deaths > 0 && refusals-- > 0) throw new GraphmillError('topic_missing', 'no such subscription')
    },
  }
  flow = await startFlow([worker((text) => void handled.push(text))], suspecting('urn:s', suspect))
  await flow.send('chunk', { text: 'good' }, withChunkId('urn:s'))
  await flow.first(flow.topic('topics'), 1)
  expect(handled).toEqual(['good'])
})

test('before a second attempt alone nothing is handled for a while; a stop in it leaves the count as it was', async () => {
  const records: number[] = []
  const suspect = { deaths: async () => 1, record: async (deaths: number) => void records.push(deaths) }
  const handled: string[] = []
  const started = await startFlow([worker((text) => void handled.push(text))], suspecting('urn:s', suspect))
  await started.send('chunk', { text: 'suspect' }, withChunkId('urn:s'))
  await vi.waitFor(() => expect(records).toEqual([0]))
  await started.stop()
  expect(handled).toEqual([])
  expect(records).toEqual([0, 1])
})
