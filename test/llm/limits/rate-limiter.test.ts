// The rate limiter: turns, configured limits, and what it learns from refusals, against simulated servers in simulated time,
// and against a real one over HTTP.
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { limitedStream } from '../../../src/llm/limits/limited-stream.ts'
import {
  createRateLimiter,
  type Pause,
  type RateLimiter,
  type RateLimiterOptions,
} from '../../../src/llm/limits/rate-limiter.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import {
  atOnce,
  atRandom,
  bucket,
  changing,
  inMinute,
  inWindow,
  type Limit,
} from '../../support/hard-limit.ts'
import { startLlmServer } from '../../support/llm-server.ts'
import { secondsOf } from '../../support/seconds-of-calls.ts'
import { simulatedTime } from '../../support/simulated-time.ts'

const never = new AbortController().signal
const ask = (flow = 'a', more: object = {}) => ({
  workspace: 'w',
  flow,
  lane: 'prompt',
  signal: never,
  ...more,
})
const done = { type: 'done', tokens: null } as const
const limited = (retryAfterMs?: number) => ({
  type: 'limited' as const,
  error: new GraphmillError('llm_rate_limited', 'slowly', retryAfterMs === undefined ? {} : { retryAfterMs }),
})

describe('turns', () => {
  it('allows as many calls at once as are configured', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 2 })
    const first = await rateLimiter.acquire(ask())
    await rateLimiter.acquire(ask())
    let third = false
    const waiting = rateLimiter.acquire(ask()).then(() => {
      third = true
    })
    expect([rateLimiter.running, rateLimiter.waiting, third]).toEqual([2, 1, false])
    first.release(done)
    first.release(done)
    await waiting
    expect([rateLimiter.running, rateLimiter.waiting]).toEqual([2, 0])
  })

  it('go round over flows, workspaces and lanes', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const order: string[] = []
    const blocker = await rateLimiter.acquire(ask('first'))
    const callers = [
      ...Array.from({ length: 4 }, () => ask('many')),
      ask('few'),
      ask('few'),
      ask('many', { lane: 'prompt-live' }),
      ask('many', { workspace: 'other' }),
    ]
    const all = callers.map(async (caller) => {
      const slot = await rateLimiter.acquire(caller)
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

  it('never leave a flow with 10 requests behind one with 10,000', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 8 })
    let served = 0
    const serve = async (flow: string) => {
      const slot = await rateLimiter.acquire(ask(flow))
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

  it('are given up by callers that are aborted', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const slot = await rateLimiter.acquire(ask())
    const stopping = new AbortController()
    const leaving = rateLimiter.acquire(ask('a', { signal: stopping.signal }))
    const staying = rateLimiter.acquire(ask())
    stopping.abort(new Error('enough'))
    await expect(leaving).rejects.toThrow('enough')
    expect(rateLimiter.waiting).toBe(1)
    slot.release(done)
    await staying
    await expect(rateLimiter.acquire(ask('a', { signal: AbortSignal.abort() }))).rejects.toThrow()
  })

  it('refuse invalid limits', () => {
    for (const options of [{ concurrency: 0 }, { requestsPerMinute: -1 }, { tokensPerMinute: Number.NaN }])
      expect(() => createRateLimiter(options)).toThrow(
        expect.objectContaining({ code: 'configuration_invalid' }),
      )
  })
})

interface Load {
  readonly minutes: number
  /** The tokens that a call uses. Default 0. */
  readonly tokens?: number
  /** The estimate. Default: the tokens that it uses. */
  readonly estimate?: number
  /** Calls use between a third and five thirds of their tokens. Default: all the same. */
  readonly mixed?: boolean
  /** How long a call takes; between 0.6 and 1.4 times as long. Default 500. */
  readonly latencyMs?: number
  /** Default 200, in three flows. */
  readonly callers?: number
  /** Limiters that share the server. Default 1. */
  readonly replicas?: number
  /** The second measurement begins after so many minutes. Default 2. */
  readonly runIn?: number
}

interface Seen {
  /** Share of the limit; above 1 if a server lets an empty window or a full bucket be used at once. */
  readonly used: number
  /** Share of the calls. */
  readonly refused: number
}

/** Callers that never stop. The measurements are of the whole time, and of the time after the first two minutes. */
async function load(
  limit: Limit,
  options: RateLimiterOptions,
  { minutes, tokens = 0, estimate = tokens, mixed = false, latencyMs = 500, ...more }: Load,
): Promise<{ readonly whole: Seen; readonly steady: Seen }> {
  const { callers = 200, replicas = 1, runIn: runInMinutes = 2 } = more
  const time = simulatedTime()
  const server = limit(time)
  const rateLimiters = Array.from({ length: replicas }, () => createRateLimiter({ ...options, clock: time }))
  const network = () => 5 + time.random() * 10
  let answered = 0
  let refused = 0
  const until = minutes * 60_000

  async function call(caller: number): Promise<void> {
    const flow = `flow-${caller % 3}`
    const size = mixed ? 0.3 + 1.4 * time.random() : 1
    const slot = await rateLimiters[caller % replicas]!.acquire(ask(flow, { tokens: estimate * size }))
    await time.wait(network())
    const refusal = server.arrive(tokens * size)
    if (refusal !== undefined) {
      await time.wait(network())
      refused += 1
      slot.release(limited(refusal ?? undefined))
      return
    }
    await time.wait(20)
    slot.accepted()
    await time.wait(latencyMs * (0.6 + time.random() * 0.8))
    server.leave()
    await time.wait(network())
    answered += 1
    slot.release({ type: 'done', tokens: tokens * size || null })
  }

  for (let n = 0; n < callers; n++)
    void (async () => {
      while (time.now() < until) await call(n)
    })()
  const count = () => ({ answered, refused, used: server.used(), at: time.now() })
  const between = (from: ReturnType<typeof count>, to: ReturnType<typeof count>): Seen => ({
    used: (to.used - from.used) / (to.at - from.at),
    refused: (to.refused - from.refused) / (to.answered - from.answered + to.refused - from.refused),
  })
  const begun = count()
  await time.runUntil(runInMinutes * 60_000)
  const runIn = count()
  await time.runUntil(until)
  const over = count()
  return { whole: between(begun, over), steady: between(runIn, over) }
}

describe('configured limits', () => {
  it.each([
    ['600 calls a minute', inWindow(600), 600],
    ['600 calls a minute, counted by the second', inWindow(10, { windowMs: 1000 }), 600],
    ['600 calls a minute, from a bucket', bucket(600, 10), 600],
    ['20 calls a minute', inWindow(20), 20],
  ])('are used, and not exceeded: %s', async (_, limit, requestsPerMinute) => {
    const { whole } = await load(limit, { requestsPerMinute }, { minutes: 4 })
    expect(whole.used).toBeGreaterThan(0.94)
    expect(whole.refused).toBe(0)
  })

  it('are used, and not exceeded: 10 calls at once', async () => {
    const { whole } = await load(atOnce(10), { concurrency: 10 }, { minutes: 4 })
    expect(whole.used).toBeGreaterThan(0.94)
    expect(whole.refused).toBe(0)
  })

  it.each([
    ['with good estimates', 1000, 1000],
    ['with estimates of four times the truth', 500, 2000],
    ['with estimates of half the truth', 1000, 500],
  ])('are used, and not exceeded: 200,000 tokens a minute, %s', async (_, tokens, estimate) => {
    const limit = inWindow(200_000, { count: 'tokens' })
    const { whole } = await load(limit, { tokensPerMinute: 200_000 }, { minutes: 4, tokens, estimate })
    expect(whole.used).toBeGreaterThan(0.94)
    expect(whole.refused).toBe(0)
  })

  it('admit a single call above the limit', async () => {
    const time = simulatedTime()
    const rateLimiter = createRateLimiter({ tokensPerMinute: 100, clock: time })
    const slot = await rateLimiter.acquire(ask('a', { tokens: 5000 }))
    expect(rateLimiter.running).toBe(1)
    slot.release({ type: 'done', tokens: 5000 })
  })
})

const none = { hint: 'none' } as const

describe('limits that are learned from refusals', () => {
  const tokens = { count: 'tokens' } as const
  it.each<[string, Limit, Load]>([
    ['2 at once, slow calls', atOnce(2, 1000), { minutes: 20, latencyMs: 5000 }],
    ['4 at once', atOnce(4), { minutes: 10 }],
    ['10 at once', atOnce(10), { minutes: 10 }],
    ['10 at once, with Retry-After', atOnce(10, 1000), { minutes: 10 }],
    ['10 at once, slow calls', atOnce(10), { minutes: 10, latencyMs: 5000 }],
    ['40 at once, with Retry-After', atOnce(40, 1000), { minutes: 5 }],
    ['20 a minute', inWindow(20), { minutes: 40 }],
    ['20 a minute, without Retry-After', inWindow(20, none), { minutes: 40 }],
    ['60 a minute', inWindow(60), { minutes: 20 }],
    ['60 a minute, without Retry-After', inWindow(60, none), { minutes: 20 }],
    ['60 a minute, slow calls', inWindow(60), { minutes: 20, latencyMs: 5000 }],
    ['600 a minute', inWindow(600), { minutes: 10 }],
    ['600 a minute, without Retry-After', inWindow(600, none), { minutes: 10 }],
    ['600 a minute, few callers', inWindow(600, none), { minutes: 10, callers: 20 }],
    ['600 a minute, slow calls', inWindow(600), { minutes: 10, latencyMs: 5000 }],
    ['600 in each minute of the clock', inMinute(600), { minutes: 10 }],
    ['600 in each minute of the clock, without Retry-After', inMinute(600, 'none'), { minutes: 10 }],
    ['600 a minute from a bucket of 10', bucket(600, 10), { minutes: 10 }],
    ['600 a minute from a bucket of 600', bucket(600, 600), { minutes: 10 }],
    ['3000 a minute, without Retry-After', inWindow(3000, none), { minutes: 4 }],
    ['10 a second', inWindow(10, { windowMs: 1000 }), { minutes: 10 }],
    ['20 a second', inWindow(20, { windowMs: 1000, ...none }), { minutes: 10 }],
    ['200,000 tokens a minute', inWindow(200_000, tokens), { minutes: 10, tokens: 1000 }],
    [
      '200,000 tokens a minute, without Retry-After',
      inWindow(200_000, { ...tokens, ...none }),
      { minutes: 10, tokens: 1000 },
    ],
    ['200,000 tokens a minute, mixed', inWindow(200_000, tokens), { minutes: 10, tokens: 1000, mixed: true }],
  ])('are found, and then hardly overstepped: %s', async (_, limit, offered) => {
    const { whole, steady } = await load(limit, {}, offered)
    expect(whole.used).toBeGreaterThan(0.9)
    expect(whole.refused).toBeLessThan(0.07)
    expect(steady.used).toBeGreaterThan(0.9)
    expect(steady.refused).toBeLessThan(0.01)
  })

  it.each<[string, Limit, Load, number]>([
    ['a minute', inWindow(600), { minutes: 10 }, 0.01],
    ['a minute, without Retry-After', inWindow(600, none), { minutes: 10 }, 0.01],
    ['at once', atOnce(50), { minutes: 5 }, 0.01],
  ])('are found by four replicas that share them: %s', async (_, limit, offered, mostRefused) => {
    const { steady } = await load(limit, {}, { ...offered, replicas: 4 })
    expect(steady.used).toBeGreaterThan(0.8)
    expect(steady.refused).toBeLessThan(mostRefused)
  })

  it.each<[string, Limit]>([
    ['600 a minute, then 60', changing(inWindow(600), inWindow(60), 300_000)],
    ['50 at once, then 4', changing(atOnce(50), atOnce(4), 300_000)],
  ])('are found again when they become smaller: %s', async (_, limit) => {
    const { steady } = await load(limit, {}, { minutes: 20, runIn: 10 })
    expect(steady.refused).toBeLessThan(0.01)
  })

  it('do not slow down a server without limits: all slots are soon in use', async () => {
    const { whole } = await load(atOnce(1000), { concurrency: 64 }, { minutes: 2.5 })
    expect(whole.used / (64 / 1000)).toBeGreaterThan(0.9)
    expect(whole.refused).toBe(0)
  })
})

describe('refusals by chance', () => {
  const free = atOnce(100_000)

  it.each<[string, number, number | null]>([
    ['1%', 0.01, null],
    ['5%', 0.05, null],
    ['5%, with a Retry-After of 0 s', 0.05, 0],
    ['5%, with a Retry-After of 1 s', 0.05, 1000],
  ])('hardly cost time: %s', async (_, share, retryAfter) => {
    const seconds = await secondsOf(atRandom(share, free, retryAfter), 2000)
    expect(seconds / (await secondsOf(free, 2000))).toBeLessThan(1.2)
  })

  it('make only the refused call wait for a long Retry-After', async () => {
    // Nearly all calls are done before the first refused one may come again; some are refused a second and a third time.
    expect(await secondsOf(atRandom(0.05, free, 60_000), 2000)).toBeLessThan(4 * 60)
  })

  it('do not hide a limit that comes later', async () => {
    const { steady } = await load(changing(atRandom(0.05, free), inWindow(600), 60_000), {}, { minutes: 10 })
    // What was measured before the limit is unlearned only slowly.
    expect(steady.refused).toBeLessThan(0.05)
  })

  it.each<[string, Limit, Load]>([
    ['600 a minute', inWindow(600), { minutes: 20 }],
    ['600 a minute, without Retry-After', inWindow(600, none), { minutes: 20 }],
    ['6000 a minute', inWindow(6000), { minutes: 6 }],
  ])('beside a limit leave it found and used: %s', async (_, limit, offered) => {
    const { steady } = await load(atRandom(0.05, limit), {}, offered)
    expect(steady.used).toBeGreaterThan(0.8)
    expect(steady.refused).toBeLessThan(0.1)
  })

  it('never collapse the flow: 20%', async () => {
    const seconds = await secondsOf(atRandom(0.2, free), 2000)
    expect(seconds / (await secondsOf(free, 2000))).toBeLessThan(1.6)
  })

  it('leave some of the use of few calls at once: 5% and 10 at once', async () => {
    const { steady } = await load(atRandom(0.05, atOnce(10)), {}, { minutes: 10 })
    expect(steady.used).toBeGreaterThan(0.5)
  })

  it('never occur when no call but this was made', async () => {
    const rateLimiter = createRateLimiter({ clock: simulatedTime() })
    ;(await rateLimiter.acquire(ask())).release(limited(1000))
    expect(rateLimiter.paused()?.leftMs).toBe(1000)
  })
})

describe('Retry-After', () => {
  it('is kept: nothing starts before, then one call, then the others', async () => {
    const time = simulatedTime()
    const rateLimiter = createRateLimiter({ concurrency: 8, clock: time })
    ;(await rateLimiter.acquire(ask())).release(limited(30_000))
    const started: number[] = []
    for (let n = 0; n < 3; n++)
      void rateLimiter.acquire(ask()).then(async (slot) => {
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

  it('does not keep the process alive when nobody waits', async () => {
    const time = simulatedTime()
    const rateLimiter = createRateLimiter({ clock: time })
    const slot = await rateLimiter.acquire(ask())
    slot.release(limited(30_000))
    await time.runUntil(1)
    expect(time.now()).toBe(0)
  })
})

describe('a pause', () => {
  it('is reported with its reason and its time, until the next call may start', async () => {
    const time = simulatedTime()
    const rateLimiter = createRateLimiter({ clock: time })
    expect(rateLimiter.paused()).toBeUndefined()
    const refusal = limited(30_000)
    ;(await rateLimiter.acquire(ask())).release(refusal)
    expect(rateLimiter.paused()).toEqual({ id: 1, error: refusal.error, leftMs: 30_000 })
    time.after(20_000, () => undefined)
    await time.runUntil(20_000)
    expect(rateLimiter.paused()).toMatchObject({ id: 1, leftMs: 10_000 })
    time.after(10_000, () => undefined)
    await time.runUntil(30_000)
    expect(rateLimiter.paused()).toBeUndefined()
  })

  it('of more than 10 s is reported once, and so is the next one', async () => {
    const time = simulatedTime()
    const reported: Pause[] = []
    const rateLimiter = createRateLimiter({ clock: time, onPause: (pause) => reported.push(pause) })
    const slots = await Promise.all(Array.from({ length: 9 }, () => rateLimiter.acquire(ask())))
    for (const slot of slots.slice(0, 6)) slot.release(limited(60_000))
    slots[6]!.release(limited(1000))
    expect(reported).toEqual([])
    slots[7]!.release(limited(30_000))
    slots[8]!.release(limited(40_000))
    expect(reported.map(({ leftMs }) => leftMs)).toEqual([30_000])
    expect(rateLimiter.paused()?.leftMs).toBe(40_000)
    const next = rateLimiter.acquire(ask())
    await time.runUntil(40_000)
    ;(await next).release(limited(60_000))
    expect(reported.map(({ leftMs }) => leftMs)).toEqual([30_000, 60_000])
  })
})

describe('a call that failed in another way', () => {
  it('returns its slot, and lets the next probe start', async () => {
    const time = simulatedTime()
    const rateLimiter = createRateLimiter({ concurrency: 4, clock: time })
    const first = await rateLimiter.acquire(ask())
    first.release(limited(1000))
    const probe = rateLimiter.acquire(ask())
    await time.runUntil(2000)
    const next = rateLimiter.acquire(ask())
    ;(await probe).release({ type: 'failed' })
    await time.runUntil(4000)
    ;(await next).release(done)
    expect(rateLimiter.running).toBe(0)
  })
})

describe('over HTTP', () => {
  async function calls(url: string, rateLimiter: RateLimiter, count: number) {
    const llm = createOpenAi({ baseUrl: url, model: 'test-model' })
    let refused = 0
    const queue = Array.from({ length: count }, (_, n) => n)
    const worker = async () => {
      for (let n = queue.pop(); n !== undefined; n = queue.pop()) {
        const request = { messages: [{ role: 'user' as const, content: `call ${n}` }] }
        const caller = { workspace: 'w', flow: `f${n % 3}`, lane: 'prompt' }
        try {
          for await (const _ of limitedStream(llm, rateLimiter, request, caller, never));
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
    const seen = await calls(server.url, createRateLimiter({ requestsPerMinute: 3000 }), 250)
    expect(seen.refused).toBeLessThan(0.02)
    expect(250 / seen.seconds / 50).toBeGreaterThan(0.4) // the simulated ones above know how much: this machine may be busy
  })

  it('finds a hard limit of calls at once', async () => {
    await using server = await startLlmServer({ maxConcurrent: 10, latencyMs: 20, retryAfter: 0 })
    const seen = await calls(server.url, createRateLimiter(), 1200)
    // The share of refusals is measured above. Here, on a busy machine, calls of 20 ms wait longer in queues than in the server.
    expect(seen.refused).toBeLessThan(0.2)
    expect(server.counts.maxConcurrent).toBeGreaterThan(8)
  })
})
