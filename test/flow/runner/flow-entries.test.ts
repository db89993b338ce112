// What a processor reports of its whole flow.
import { pino } from 'pino'
import { afterEach, expect, test } from 'vitest'
import type { Broker, LostRange } from '../../../src/broker/broker.ts'
import { createMemoryCluster } from '../../../src/broker/memory/memory.ts'
import { GraphmillError } from '../../../src/errors.ts'
import type { Message } from '../../../src/messages/envelope.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import { startFlow, type TestFlow, worker } from '../../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const entries = async (started: TestFlow, kind: string) =>
  ((await started.all(started.topic('progress'))) as Message<'Progress'>[]).filter(
    ({ payload }) => payload.kind === kind,
  )

/** A broker that finds a gap whenever somebody joins a group, and reports it twice, as two members do. */
function losing(broker: Broker, lost: Omit<LostRange, 'topic'>, reported: () => void): Broker {
  return {
    ...broker,
    consume(subscription, signal) {
      const { topic, onLost } = subscription
      const range = { topic, ...lost }
      void Promise.all([onLost!(range), onLost!(range)]).then(reported)
      return broker.consume(subscription, signal)
    },
  }
}

test('records that were lost are in the log and the metrics once, and on progress under one id', async () => {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level: 'error' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const metrics = createMetrics()
  const lost = { partition: 3, first: '10', next: '40', count: 30, before: 1_700_000_000_000 }
  const reported = Promise.withResolvers<void>()
  const broker = losing(createMemoryCluster().connect(), lost, reported.resolve)
  flow = await startFlow([worker(() => undefined)], { broker, log, metrics })
  await reported.promise
  const said: string[] = []
  for await (const { headers, value } of broker.read(
    { topic: flow.topic('progress'), from: 'earliest', until: 'end' },
    new AbortController().signal,
  )) {
    const { id, documentId, payload } = flow.codec.decode(value, headers) as Message<'Progress'>
    expect(documentId).toBe('')
    expect(payload).toMatchObject({
      kind: 'lost',
      lost: { processor: 'worker', topic: flow.topic('chunk'), ...lost },
    })
    said.push(id)
  }
  expect(said).toHaveLength(2)
  expect(new Set(said).size).toBe(1)
  expect(lines).toMatchObject([
    { level: 50, topic: flow.topic('chunk'), count: 30, msg: 'records were deleted before they were read' },
  ])
  const text = await metrics.registry.metrics()
  expect(text).toMatch(/^graphmill_lost_records_total\{processor="worker",consumer="gm\.flow\.chunk.*\} 30$/m)
  expect(text).toMatch(/^graphmill_lost_ranges_total\{.*\} 1$/m)
})

test('what it waits for is reported once for many messages', async () => {
  flow = await startFlow([
    worker((_, attempt) => {
      if (attempt < 3) throw new GraphmillError('llm_unavailable', 'no server', { retryAfterMs: 600 })
    }),
  ])
  for (let n = 0; n < 5; n++) await flow.send('chunk', { text: `${n}` })
  await flow.first(flow.topic('topics'), 5)
  const found = await entries(flow, 'waiting')
  expect(found[0]!.payload.until).toBeGreaterThanOrEqual(found[0]!.time)
  expect(found).toMatchObject([
    {
      source: 'worker',
      documentId: '',
      payload: { topic: flow.topic('chunk'), error: { type: 'llm_unavailable', message: 'no server' } },
    },
  ])
})
