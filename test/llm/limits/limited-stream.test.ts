// A model behind its rate limiter: when its slot is taken, and when it is free again.
import { afterEach, describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { estimateTokens, limitedStream } from '../../../src/llm/limits/limited-stream.ts'
import { createRateLimiter, type RateLimiter } from '../../../src/llm/limits/rate-limiter.ts'
import type { CompletionEvent } from '../../../src/llm/llm.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import type { LlmScript } from '../../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../../support/llm-server.ts'

const never = new AbortController().signal
const request = { messages: [{ role: 'user' as const, content: 'What is a mill?' }] }
const caller = { workspace: 'w', flow: 'f', lane: 'prompt' }

let server: LlmServer
afterEach(() => server.close())

async function limited(script: LlmScript, rateLimiter: RateLimiter) {
  server = await startLlmServer(script)
  const llm = createOpenAi({ baseUrl: server.url, model: 'test-model' })
  return (signal = never) => limitedStream(llm, rateLimiter, request, caller, signal)
}

async function collect(events: AsyncIterable<CompletionEvent>): Promise<CompletionEvent[]> {
  const got: CompletionEvent[] = []
  for await (const event of events) got.push(event)
  return got
}

/** Characters of all deltas. */
function sizeOf(events: readonly CompletionEvent[]): number {
  return events.reduce((sum, event) => sum + (event.type === 'delta' ? event.text.length : 0), 0)
}

describe('a limited stream', () => {
  it('passes on the events of the model, and returns its slot', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const stream = await limited({ rules: [{ reply: 'A machine.' }] }, rateLimiter)
    for (let n = 0; n < 3; n++) {
      const events = await collect(stream())
      expect(events.map((event) => (event.type === 'delta' ? event.text : '')).join('')).toBe('A machine.')
      expect(events.at(-1)).toMatchObject({ type: 'end', finishReason: 'stop' })
    }
    expect(rateLimiter.running).toBe(0)
  })

  it('returns its slot when the model ends, even if its reader is slow', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const stream = await limited({ rules: [{ reply: 'word '.repeat(200) }] }, rateLimiter)
    const slow = stream()[Symbol.asyncIterator]()
    await slow.next()
    expect(sizeOf(await collect(stream()))).toBe(1000)
    expect(rateLimiter.running).toBe(0)
    expect((await collect({ [Symbol.asyncIterator]: () => slow })).at(-1)?.type).toBe('end')
  })

  it('reads no further ahead than about a million characters', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const pieces = ['x'.repeat(10_000)]
    const stream = await limited({ rules: [{ reply: { pieces, repeat: 3000 } }] }, rateLimiter)
    const slow = stream()[Symbol.asyncIterator]()
    const first = await slow.next()
    expect(rateLimiter.running).toBe(1)
    const rest = await collect({ [Symbol.asyncIterator]: () => slow })
    expect(sizeOf([first.value, ...rest])).toBe(30_000_000)
    expect(rateLimiter.running).toBe(0)
  })

  it('passes on the events before a failure, then the failure', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 1 })
    const stream = await limited(
      { rules: [{ reply: { text: 'abcdefgh', refuse: 'cut', refuseAfter: 1 } }] },
      rateLimiter,
    )
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of stream()) if (event.type === 'delta') seen.push(event.text)
    })()
    await expect(reading).rejects.toMatchObject({ code: 'llm_unavailable' })
    expect(seen).toEqual(['abcd'])
    expect(rateLimiter.running).toBe(0)
  })

  it('cancels the call when its reader leaves, or its signal aborts', async () => {
    const rateLimiter = createRateLimiter({ concurrency: 2 })
    const stream = await limited(
      { rules: [{ reply: { text: 'word '.repeat(500), tokensPerSecond: 100 } }] },
      rateLimiter,
    )
    for await (const event of stream()) if (event) break
    await server.until(({ cancelled }) => cancelled === 1)
    const stopping = new AbortController()
    const reason = new GraphmillError('deadline_exceeded', 'too late')
    const reading = (async () => {
      for await (const event of stream(stopping.signal)) if (event) stopping.abort(reason)
    })()
    await expect(reading).rejects.toBe(reason)
    await server.until(({ cancelled }) => cancelled === 2)
    expect(rateLimiter.running).toBe(0)
  })

  it('waits as long as a refusal asks', async () => {
    const rateLimiter = createRateLimiter()
    const stream = await limited({ refuse: { kind: 'rate-limit', first: 1 }, retryAfter: 0.2 }, rateLimiter)
    await expect(collect(stream())).rejects.toMatchObject({ code: 'llm_rate_limited' })
    await collect(stream())
    const [first, second] = server.requests
    expect(second!.at - first!.at).toBeGreaterThan(195)
  })
})

describe('the estimate of a request', () => {
  it('is its characters divided by 3.5, plus its output limit', () => {
    const messages = [{ role: 'user' as const, content: 'x'.repeat(35) }]
    expect(estimateTokens({ messages })).toBe(10)
    expect(estimateTokens({ messages, sampling: { maxTokens: 100 } })).toBe(110)
  })
})
