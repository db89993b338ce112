// The ledger on the memory broker: one status a document, over repeats, restarts and rebalances.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ledger } from '../../processors/ledger.ts'
import type { Broker, ReadMessage } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { LostRecords, LostRecordsInit, ProgressInit, Status } from '../../src/messages/generated.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { flowStatusId, statusOfFlow } from '../../src/progress/flow-status.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { isNewer } from '../../src/progress/status-cache.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'

const group = 'gm.ledger.progress.default.default'
const progressTopic = 'gm.flow.progress.default.default'
const units = ['one', 'two']
const flows: TestFlow[] = []

// Only what paces the statuses: the brokers go on.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] }))
afterEach(async () => {
  vi.useRealTimers()
  for (const flow of flows.splice(0)) await flow.stop()
})

const start = async (cluster = createMemoryCluster(), more = {}) => {
  const flow = await startFlow([ledger], { cluster, ...more })
  flows.push(flow)
  return flow
}

interface Told {
  readonly payload: ProgressInit
  readonly chunkId: string
  readonly causationId: string
}

let causes = 0
const entry = (payload: ProgressInit, chunk?: number, causationId = `cause-${++causes}`): Told => ({
  payload,
  chunkId: chunk === undefined ? '' : `/0/${chunk}`,
  causationId,
})
const begun = (chunks: number) => [
  entry({ kind: 'document', parts: 1, title: 'mills.txt' }),
  entry({ kind: 'part', part: 0, chunks, units }),
]
const reply = (unit: string, chunk: number, more: ProgressInit | object = {}) =>
  entry(
    {
      kind: 'reply',
      unit,
      run: { id: `${unit}-${chunk}`, startedAt: 1 },
      last: true,
      facts: { definitions: 2 },
      ...more,
    },
    chunk,
  )
const allOf = (chunks: number) =>
  Array.from({ length: chunks }, (_, chunk) => units.map((unit) => reply(unit, chunk))).flat()

const tell = async (flow: TestFlow, entries: readonly Told[], documentId = 'urn:d') => {
  for (const { payload, chunkId, causationId } of entries)
    await flow.send('progress', payload, {
      documentId,
      chunkId: chunkId && `${documentId}${chunkId}`,
      causationId,
    })
}

const statuses = async (flow: TestFlow, documentId = 'urn:d'): Promise<Status[]> =>
  ((await flow.all(flow.topic('status'))) as Message<'Status'>[])
    .filter((message) => message.documentId === documentId)
    .map(({ payload }) => payload)

/** Every status of the document from now on: the topic keeps only the newest of each document. */
const record = (flow: TestFlow): Status[] => {
  const seen: Status[] = []
  const read = async () => {
    const range = { topic: flow.topic('status'), from: 'earliest', until: 'never' } as const
    for await (const { value, headers } of flow.broker.read(range, new AbortController().signal)) {
      const { documentId, payload } = flow.codec.decode(value, headers) as Message<'Status'>
      if (documentId === 'urn:d') seen.push(payload)
    }
  }
  void read()
  return seen
}

/** The newest status. */
const statusOf = async (flow: TestFlow, documentId = 'urn:d') => {
  let newest: Status | undefined
  for (const status of await statuses(flow, documentId)) if (isNewer(status, newest)) newest = status
  return newest
}

/** Lets time pass until every entry is settled. */
const settled = async (flow: TestFlow) => {
  while ((await flow.broker.lag(group, progressTopic)).total > 0) {
    await vi.advanceTimersByTimeAsync(100)
    await new Promise(setImmediate)
  }
}

/** Waits for a state without letting time pass. */
const until = async (state: () => Promise<boolean>) => {
  while (!(await state())) await new Promise(setImmediate)
}

describe('the status of a document', () => {
  test('has the counts of the aggregate, and the state that is needed to go on', async () => {
    const flow = await start()
    const cut = reply('two', 1, {
      incomplete: 'truncated',
      model: 'm',
      rejected: { schema: 1 },
      usage: { promptTokens: 3, completionTokens: 4 },
    })
    await tell(flow, [...begun(2), ...allOf(2).slice(0, 3), cut])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({
      state: 'partial',
      title: 'mills.txt',
      chunks: 2,
      expected: 4,
      done: 3,
      partial: 1,
      truncated: 1,
      facts: { definitions: 8 },
      rejected: { schema: 1 },
      tokens: { m: { promptTokens: 3, completionTokens: 4 } },
    })
    const aggregate = createProgressAggregate()
    aggregate.restore((await statusOf(flow))!.ledger)
    expect(aggregate.status('urn:d')).toMatchObject({ units: { done: 3, partial: 1 } })
  })

  test('is partial when items came and none was accepted, by the prompt or by the extractor', async () => {
    const flow = await start()
    const [, two] = allOf(1)
    const refused = (seq: number) =>
      reply('one', 0, { seq, last: seq === 1, facts: {}, rejected: { empty: 1 } })
    await tell(flow, [...begun(1), refused(0), refused(1), two!])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({
      state: 'partial',
      done: 1,
      partial: 1,
      incomplete: { no_facts: 1 },
      rejected: { empty: 2 },
    })
  })

  test('of no chunk at all is failed at once', async () => {
    const flow = await start()
    await tell(flow, begun(0))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'failed', error: { type: 'empty_document' } })
  })

  test('is done again when a dead message is replayed and answered', async () => {
    const flow = await start()
    const death = entry({ kind: 'dead', unit: 'one', topic: 'gm.flow.chunk.default.default' }, 0, 'c')
    await tell(flow, [...begun(1), death, reply('two', 0)])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'partial', done: 1, dead: 1 })
    await tell(flow, [entry({ kind: 'replayed' }, 0, 'c'), reply('one', 0)])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'done', done: 2, dead: 0 })
  })

  test('is that of other documents in nothing', async () => {
    const flow = await start()
    const ids = Array.from({ length: 20 }, (_, n) => `urn:d:${n}`)
    await Promise.all(ids.map((id, n) => tell(flow, [...begun(n + 1), ...allOf(n + 1)], id)))
    await settled(flow)
    for (const [n, id] of ids.entries())
      expect(await statusOf(flow, id)).toMatchObject({ state: 'done', chunks: n + 1, done: 2 * (n + 1) })
  })
})

describe('the metrics of documents', () => {
  /** The samples of a metric, as `labels value`; nothing is too fresh to be asked for again. */
  const open = async (cluster = createMemoryCluster()) => {
    let now = 0
    const metrics = createMetrics({ now: () => now })
    const flow = await start(cluster, { metrics })
    const samples = async (name: string) => {
      now += 60_000
      const lines = (await metrics.registry.getSingleMetricAsString(name)).split('\n')
      return lines.filter((line) => line.startsWith(name)).map((line) => line.slice(name.length))
    }
    return { flow, samples }
  }
  const labels = 'workspace="default",flow="default"'
  const units = (done: number, partial: number, dead: number) =>
    Object.entries({ done, partial, dead }).map(([state, count]) => `{${labels},state="${state}"} ${count}`)

  test('name the open document that waits longest, after a restart without new entries too', async () => {
    const { flow, samples } = await open()
    const oldest = 'graphmill_oldest_progress_timestamp_seconds'
    expect(await samples('graphmill_documents_open')).toEqual([`{${labels}} 0`])
    expect(await samples(oldest)).toEqual([])
    vi.setSystemTime(5_000_000)
    await tell(flow, begun(1), 'urn:stuck')
    await settled(flow)
    const since = (await samples(oldest))[0]
    expect(Number(since?.split(' ')[1])).toBeCloseTo(5000, -2)
    vi.setSystemTime(90_000_000)
    await tell(flow, [...begun(1), ...allOf(1)], 'urn:done')
    await tell(flow, begun(1), 'urn:new')
    await settled(flow)
    expect(await samples('graphmill_documents_open')).toEqual([`{${labels}} 2`])
    expect(await samples(oldest)).toEqual([since])
    await flow.runtime.stop(0)
    expect(await samples('graphmill_documents_open')).toEqual([])

    const again = await open(flow.cluster)
    expect(await again.samples('graphmill_documents_open')).toEqual([`{${labels}} 2`])
    expect(await again.samples(oldest)).toEqual([since])
  })

  test('count how units end, from 0, and only what ends here', async () => {
    const { flow, samples } = await open()
    const name = 'graphmill_units_total'
    expect(await samples(name)).toEqual(units(0, 0, 0))
    const death = entry({ kind: 'dead', unit: 'one', topic: 'gm.flow.chunk.default.default' }, 0, 'c')
    await tell(flow, [...begun(2), death, reply('two', 0), reply('one', 1, { incomplete: 'truncated' })])
    await settled(flow)
    expect(await samples(name)).toEqual(units(1, 1, 1))
    await flow.runtime.stop(0)

    const again = await open(flow.cluster)
    await tell(again.flow, [entry({ kind: 'replayed' }, 0, 'c'), reply('one', 0), reply('two', 1)])
    await settled(again.flow)
    expect(await again.samples(name)).toEqual(units(2, 0, 0))
  })
})

describe('records that were lost', () => {
  const promptTopic = 'gm.request.prompt.default.default'
  const lostOf = (topic: string, more: Partial<LostRecordsInit> = {}): ProgressInit => ({
    kind: 'lost',
    lost: {
      processor: 'prompt',
      topic,
      partition: 3,
      first: '10',
      next: '40',
      count: 30,
      before: Date.now(),
      ...more,
    },
  })
  const lose = (flow: TestFlow, payload: ProgressInit) =>
    flow.send('progress', payload, { documentId: '', chunkId: '' })

  test('end every unit that may have waited for them, and what is done all the same is done', async () => {
    const flow = await start()
    await tell(flow, [...begun(2), reply('one', 0)])
    await tell(flow, [...begun(1), ...allOf(1)], 'urn:done')
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'running', done: 1, dead: 0 })
    await lose(flow, lostOf(promptTopic))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({
      state: 'partial',
      done: 1,
      dead: 3,
      incomplete: { expired: 3 },
    })
    expect(await statusOf(flow, 'urn:done')).toMatchObject({ state: 'done', done: 2, dead: 0 })
    expect(await statusOf(flow, flowStatusId)).toMatchObject({
      state: 'flow',
      lost: [{ processor: 'prompt', topic: promptTopic, count: 30 }],
    })
    await tell(flow, [reply('two', 0), reply('one', 1)])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({
      state: 'partial',
      done: 3,
      dead: 1,
      incomplete: { expired: 1 },
    })
    await tell(flow, [reply('two', 1)])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'done', done: 4, dead: 0, incomplete: {} })
  })

  test('concern a document that the ledger hears of later, and none that was cut after them', async () => {
    const flow = await start()
    await lose(flow, lostOf(promptTopic))
    await lose(flow, lostOf(promptTopic, { first: '90', next: '99', before: Date.now() - 86_400_000 }))
    await settled(flow)
    await tell(flow, begun(2), 'urn:late')
    await settled(flow)
    expect(await statusOf(flow, 'urn:late')).toMatchObject({ state: 'failed', dead: 4 })
    await vi.advanceTimersByTimeAsync(3_600_000)
    await tell(flow, begun(2), 'urn:new')
    await settled(flow)
    expect(await statusOf(flow, 'urn:new')).toMatchObject({ state: 'running', dead: 0 })
    expect((await statusOf(flow, flowStatusId))!.lost).toHaveLength(2)
  })

  test('of a chunk or a reply end the units of that extractor; of facts they end none', async () => {
    const flow = await start()
    await tell(flow, begun(2))
    await lose(flow, lostOf('gm.flow.definitions.default.default', { processor: 'emit-triples' }))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'running', dead: 0 })
    await lose(flow, lostOf('gm.flow.chunk.default.default', { processor: 'one' }))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'running', dead: 2 })
    await lose(flow, lostOf('gm.response.prompt.two.default.default', { processor: 'two' }))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'failed', dead: 4, incomplete: { expired: 4 } })
  })

  test('of the document itself fail it until its parts come', async () => {
    const flow = await start()
    await tell(flow, begun(2).slice(0, 1))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'queued' })
    await lose(flow, lostOf('gm.flow.document.default.default', { processor: 'chunk-text' }))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'failed', error: { type: 'expired' } })
    await tell(flow, begun(2).slice(1))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'running', error: null, dead: 0 })
  })

  test('reported again, and over a restart of the ledger, change nothing', async () => {
    const cluster = createMemoryCluster()
    const flow = await start(cluster)
    await tell(flow, [...begun(2), reply('one', 0)])
    await settled(flow)
    for (let time = 0; time < 3; time++) await lose(flow, lostOf(promptTopic, { before: 1e15 }))
    await settled(flow)
    await flow.stop()
    const later = await start(cluster)
    await lose(later, lostOf(promptTopic, { before: 1e15 }))
    await settled(later)
    await tell(later, [reply('two', 0)])
    await settled(later)
    expect(await statusOf(later)).toMatchObject({ state: 'partial', done: 2, dead: 2 })
    expect((await statusOf(later, flowStatusId))!.lost).toHaveLength(1)
  })

  /** A flow whose next status is held back until `act` is done: what another replica writes meanwhile. */
  const startBehind = async (act: (flow: TestFlow) => Promise<unknown>, isNext: (key: string) => boolean) => {
    const cluster = createMemoryCluster()
    const own = cluster.connect()
    let acted = false
    const broker: Broker = {
      ...own,
      async publish(message) {
        if (!acted && message.topic.includes('.notify.status.') && isNext(message.key ?? '')) {
          acted = true
          await act(flow)
        }
        return own.publish(message)
      },
    }
    const flow = await start(cluster, { broker })
    return flow
  }

  test('that another replica notes just before the first status of a document end its units all the same', async () => {
    const { lost } = lostOf(promptTopic)
    const noted = statusOfFlow(
      { lost: [{ ...lost!, time: Date.now() } as LostRecords], waiting: [] },
      undefined,
      1,
    )
    const flow = await startBehind(
      (it) => it.send('status', noted, { documentId: flowStatusId, chunkId: '' }),
      (key) => key === 'urn:d',
    )
    await tell(flow, begun(2))
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'failed', dead: 4, incomplete: { expired: 4 } })
  })

  test('end the units of a document whose first status another replica writes just before they are noted', async () => {
    const flow = await startBehind(
      async (it) => it.send('status', await statusOf(it), { documentId: 'urn:other', chunkId: '' }),
      (key) => key === flowStatusId,
    )
    await tell(flow, begun(2))
    await settled(flow)
    await lose(flow, lostOf(promptTopic))
    await settled(flow)
    const all = (await flow.all(flow.topic('progress'))) as Message<'Progress'>[]
    const sent = all.filter(({ payload }) => payload.kind === 'lost').map(({ documentId }) => documentId)
    expect(sent.sort()).toEqual(['', 'urn:d', 'urn:other'])
  })

  test('what processors wait for is kept once each, the newest', async () => {
    const flow = await start()
    const wait = (message: string) => ({
      kind: 'waiting',
      topic: promptTopic,
      error: { type: 'llm_unavailable', message },
      until: message === 'two' ? 1_700_000_000_000 : null,
    })
    await lose(flow, wait('one'))
    await lose(flow, wait('two'))
    await settled(flow)
    expect((await statusOf(flow, flowStatusId))!.waiting).toMatchObject([
      {
        processor: 'test',
        topic: promptTopic,
        error: { type: 'llm_unavailable', message: 'two' },
        until: 1_700_000_000_000,
      },
    ])
  })
})

describe('statuses', () => {
  test('are at most one a second, and entries stay unsettled until one includes them', async () => {
    const flow = await start()
    const seen = record(flow)
    const [document, ...rest] = [...begun(50), ...allOf(50)]
    await tell(flow, [document!])
    await settled(flow)
    const before = seen.length
    await tell(flow, rest)
    await vi.advanceTimersByTimeAsync(500)
    expect(seen).toHaveLength(before)
    expect((await flow.broker.lag(group, progressTopic)).total).toBe(101)
    await vi.advanceTimersByTimeAsync(600)
    await until(async () => (await flow.broker.lag(group, progressTopic)).total === 0)
    expect(seen).toHaveLength(before + 1)
    expect(seen.at(-1)).toMatchObject({ state: 'done', done: 100 })
  })

  test('are no more for thousands of entries that come in together', async () => {
    const flow = await start()
    const seen = record(flow)
    const chunks = 1900
    await tell(flow, [...begun(chunks), ...allOf(chunks)])
    // The first is written at once, the second, a second later, for all that came meanwhile.
    await until(async () => (await statuses(flow)).length === 1)
    for (let turns = 0; turns < 500; turns++) await new Promise(setImmediate)
    await vi.advanceTimersByTimeAsync(1000)
    await until(async () => (await flow.broker.lag(group, progressTopic)).total === 0)
    expect(seen).toHaveLength(2)
    expect(seen[1]).toMatchObject({ state: 'done', done: 2 * chunks, facts: { definitions: 4 * chunks } })
  })

  test('go on when the clock was set back', async () => {
    let now = Date.parse('2026-11-21')
    const flow = await start(undefined, { clock: { now: () => now } })
    // Each of these books begins where the one before it ended, not where the clock says that it is newer.
    for (const entries of [begun(2), allOf(2).slice(0, 2), allOf(2).slice(2)]) {
      await tell(flow, entries)
      await settled(flow)
      now -= 24 * 60 * 60 * 1000
    }
    expect(await statusOf(flow)).toMatchObject({ state: 'done', done: 4 })
    expect((await statuses(flow)).at(-1)).toEqual(await statusOf(flow))
  })

  test('come to the same when every entry comes three times', async () => {
    const flow = await start()
    const life = [...begun(5), ...allOf(5)]
    await tell(flow, [...life, ...life, ...[...life].reverse()])
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'done', done: 10, facts: { definitions: 20 } })
  })
})

describe('a replica', () => {
  test('that is started again goes on from the status, without the history', async () => {
    const cluster = createMemoryCluster({ dropSettled: true })
    const first = await start(cluster)
    const life = [...begun(20), ...allOf(20)]
    await tell(first, life.slice(0, 25))
    await settled(first)
    await flows.shift()!.stop()
    const second = await start(cluster)
    await tell(second, life.slice(25))
    await settled(second)
    expect(await statusOf(second)).toMatchObject({ state: 'done', done: 40, facts: { definitions: 80 } })
  })

  test('that takes over a document waits until the last status of the one before is a second old', async () => {
    const cluster = createMemoryCluster()
    const first = await start(cluster)
    await tell(first, begun(1))
    await settled(first)
    const written = (await statuses(first)).length
    await flows.shift()!.stop()
    const second = await start(cluster)
    await tell(second, allOf(1))
    for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate)
    expect(await statuses(second)).toHaveLength(written)
    expect(await statusOf(second)).toMatchObject({ state: 'running' })
    await settled(second)
    expect(await statusOf(second)).toMatchObject({ state: 'done' })
  })

  test('that is stopped in the middle of its wait loses nothing and counts nothing twice', async () => {
    const cluster = createMemoryCluster()
    const first = await start(cluster)
    const life = [...begun(20), ...allOf(20)]
    await tell(first, life.slice(0, 5))
    await until(async () => (await statuses(first)).length === 1)
    await tell(first, life.slice(5, 30))
    await flows.shift()!.stop()
    const second = await start(cluster)
    await tell(second, life.slice(30))
    await settled(second)
    expect(await statusOf(second)).toMatchObject({ state: 'done', done: 40, facts: { definitions: 80 } })
  })

  test('takes over documents whose partition moves to it, as they are', async () => {
    const cluster = createMemoryCluster()
    const replicas = [await start(cluster), await start(cluster)]
    const ids = Array.from({ length: 12 }, (_, n) => `urn:d:${n}`)
    const lives = ids.map(() => [...begun(10), ...allOf(10)])
    for (let at = 0; at < 22; at += 2) {
      await Promise.all(ids.map((id, n) => tell(replicas[n % 2]!, lives[n]!.slice(at, at + 2), id)))
      if (at % 4 === 0) cluster.faults.evict(group, { rewind: at % 8 })
      await vi.advanceTimersByTimeAsync(300)
      if (at === 10) replicas.push(await start(cluster))
    }
    await settled(replicas[0]!)
    for (const id of ids)
      expect(await statusOf(replicas[0]!, id)).toMatchObject({
        state: 'done',
        done: 20,
        facts: { definitions: 40 },
      })
  })

  test('writes again what the broker did not take', async () => {
    const cluster = createMemoryCluster()
    const flow = await start(cluster)
    const mend = cluster.faults.failPublish((topic) => topic.includes('.status.'), { stored: true })
    await tell(flow, [...begun(2), ...allOf(2)])
    await vi.advanceTimersByTimeAsync(5000)
    expect((await flow.broker.lag(group, progressTopic)).total).toBe(6)
    mend()
    await settled(flow)
    expect(await statusOf(flow)).toMatchObject({ state: 'done', facts: { definitions: 8 } })
  })
})

test('a status that an older one has overwritten is written again', async () => {
  const flow = await start()
  await tell(flow, begun(1))
  await settled(flow)
  const early = (await statusOf(flow))!
  await tell(flow, allOf(1))
  await settled(flow)
  const seen = record(flow)
  await flow.send('status', early, { chunkId: '' })
  await tell(flow, begun(0), 'urn:other')
  await settled(flow)
  expect(seen.map(({ state }) => state)).toEqual(['done', 'running', 'done'])
  expect((await statuses(flow)).at(-1)).toMatchObject({ state: 'done', done: 2 })
})

test('an entry that can not be read is dead once, and not the first of many', async () => {
  const flow = await start()
  await tell(flow, begun(1))
  await settled(flow)
  const [healthy] = (await statuses(flow)) as [Status]
  const broken: Status = { ...healthy, epoch: healthy.epoch + 1, ledger: Buffer.from('not a state') }
  await flow.send('status', broken, { chunkId: '' })
  await tell(flow, [reply('one', 0)])
  await settled(flow)
  expect(await flow.all(`${progressTopic}.dead`)).toHaveLength(2)
})

test('a deleted or foreign entry of the status topic is skipped, and reported once', async () => {
  const metrics = createMetrics()
  const flow = await start(createMemoryCluster(), { metrics })
  const topic = flow.topic('status')
  await flow.broker.ensureTopics([topicSpec(flow.topic('topics'))])
  await flow.send('topics', { run: { id: 'r', startedAt: 1 }, facts: [] })
  const read = async (name: string) => {
    const found: ReadMessage[] = []
    const range = { topic: name, from: 'earliest', until: 'end' } as const
    for await (const message of flow.broker.read(range, new AbortController().signal)) found.push(message)
    return found
  }
  const [{ value: topics, headers }] = (await read(flow.topic('topics'))) as [ReadMessage]
  for (const [index, value] of [Buffer.alloc(0), Buffer.from('no avro'), topics].entries())
    await flow.broker.publish({ topic, key: `${index}`, value, headers: value === topics ? headers : {} })
  for (const document of ['urn:d', 'urn:other']) {
    await tell(flow, [...begun(1), ...allOf(1)], document)
    await settled(flow)
    const newest = (await read(topic)).findLast(({ key }) => key === document)!
    expect(flow.codec.decode(newest.value, newest.headers).payload).toMatchObject({ state: 'done', done: 2 })
  }
  expect(await flow.broker.listTopics(`${progressTopic}.dead`)).toEqual([])
  expect(await metrics.registry.metrics()).toContain(
    `graphmill_unreadable_total{processor="ledger",consumer="${topic}"} 3`,
  )
})
