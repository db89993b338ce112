// The governor: turns, limits, and what it makes of refusals; against simulated servers with hard limits in simulated time,
// and against a real one over HTTP.
import { describe, expect, it } from 'vitest'
import { governedStream } from '../../src/llm/governed.ts'
import { createGovernor, type Governor, type GovernorOptions } from '../../src/llm/governor.ts'
import { createOpenAi } from '../../src/llm/openai.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { type SimulatedTime, simulatedTime } from '../support/simulated-time.ts'

const never = new AbortController().signal
const ask = (flow = 'a', more: object = {}) => ({
  workspace: 'w',
  flow,
  lane: 'prompt',
  signal: never,
  ...more,
})
const done = { type: 'done', tokens: null } as const

describe('turns', () => {
  it('allows as many calls at once as it was told', async () => {
    const governor = createGovernor({ concurrency: 2 })
    const first = await governor.acquire(ask())
    await governor.acquire(ask())
    let third = false
    const waiting = governor.acquire(ask()).then(() => {
      third = true
    })
    expect([governor.running, governor.waiting, third]).toEqual([2, 1, false])
    first.release(done)
    first.release(done)
    await waiting
    expect([governor.running, governor.waiting]).toEqual([2, 0])
  })

  it('go round over flows, workspaces and lanes', async () => {
    const governor = createGovernor({ concurrency: 1 })
    const order: string[] = []
    const blocker = await governor.acquire(ask('first'))
    const callers = [
      ...Array.from({ length: 4 }, () => ask('many')),
      ask('few'),
      ask('few'),
      ask('many', { lane: 'prompt-live' }),
      ask('many', { workspace: 'other' }),
    ]
    const all = callers.map(async (caller) => {
      const slot = await governor.acquire(caller)
      order.push(`${caller.workspace}/${caller.flow}/${caller.lane}`)
      slot.release(done)
    })
    blocker.release(done)
    await Promise.all(all)
    const [many, few, live, other] = [
      'w/many/prompt',
      'w/few/prompt',
      'w/many/prompt-live',
      'other/many/prompt',
    ]
    expect(order).toEqual([many, few, live, other, many, few, many, many])
  })

  it('leave no flow with 10 requests behind one with 10,000', async () => {
    const governor = createGovernor({ concurrency: 8 })
    let served = 0
    const serve = async (flow: string) => {
      const slot = await governor.acquire(ask(flow))
      served += 1
      const place = served
      await new Promise(setImmediate)
      slot.release(done)
      return place
    }
    const many = Array.from({ length: 10_000 }, () => serve('many'))
    const few = await Promise.all(Array.from({ length: 10 }, () => serve('few')))
    expect(Math.max(...few)).toBeLessThan(100)
    await Promise.all(many)
    expect(served).toBe(10_010)
  })

  it('are left by those who are told to stop', async () => {
    const governor = createGovernor({ concurrency: 1 })
    const slot = await governor.acquire(ask())
    const stopping = new AbortController()
    const leaving = governor.acquire(ask('a', { signal: stopping.signal }))
    const staying = governor.acquire(ask())
    stopping.abort(new Error('enough'))
    await expect(leaving).rejects.toThrow('enough')
    expect(governor.waiting).toBe(1)
    slot.release(done)
    await staying
    await expect(governor.acquire(ask('a', { signal: AbortSignal.abort() }))).rejects.toThrow()
  })

  it('refuse limits that are none', () => {
    for (const options of [{ concurrency: 0 }, { requestsPerMinute: -1 }, { tokensPerMinute: Number.NaN }])
      expect(() => createGovernor(options)).toThrow(
        expect.objectContaining({ code: 'configuration_invalid' }),
      )
  })
})

/** A server as the governor meets it: it takes a call or refuses it. */
interface HardLimit {
  /** Undefined: taken; else the Retry-After in milliseconds, or null for none. */
  arrive(tokens: number): number | null | undefined
  leave(): void
}

type Limit = (time: SimulatedTime) => HardLimit

const atOnce =
  (most: number, retryAfter: number | null = null): Limit =>
  () => {
    let running = 0
    return {
      arrive() {
        if (running >= most) return retryAfter
        running += 1
        return undefined
      },
      leave: () => void running--,
    }
  }

const perWindow =
  (
    most: number,
    windowMs: number,
    hint: 'seconds' | 'none' = 'seconds',
    count: 'calls' | 'tokens' = 'calls',
  ): Limit =>
  (time) => {
    const log: { at: number; amount: number }[] = []
    return {
      arrive(tokens) {
        while (log[0] && log[0].at <= time.now() - windowMs) log.shift()
        const amount = count === 'calls' ? 1 : tokens
        if (log.reduce((sum, entry) => sum + entry.amount, amount) > most)
          return hint === 'none' ? null : Math.ceil((log[0]!.at + windowMs - time.now()) / 1000) * 1000
        log.push({ at: time.now(), amount })
        return undefined
      },
      leave() {},
    }
  }

interface Load {
  readonly minutes: number
  /** Tokens that a call really uses. Default 0. */
  readonly tokens?: number
  /** What is thought before. Default: what it really is. */
  readonly estimate?: number
  readonly latencyMs?: number
}

/** 200 callers in three flows call without end. Gives the calls (or tokens) that were answered in a minute, and the share refused. */
async function load(
  limit: Limit,
  options: GovernorOptions,
  { minutes, tokens = 0, estimate = tokens, latencyMs = 500 }: Load,
) {
  const time = simulatedTime()
  const server = limit(time)
  const governor = createGovernor({ ...options, clock: time })
  const network = () => 5 + time.random() * 10
  let answered = 0
  let refused = 0
  const until = minutes * 60_000

  async function call(flow: string): Promise<void> {
    const slot = await governor.acquire(ask(flow, { tokens: estimate }))
    await time.wait(network())
    const refusal = server.arrive(tokens)
    if (refusal !== undefined) {
      await time.wait(network())
      if (time.now() <= until) refused += 1
      slot.release({ type: 'limited', retryAfterMs: refusal ?? undefined })
      return
    }
    await time.wait(20)
    slot.accepted()
    await time.wait(latencyMs * (0.6 + time.random() * 0.8))
    server.leave()
    await time.wait(network())
    if (time.now() <= until) answered += 1
    slot.release({ type: 'done', tokens: tokens || null })
  }

  for (let n = 0; n < 200; n++)
    void (async () => {
      while (time.now() < until) await call(`flow-${n % 3}`)
    })()
  await time.runUntil(until)
  return {
    callsPerMinute: answered / minutes,
    tokensPerMinute: (answered * tokens) / minutes,
    refused: refused / (answered + refused),
  }
}

describe('limits that it was told', () => {
  it.each([
    ['600 calls a minute', perWindow(600, 60_000), 600],
    ['600 calls a minute, counted by the second', perWindow(10, 1000), 600],
    ['20 calls a minute', perWindow(20, 60_000), 20],
  ])('are used, and not overstepped: %s', async (_, limit, requestsPerMinute) => {
    const seen = await load(limit, { requestsPerMinute }, { minutes: 4 })
    expect(seen.callsPerMinute / requestsPerMinute).toBeGreaterThan(0.9)
    expect(seen.refused).toBeLessThan(0.02)
  })

  it.each([
    ['with good estimates', 1000, 1000],
    ['with estimates of four times the truth', 500, 2000],
    ['with estimates of half the truth', 1000, 500],
  ])('are used, and not overstepped: 200,000 tokens a minute, %s', async (_, tokens, estimate) => {
    const limit = perWindow(200_000, 60_000, 'seconds', 'tokens')
    const seen = await load(limit, { tokensPerMinute: 200_000 }, { minutes: 4, tokens, estimate })
    expect(seen.tokensPerMinute / 200_000).toBeGreaterThan(0.9)
    expect(seen.refused).toBeLessThan(0.02)
  })

  it('let a call pass that alone is above the limit', async () => {
    const time = simulatedTime()
    const governor = createGovernor({ tokensPerMinute: 100, clock: time })
    const slot = await governor.acquire(ask('a', { tokens: 5000 }))
    expect(governor.running).toBe(1)
    slot.release({ type: 'done', tokens: 5000 })
  })
})

describe('limits that only refusals show', () => {
  it.each([
    ['10 at once', atOnce(10), 10 * 115],
    ['10 at once, with Retry-After', atOnce(10, 1000), 10 * 115],
    ['40 at once', atOnce(40, 1000), 40 * 115],
    ['600 a minute', perWindow(600, 60_000), 600],
    ['600 a minute, without Retry-After', perWindow(600, 60_000, 'none'), 600],
    ['20 a second', perWindow(20, 1000), 1200],
  ])('are found: %s', async (_, limit, capacity) => {
    const seen = await load(limit, {}, { minutes: 5 })
    expect(seen.callsPerMinute / capacity).toBeGreaterThan(0.9)
    expect(seen.refused).toBeLessThan(0.02)
  })

  it('that are none cost nothing: all slots are soon in use', async () => {
    const seen = await load(atOnce(1000), { concurrency: 64 }, { minutes: 2 })
    expect(seen.callsPerMinute / (64 * 115)).toBeGreaterThan(0.9)
    expect(seen.refused).toBe(0)
  })
})

describe('Retry-After', () => {
  it('is obeyed: nothing starts before, then one call, then the others', async () => {
    const time = simulatedTime()
    const governor = createGovernor({ concurrency: 8, clock: time })
    const slots = await Promise.all([1, 2].map(() => governor.acquire(ask())))
    slots[0]!.release({ type: 'limited', retryAfterMs: 30_000 })
    slots[1]!.release(done)
    const started: number[] = []
    for (let n = 0; n < 3; n++)
      void governor.acquire(ask()).then(async (slot) => {
        started.push(time.now())
        await time.wait(100)
        slot.release(done)
      })
    await time.runUntil(29_999)
    expect(started).toEqual([])
    await time.runUntil(60_000)
    expect(started).toHaveLength(3)
    expect(started[0]).toBe(30_000)
    expect(started[1]).toBeGreaterThanOrEqual(30_100)
  })

  it('does not hold up the process of a governor that nobody waits for', async () => {
    const time = simulatedTime()
    const governor = createGovernor({ clock: time })
    const slot = await governor.acquire(ask())
    slot.release({ type: 'limited', retryAfterMs: 30_000 })
    await time.runUntil(1)
    expect(time.now()).toBe(0)
  })
})

describe('a call that failed in another way', () => {
  it('gives its slot back, and makes way for the next probe', async () => {
    const time = simulatedTime()
    const governor = createGovernor({ concurrency: 4, clock: time })
    const first = await governor.acquire(ask())
    first.release({ type: 'limited', retryAfterMs: 1000 })
    const probe = governor.acquire(ask())
    await time.runUntil(2000)
    const next = governor.acquire(ask())
    ;(await probe).release({ type: 'failed' })
    await time.runUntil(4000)
    ;(await next).release(done)
    expect(governor.running).toBe(0)
  })
})

describe('over HTTP', () => {
  async function calls(url: string, governor: Governor, count: number) {
    const llm = createOpenAi({ baseUrl: url, model: 'test-model' })
    let refused = 0
    const queue = Array.from({ length: count }, (_, n) => n)
    const worker = async () => {
      for (let n = queue.pop(); n !== undefined; n = queue.pop()) {
        const request = { messages: [{ role: 'user' as const, content: `call ${n}` }] }
        const caller = { workspace: 'w', flow: `f${n % 3}`, lane: 'prompt' }
        try {
          for await (const _ of governedStream(llm, governor, request, caller, never));
        } catch {
          refused += 1
          queue.push(n)
        }
      }
    }
    const begun = performance.now()
    await Promise.all(Array.from({ length: 40 }, worker))
    return { refused: refused / (count + refused), seconds: (performance.now() - begun) / 1000 }
  }

  it('keeps to a hard limit of calls, and uses it', async () => {
    await using server = await startLlmServer({ maxRequests: 200, windowMs: 4000 })
    const seen = await calls(server.url, createGovernor({ requestsPerMinute: 3000 }), 250)
    expect(seen.refused).toBeLessThan(0.02)
    expect(250 / seen.seconds / 50).toBeGreaterThan(0.8)
  })

  it('finds a hard limit of calls at once', async () => {
    await using server = await startLlmServer({ maxConcurrent: 10, latencyMs: 20, retryAfter: 0 })
    const seen = await calls(server.url, createGovernor(), 1200)
    expect(seen.refused).toBeLessThan(0.02)
    expect(server.counts.maxConcurrent).toBeGreaterThan(8)
  })
})
