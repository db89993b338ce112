import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { createFlowSet, type FlowSetOptions, type PreparedFlow } from '../../src/flow/flow-set.ts'

let events: string[]
let over: AbortController
beforeEach(() => {
  events = []
  over = new AbortController()
})
afterEach(() => over.abort())

const createSet = (more: Partial<FlowSetOptions> = {}) =>
  createFlowSet({
    log: pino({ level: 'silent' }),
    clock: { now: () => 1000 },
    signal: over.signal,
    graceMs: 5,
    ...more,
  })

const prepared = (name: string, fingerprint = '1', more: Partial<PreparedFlow> = {}): PreparedFlow => ({
  name,
  fingerprint,
  async start() {
    events.push(`start ${name} ${fingerprint}`)
    return {
      done: new Promise(() => undefined),
      async stop(graceMs) {
        events.push(`stop ${name} ${fingerprint} ${graceMs}`)
      },
    }
  },
  ...more,
})

describe('a set of flows', () => {
  test('starts what is new, restarts what changed, drains what is gone, and leaves the others alone', async () => {
    const set = createSet()
    await set.apply([prepared('a'), prepared('b'), prepared('c')])
    events = []
    await set.apply([prepared('a'), prepared('b', '2'), prepared('d')])
    expect(events.sort()).toEqual(['start b 2', 'start d 1', 'stop b 1 5', 'stop c 1 5'])
    expect([...set.names].sort()).toEqual(['a', 'b', 'd'])
  })

  test('starts what is new at once, however long another one drains, and its own change in turn', async () => {
    const drained = Promise.withResolvers<void>()
    const slow = prepared('a', '1', {
      start: async () => ({
        done: new Promise(() => undefined),
        async stop() {
          events.push('drain a 1')
          await drained.promise
          events.push('ended a 1')
        },
      }),
    })
    const set = createSet()
    await set.apply([slow])
    const changed = set.apply([prepared('a', '2'), prepared('b')])
    const gone = set.apply([prepared('b')])
    const again = set.apply([prepared('a', '3'), prepared('b'), prepared('c')])
    await expect.poll(() => [...set.names].sort()).toEqual(['a', 'b', 'c'])
    expect(events).toEqual(['drain a 1', 'start b 1', 'start c 1'])
    drained.resolve()
    await Promise.all([changed, gone, again])
    expect(events.slice(3)).toEqual(['ended a 1', 'start a 2', 'stop a 2 5', 'start a 3'])
  })

  test('a second stop reaches what still drains, and nothing is started any more', async () => {
    const graces: number[] = []
    const ended = Promise.withResolvers<void>()
    const slow = prepared('a', '1', {
      start: async () => ({
        done: new Promise(() => undefined),
        stop(graceMs) {
          graces.push(graceMs)
          if (graceMs === 0) ended.resolve()
          return ended.promise
        },
      }),
    })
    const set = createSet()
    await set.apply([slow])
    const changed = set.apply([prepared('a', '2')])
    await expect.poll(() => graces).toEqual([5])
    const stopped = set.stop(5)
    void set.stop(0)
    await Promise.all([stopped, changed])
    expect(graces).toEqual([5, 5, 0])
    expect([set.names, events]).toEqual([[], []])
  })

  test('what was being started when all was to stop is stopped too', async () => {
    const starting = Promise.withResolvers<void>()
    const late = prepared('a', '1', {
      async start(signal) {
        events.push('starting')
        await starting.promise
        return prepared('a').start(signal)
      },
    })
    const set = createSet()
    const applied = set.apply([late])
    await expect.poll(() => events).toEqual(['starting'])
    const stopped = set.stop(5)
    starting.resolve()
    await Promise.all([applied, stopped])
    expect(events).toEqual(['starting', 'start a 1', 'stop a 1 0'])
    expect(set.names).toEqual([])
  })
})

/** A flow whose starts fail or break as asked, in turn; those that are not asked about run. */
function faulty(name: string, ...faults: readonly ('start' | 'run' | undefined)[]) {
  const breaks: ((error: Error) => void)[] = []
  let starts = 0
  const flow = prepared(name, '1', {
    async start(signal) {
      const fault = faults[starts++]
      if (fault === 'start') {
        events.push(`refuse ${name}`)
        throw new GraphmillError('broker_refused', `no ${name}`)
      }
      const running = await prepared(name).start(signal)
      if (fault === undefined) return running
      const { promise: done, reject } = Promise.withResolvers<void>()
      breaks.push(reject)
      return { ...running, done }
    },
  })
  return { flow, break: () => breaks.shift()!(new GraphmillError('topic_missing', `${name} is gone`)) }
}

describe('a fault of one flow', () => {
  const fault = (flow: string, code: string) => ({
    flow,
    error: expect.objectContaining({ code }),
    since: 1000,
  })

  test('that cannot be started is reported, the others run, and it is tried again until it runs', async () => {
    const set = createSet({ retryMs: 20 })
    const { flow } = faulty('b', 'start', 'start')
    await set.apply([prepared('a'), flow])
    expect([set.names, set.faults]).toEqual([['a'], [fault('b', 'broker_refused')]])
    await expect.poll(() => set.names).toEqual(['a', 'b'])
    expect(set.faults).toEqual([])
    expect(events).toEqual(['start a 1', 'refuse b', 'refuse b', 'start b 1'])
  })

  test('that could not go on lets it finish what it has in flight, leaves the others alone, and starts it again', async () => {
    const set = createSet({ retryMs: 20 })
    const b = faulty('b', 'run')
    await set.apply([prepared('a'), b.flow])
    b.break()
    await expect.poll(() => set.faults).toEqual([fault('b', 'topic_missing')])
    expect(set.names).toEqual(['a'])
    await expect.poll(() => set.names).toEqual(['a', 'b'])
    expect(events).toEqual(['start a 1', 'start b 1', 'stop b 1 5', 'start b 1'])
  })

  test('is not tried again before what it has in flight is finished', async () => {
    const drained = Promise.withResolvers<void>()
    const b = faulty('b', 'run')
    const slow: PreparedFlow = {
      ...b.flow,
      start: async (signal) => ({ ...(await b.flow.start(signal)), stop: () => drained.promise }),
    }
    const set = createSet({ retryMs: 1 })
    await set.apply([prepared('a'), slow])
    b.break()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(events).toEqual(['start a 1', 'start b 1'])
    drained.resolve()
    await expect.poll(() => events).toEqual(['start a 1', 'start b 1', 'start b 1'])
  })

  test('keeps its first time over the tries, and a change of it is tried at once', async () => {
    let now = 1000
    const set = createSet({ retryMs: 20, clock: { now: () => now++ } })
    const { flow } = faulty('b', 'start', 'start', 'start', 'start', 'start')
    await set.apply([prepared('a'), flow])
    await expect.poll(() => events.filter((event) => event === 'refuse b').length).toBeGreaterThan(2)
    expect(set.faults).toMatchObject([{ since: 1000 }])
    const refused = events.length
    await set.apply([prepared('a'), prepared('b', '2')])
    expect(events.slice(refused)).toEqual(['start b 2'])
    expect(set.faults).toEqual([])
  })

  test('is forgotten with the flow', async () => {
    const gone: string[] = []
    const set = createSet({ retryMs: 20 })
    const { flow } = faulty('b', 'start', 'start')
    await set.apply([prepared('a'), { ...flow, gone: async () => void gone.push('b') }])
    await set.apply([prepared('a')])
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect([set.faults, gone]).toEqual([[], ['b']])
    expect(events).toEqual(['start a 1', 'refuse b'])
  })

  test('while it drains since it changed starts the new version once', async () => {
    const b = faulty('b', 'run')
    const set = createSet({ retryMs: 1 })
    const drained = Promise.withResolvers<void>()
    const slow: PreparedFlow = {
      ...b.flow,
      start: async (signal) => ({ ...(await b.flow.start(signal)), stop: () => drained.promise }),
    }
    await set.apply([slow])
    const changed = set.apply([prepared('b', '2')])
    b.break()
    drained.resolve()
    await changed
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect([set.names, set.faults]).toEqual([['b'], []])
    expect(events).toEqual(['start b 1', 'start b 2'])
  })
})

describe('a fault of all flows', () => {
  const failed = (set: ReturnType<typeof createSet>) =>
    Promise.race([set.failed.catch((error) => error.message), Promise.resolve('not yet')])

  test('is reported only when no flow runs or is being started', async () => {
    const set = createSet()
    const [a, b] = [faulty('a', 'run'), faulty('b', 'start')]
    await set.apply([a.flow, b.flow])
    expect(await failed(set)).toBe('not yet')
    a.break()
    await expect(set.failed).rejects.toThrow(/a is gone|no b/)
  })

  test('is reported when the last that ran is no longer configured', async () => {
    const set = createSet()
    const { flow } = faulty('b', 'start')
    await set.apply([prepared('a'), flow])
    await set.apply([flow])
    await expect(set.failed).rejects.toThrow('no b')
  })

  test('is reported at once, and a stop then waits neither for what is in flight nor for the pause', async () => {
    const graces: number[] = []
    const ended = Promise.withResolvers<void>()
    const a = faulty('a', 'run')
    const slow: PreparedFlow = {
      ...a.flow,
      start: async (signal) => ({
        ...(await a.flow.start(signal)),
        stop(graceMs) {
          graces.push(graceMs)
          if (graceMs === 0) ended.resolve()
          return ended.promise
        },
      }),
    }
    const set = createSet()
    await set.apply([slow])
    a.break()
    await expect(set.failed).rejects.toThrow('a is gone')
    await set.stop(0)
    expect([set.names, graces]).toEqual([[], [5, 0]])
  })

  test('is not reported when one of them may wait for a change elsewhere', async () => {
    const set = createSet({ retryMs: 20 })
    const { flow } = faulty('b', 'start', 'start')
    await set.apply([{ ...flow, mayWait: true }])
    expect([await failed(set), set.faults.length]).toEqual(['not yet', 1])
    await expect.poll(() => set.names).toEqual(['b'])
  })

  test('is none when no flow is configured', async () => {
    const set = createSet()
    await set.apply([prepared('a')])
    await set.apply([])
    expect(await failed(set)).toBe('not yet')
  })
})

test('`gone` is called when a flow that is no longer configured has ended, and not for one that changed', async () => {
  const set = createSet()
  const gone = (name: string) => ({ gone: async () => void events.push(`gone ${name}`) })
  await set.apply([prepared('a', '1', gone('a')), prepared('b', '1', gone('b'))])
  await set.apply([prepared('b', '2')])
  expect(events.filter((event) => /^(gone|stop) /.test(event)).sort()).toEqual([
    'gone a',
    'stop a 1 5',
    'stop b 1 5',
  ])
  expect(events.indexOf('gone a')).toBeGreaterThan(events.indexOf('stop a 1 5'))
})
