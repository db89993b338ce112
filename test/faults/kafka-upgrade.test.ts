// A rolling upgrade on real Kafka, and back: replicas of the baseline and of this version side by side in the same groups,
// while documents keep coming.
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { createTally } from '../../src/progress/progress-aggregate.ts'
import { baselineProgram } from '../support/baseline.ts'
import { brokerSource } from '../support/brokers.ts'
import { difference, same } from '../support/graph.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { type Execution, extractors, openExecution } from './execution.ts'

const present = (await brokerSource('a rolling upgrade, on Kafka', ['jars'])) !== undefined

const books = 100
const chunksOfBook = 20
const callsOfBook = extractors.length * chunksOfBook
/** How many books may wait before the next one comes. */
const backlog = 5

// The baseline has no second try to leave a group: where the machine is so busy that the first one fails, the group waits for
// its session of 45 s, at each of the four replacements.
describe.skipIf(!present)('a rolling upgrade, on Kafka', { timeout: 600_000 }, () => {
  let server: KafkaServer
  let baseline: string

  beforeAll(async () => {
    baseline = await baselineProgram()
    server = await startKafka()
  }, 600_000)
  afterAll(() => server?.stop())

  test('two replicas are replaced one after the other, and then replaced back: nothing is lost or misread', async () => {
    await using llm = await startLlmServer({ latencyMs: 500 })
    const site = {
      brokerUrl: `kafka://${server.bootstrap.join()}`,
      connect: () => connectKafka({ brokers: server.bootstrap }),
    }
    const execution = await openExecution(site, { space: 'upgrade', llmUrl: llm.url })
    onTestFinished(() => execution.close())
    const start = (program?: string) => execution.startProcess(['--all'], [], program)
    const replicas = [await start(baseline), await start(baseline)]
    const loading = loadBooks(execution, llm)
    for (const program of [undefined, undefined, baseline, baseline]) {
      const seen = llm.counts.completed
      await llm.until(({ completed }) => completed >= seen + 10 * callsOfBook)
      replicas.push(await start(program))
      expect(await replicas.shift()!.end('SIGTERM')).toEqual({ code: 0, signal: null })
    }
    await loading
    await expectAllBooks(execution)
    const { repeated, all } = await repeats(execution)
    const calledAgain = llm.counts.calls - books * callsOfBook
    expect(calledAgain + repeated).toBeLessThanOrEqual(all / 100)
  })
})

/** Loads the books one after the other, as fast as the model is done with those before. */
async function loadBooks({ load }: Execution, { until }: LlmServer): Promise<void> {
  for (let book = 0; book < books; book++) {
    await until(({ completed }) => completed >= (book - backlog) * callsOfBook)
    await load(chunksOfBook, book)
  }
}

/** Waits until every book is done, with the triples of an execution that nothing disturbed. */
async function expectAllBooks(execution: Execution): Promise<void> {
  const units = { expected: callsOfBook, done: callsOfBook, partial: 0, dead: 0 }
  expect(await statuses(execution)).toEqual(
    Array.from({ length: books }, () => expect.objectContaining({ state: 'done', units })),
  )
  await using llm = await startLlmServer()
  const cluster = createMemoryCluster()
  const site = { brokerUrl: 'memory://', connect: async () => cluster.connect() }
  const calm = await openExecution(site, { space: 'calm', llmUrl: llm.url })
  await calm.startMill()
  for (let book = 0; book < books; book++) await calm.load(chunksOfBook, book)
  await statuses(calm)
  expect(difference(await execution.graph(), await calm.graph())).toEqual(same)
  await calm.close()
}

async function statuses({ settled, messages, topic }: Execution) {
  await settled()
  const tally = createTally()
  for (const message of await messages(topic('progress'))) tally.add(message as Message<'Progress'>)
  return tally.documents()
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
