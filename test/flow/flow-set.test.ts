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

  test('tells when a running flow could not go on', async () => {
    const set = createFlowSet(log, new AbortController().signal)
    const failing = prepared('a', '1', {
      start: async () => ({ done: Promise.reject(new Error('gone')), stop: async () => undefined }),
    })
    await set.apply([failing], 5)
    await expect(set.failed).rejects.toThrow('gone')
  })
})
