// A rolling upgrade on real Kafka, and back, as the chart does it: all of its workloads at once, each by its own strategy, pods of the
// baseline and of this version side by side in the same groups, while documents keep coming.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { LostRecordsInit, Status } from '../../src/messages/generated.ts'
import { flowStatusId } from '../../src/progress/flow-status.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'
import { isNewer } from '../../src/progress/status-cache.ts'
import { baselineProgram } from '../support/baseline.ts'
import { brokerSource } from '../support/brokers.ts'
import { chartWorkloads, rollOut, type Workload } from '../support/chart-rollout.ts'
import { difference, same } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { type Execution, extractors, inputLines, openExecution } from './execution.ts'

const present = (await brokerSource('a rolling upgrade, on Kafka', ['jars'])) !== undefined

/**
 * How many books are loaded at least; they go on coming as long as pods are replaced. Both replacements repeat about 100 messages, nearly
 * all of them what the baseline drops at a rebalance, of the 220 of a book.
 */
const leastBooks = 70
const chunksOfBook = 20
const callsOfBook = extractors.length * chunksOfBook
/** How many books may wait before the next one comes. */
const backlog = 5
const callMs = 500
const longestPauseMs = 3000

// The baseline has no second try to leave a group: when the machine is so busy that the first one fails, the group waits for its
// session of 45 s.
describe.skipIf(!present)('a rolling upgrade, on Kafka', { timeout: 600_000 }, () => {
  let server: KafkaServer
  let baseline: string

  beforeAll(async () => {
    baseline = await baselineProgram()
    server = await startKafka()
  }, 600_000)
  afterAll(() => server?.stop())

  test('the chart is upgraded, and then back: nothing is lost or misread, next to nothing repeated, and triples keep coming', async () => {
    await using llm = await startLlmServer({ latencyMs: callMs })
    const site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    const execution = await openExecution(site, { space: 'upgrade', llmUrl: llm.url })
    onTestFinished(() => execution.close())
    const start = (workload: Workload, program?: string) =>
      execution.startProcess(workload.processors, ['--concurrency', '16'], program)
    const workloads = await chartWorkloads(`options.broker=${site.brokerUrl}`)
    const release = await Promise.all(
      workloads.map(async (workload) => {
        const pods = Array.from({ length: workload.replicas }, () => start(workload, baseline))
        return { workload, pods: await Promise.all(pods) }
      }),
    )
    const replaced = new AbortController()
    const loading = loadBooks(execution, llm, replaced.signal)
    const tenBooks = () => {
      const seen = llm.counts.completed
      return llm.until(({ completed }) => completed >= seen + 10 * callsOfBook)
    }
    await tenBooks()
    const began = Date.now()
    for (const program of [undefined, baseline]) {
      const ends = await Promise.all(
        release.map(({ workload, pods }) =>
          rollOut(workload, pods, async () => {
            const pod = await start(workload, program)
            await untilJoined(execution, workload)
            return pod
          }),
        ),
      )
      expect(ends.flat().filter(({ code }) => code !== 0)).toEqual([])
      await tenBooks()
    }
    const [ended, cameEver] = [Date.now(), await triplesAt(execution)]
    replaced.abort()
    const books = await loading
    await expectAllBooks(execution, books)
    const { repeated, all } = await repeats(execution)
    const calledAgain = llm.counts.calls - books * callsOfBook
    expect(calledAgain + repeated).toBeLessThanOrEqual(all / 100)
    const came = [began, ...cameEver.filter((at) => at > began && at < ended), ended]
    expect(Math.max(...came.slice(1).map((at, index) => at - came[index]!))).toBeLessThan(longestPauseMs)
  })

  test('an old ledger passes over what processors of this version say of the whole flow, and the new one goes on from it', async () => {
    await using llm = await startLlmServer({ refuse: { kind: 'unauthorized' } })
    const site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    const execution = await openExecution(site, { space: 'old-ledger', llmUrl: llm.url })
    onTestFinished(() => execution.close())
    const { broker, topic, send } = execution
    const group = inputGroup(
      'progress',
      { space: 'old-ledger', workspace: 'default', flow: 'default' },
      'ledger',
    )
    const passed = () => untilTrue(async () => (await broker.lag(group, topic('progress'))).total === 0)
    let ledger = await execution.startProcess(['ledger'], [], baseline)
    // Of this version, with a key that the model refuses: it reports that it waits.
    await execution.startProcess(['chunk-text', 'prompt', ...extractors])
    await execution.load(2)
    await untilTrue(async () => (await progressOf(execution, 'waiting')).length > 0)
    expect((await progressOf(execution, 'waiting'))[0]).toMatchObject({
      source: 'prompt',
      documentId: '',
      payload: { error: { type: 'llm_authentication' } },
    })
    // Of facts, which are of no unit.
    const lost: LostRecordsInit = {
      processor: 'emit-triples',
      topic: topic('definitions'),
      partition: 0,
      first: '10',
      next: '40',
      count: 30,
      before: Date.now(),
    }
    await send('progress', { kind: 'lost', lost })
    const documentId = execution.documentId()
    await send('progress', { kind: 'lost', lost }, { documentId })
    await passed()
    const replace = async (program?: string) => {
      const next = await execution.startProcess(['ledger'], [], program)
      expect(await ledger.end('SIGTERM')).toEqual({ code: 0, signal: null })
      ledger = next
    }
    await replace()
    await send('progress', { kind: 'lost', lost })
    await passed()
    await untilTrue(async () => (await statusesOf(execution)).get(flowStatusId)?.lost[0]?.count === 30)
    await replace(baseline)
    llm.set({ refuse: undefined })
    const isDone = async () => (await statusesOf(execution)).get(documentId)?.state === 'done'
    await untilTrue(isDone)
    await passed()
    await replace()
    await send('progress', { kind: 'lost', lost: { ...lost, next: '50' } })
    await passed()
    const all = await statusesOf(execution)
    expect([...all.keys()].sort()).toEqual([flowStatusId, documentId].sort())
    expect(all.get(documentId)).toMatchObject({ state: 'done', done: 6, dead: 0, partial: 0 })
    expect(all.get(flowStatusId)).toMatchObject({ state: 'flow', lost: [{ next: '50', count: 30 }] })
    const dead = (await broker.listTopics('old-ledger.')).filter(({ name }) => name.endsWith('.dead'))
    expect(dead).toEqual([])
  })
})

/** Waits until the new pod reads: each group has a member for each replica, and one for the pod that is not stopped yet. */
async function untilJoined({ broker, topic, space }: Execution, workload: Workload): Promise<void> {
  const { processors, replicas, maxSurge } = workload
  const flow = { space, workspace: 'default', flow: 'default' }
  for (const { port, processor } of inputLines().filter((line) => processors.includes(line.processor)))
    await untilTrue(async () => {
      const { members } = await broker.lag(inputGroup(port, flow, processor), topic(port, processor))
      return members >= replicas + maxSurge
    })
}

/** When triples were published, in milliseconds since 1970, in rising order. */
async function triplesAt({ broker, topic }: Execution): Promise<number[]> {
  const times: number[] = []
  const range = { topic: topic('triples'), from: 'earliest', until: 'end' } as const
  for await (const { timestamp } of broker.read(range, new AbortController().signal)) times.push(timestamp)
  return times.sort((one, other) => one - other)
}

const progressOf = async ({ messages, topic }: Execution, kind: string) =>
  ((await messages(topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === kind,
  )

/** The newest status of each document, and of the flow. */
async function statusesOf({ messages, topic }: Execution): Promise<Map<string, Status>> {
  const name = topic('progress').replace('.flow.progress.', '.notify.status.')
  const found = new Map<string, Status>()
  for (const { documentId, payload } of (await messages(name)) as Message<'Status'>[])
    if (isNewer(payload, found.get(documentId))) found.set(documentId, payload)
  return found
}

const untilTrue = (condition: () => Promise<boolean>) =>
  vi.waitFor(
    async () => {
      if (!(await condition())) throw new Error('not yet')
    },
    { timeout: 120_000, interval: 200 },
  )

/** Loads books one after the other, as fast as the model is done with those before; resolves to their number. */
async function loadBooks({ load }: Execution, { until }: LlmServer, replaced: AbortSignal): Promise<number> {
  let book = 0
  for (; book < leastBooks || !replaced.aborted; book++) {
    await until(({ completed }) => completed >= (book - backlog) * callsOfBook)
    await load(chunksOfBook, book)
  }
  return book
}

/** Waits until every book is done, with the triples of an execution that nothing disturbed. */
async function expectAllBooks(execution: Execution, books: number): Promise<void> {
  const units = { expected: callsOfBook, done: callsOfBook, partial: 0, dead: 0 }
  expect(await statuses(execution)).toEqual(
    Array.from({ length: books }, () => expect.objectContaining({ state: 'done', units })),
  )
  await using llm = await startLlmServer()
  const cluster = createMemoryCluster()
  const site = { brokerUrl: 'memory://', connect: async () => cluster.connect() }
  const calm = await openExecution(site, { space: 'calm', llmUrl: llm.url })
  await calm.startRuntime()
  for (let book = 0; book < books; book++) await calm.load(chunksOfBook, book)
  await statuses(calm)
  expect(difference(await execution.graph(), await calm.graph())).toEqual(same)
  await calm.close()
}

async function statuses({ settled, messages, topic }: Execution) {
  await settled()
  const aggregate = createProgressAggregate()
  for (const message of await messages(topic('progress'))) aggregate.add(message as Message<'Progress'>)
  return aggregate.documents()
}

/** How many messages were published more than once, from the chunks to the triples. */
async function repeats({ messages, topic }: Execution): Promise<{ repeated: number; all: number }> {
  const counts = { repeated: 0, all: 0 }
  for (const port of ['chunk', 'prompt', 'definitions', 'relationships', 'topics', 'triples'] as const) {
    const ids = (await messages(topic(port))).map(({ id }) => id)
    counts.repeated += ids.length - new Set(ids).size
    counts.all += ids.length
  }
  return counts
}
