import { pino } from 'pino'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { deadTopic } from '../../../src/broker/topics.ts'
import { GraphmillError } from '../../../src/errors.ts'
import { type AnyProcessor, defineProcessor } from '../../../src/flow/processor.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import { startFlow, type TestFlow, worker } from '../../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const start = async (processors: readonly AnyProcessor[], more = {}) =>
  (flow = await startFlow(processors, more))

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
    const [letter] = await started.letters('chunk', 1)
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

  test('past its deadline is dead without being handled', async () => {
    let handled = 0
    const started = await start([worker(() => void handled++)])
    const { send } = started
    await send('chunk', { text: 'late' }, { deadline: Date.now() - 1 })
    const [letter] = await started.letters('chunk', 1)
    expect(letter!.headers['dead-code']).toBe('deadline_exceeded')
    expect(handled).toBe(0)
  })

  test('for a reason that only an operator can fix pauses and reports it on progress', async () => {
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

  test.each(['llm_rate_limited', 'budget_exhausted'] as const)(
    'because of a limit of its model, %s, is no error of the flow, for its metrics',
    async (code) => {
      const metrics = createMetrics()
      const limited = worker((_, attempt) => {
        if (attempt === 1) throw new GraphmillError(code, 'slowly', { retryAfterMs: 1 })
      })
      const { send, first, topic } = await start([limited], { metrics })
      await send('chunk', { text: 'x' })
      await first(topic('topics'), 1)
      const shown = await metrics.registry.metrics()
      expect(shown).toMatch(/tg_consumer_rate_limit_total\{[^}]*\} 1/)
      expect(shown).not.toMatch(/tg_consumer_processing_total\{[^}]*status="error"\}/)
    },
  )

  test('when the grace period is over goes back as it is, whatever the failure', async () => {
    const entered = Promise.withResolvers<void>()
    const stuck = defineProcessor({
      name: 'worker',
      inputs: ['chunk'],
      outputs: ['topics'],
      async *handle(_, { signal }) {
        entered.resolve()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        throw new GraphmillError('message_invalid', 'no')
      },
    })
    const { send, runtime, topic, broker } = await start([stuck])
    await send('chunk', { text: 'x' })
    await entered.promise
    await runtime.stop(10)
    expect((await broker.lag('gm.worker.chunk.default.default', topic('chunk'))).total).toBe(1)
    expect(await broker.listTopics(deadTopic(topic('chunk')))).toEqual([])
  })

  test('is said once, however many fail alike; each of them at the level of debug', async () => {
    const lines: { level: number; alike?: number }[] = []
    const stream = { write: (line: string) => void lines.push(JSON.parse(line)) }
    let now = 0
    const clock = { now: () => now }
    const log = pino({ level: 'debug' }, stream)
    const away = worker((_, attempt) => {
      if (attempt === 1) throw new GraphmillError('llm_unavailable', 'away')
    })
    const { send, first, topic } = await start([away], { log, clock })
    vi.spyOn(Math, 'random').mockReturnValue(0)
    for (let n = 0; n < 20; n++) await send('chunk', { text: `one ${n}` })
    await first(topic('topics'), 20)
    now += 10_000
    await send('chunk', { text: 'later' })
    await first(topic('topics'), 21)
    vi.restoreAllMocks()
    const said = lines.filter((line) => 'delayMs' in line)
    expect(said).toHaveLength(21)
    expect(said.filter(({ level }) => level > 20).map(({ alike }) => alike)).toEqual([undefined, 19])
  })
})
