import { pino } from 'pino'
import { beforeEach, describe, expect, test } from 'vitest'
import { createFlowSet, type PreparedFlow } from '../../src/flow/flow-set.ts'

const log = pino({ level: 'silent' })
let events: string[]
beforeEach(() => {
  events = []
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
    const set = createFlowSet(log, new AbortController().signal)
    await set.apply([prepared('a'), prepared('b'), prepared('c')], 5)
    events = []
    await set.apply([prepared('a'), prepared('b', '2'), prepared('d')], 5)
    expect(events.sort()).toEqual(['start b 2', 'start d 1', 'stop b 1 5', 'stop c 1 5'])
    expect([...set.names].sort()).toEqual(['a', 'b', 'd'])
  })

  test('runs the others when one cannot be started, and says so', async () => {
    const set = createFlowSet(log, new AbortController().signal)
    const broken = prepared('b', '1', { start: () => Promise.reject(new Error('no topic')) })
    await expect(set.apply([prepared('a'), broken], 5)).rejects.toThrow('no topic')
    expect(set.names).toEqual(['a'])
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
    const set = createFlowSet(log, new AbortController().signal)
    await set.apply([slow], 5)
    const changed = set.apply([prepared('a', '2'), prepared('b')], 5)
    const gone = set.apply([prepared('b')], 5)
    const again = set.apply([prepared('a', '3'), prepared('b'), prepared('c')], 5)
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
    const set = createFlowSet(log, new AbortController().signal)
    await set.apply([slow], 5)
    const changed = set.apply([prepared('a', '2')], 5)
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
    const set = createFlowSet(log, new AbortController().signal)
    const applied = set.apply([late], 5)
    await expect.poll(() => events).toEqual(['starting'])
    const stopped = set.stop(5)
    starting.resolve()
    await Promise.all([applied, stopped])
    expect(events).toEqual(['starting', 'start a 1', 'stop a 1 0'])
    expect(set.names).toEqual([])
  })

  test('tells when a running flow could not go on', async () => {
    const set = createFlowSet(log, new AbortController().signal)
    const failing = prepared('a', '1', {
      start: async () => ({ done: Promise.reject(new Error('gone')), stop: async () => undefined }),
    })
    await set.apply([failing], 5)
    await expect(set.failed).rejects.toThrow('gone')
  })
})
