// OpenArmature's published fixtures 056-058 and 061-066: call-level retry, overrides and reask.
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { providerError } from '../../src/llm/provider-error.ts'
import { type AttemptRecord, fullJitter, isTransient } from '../../src/llm/structured-output/attempts.ts'
import type { StructuredOutputInvalid } from '../../src/llm/structured-output/invalid-error.ts'
import { completion, counted, failure, frozen, hi, P, setup } from './harness.ts'

const down = (message = 'down') => ({ status: 503, body: { error: { message } } })
const noWait = () => 0
const ask = frozen({ messages: [{ role: 'user', content: 'Generate a person record.' }] as const })
const askP = frozen({ ...ask, responseSchema: P })
const alice = '{"name":"Alice"}'
const whole = '{"name":"Alice","age":30}'
const reask = ({ outputContent }: { outputContent: string }) => `Correct ${outputContent}`
const pair = (output: string) => [
  { role: 'assistant', content: output },
  { role: 'user', content: `Correct ${output}` },
]

/** Collects the attempts, and gives their reasons. */
function watched() {
  const attempts: AttemptRecord[] = []
  return {
    attempts,
    onAttempt: (attempt: AttemptRecord) => void attempts.push(attempt),
    reasons: () => attempts.map(({ retryReason }) => retryReason),
    categories: () => attempts.map(({ error }) => error?.category),
  }
}

describe('056-058 call-level retry', () => {
  it('056 tries a transient failure again', async () => {
    await using test = await setup([down(), completion('ok')])
    const seen = watched()
    const response = await test.provider.complete(ask, {
      retry: { maxAttempts: 2, backoff: noWait },
      onAttempt: seen.onAttempt,
    })
    expect(response.message.content).toBe('ok')
    expect(seen.categories()).toEqual(['provider_unavailable', undefined])
    expect(response.attempts).toEqual(seen.attempts)
    expect(response.attempts.map(({ attemptIndex }) => attemptIndex)).toEqual([0, 1])
  })

  it('057 raises the last failure when the attempts are used up', async () => {
    await using test = await setup([down('down 1'), down('down 2'), completion('late')])
    const seen = watched()
    const thrown = await failure(test.provider, ask, 'provider_unavailable', {
      retry: { maxAttempts: 2, backoff: noWait },
      onAttempt: seen.onAttempt,
    })
    expect(thrown.message).toContain('down 2')
    expect(seen.attempts).toHaveLength(2)
    expect(test.server.requests).toHaveLength(2)
  })

  it('058 does not try again, nor wait, what is not transient', async () => {
    await using test = await setup([{ status: 400, body: {} }, completion('late')])
    const waits: number[] = []
    const backoff = (index: number) => waits.push(index)
    await failure(test.provider, ask, 'provider_invalid_request', { retry: { maxAttempts: 3, backoff } })
    expect(waits).toEqual([])
    expect(test.server.requests).toHaveLength(1)
  })

  it('makes exactly one attempt without a policy, and three by default with one', async () => {
    await using test = await setup(down())
    await failure(test.provider, ask, 'provider_unavailable')
    expect(test.server.requests).toHaveLength(1)
    await failure(test.provider, ask, 'provider_unavailable', { retry: { backoff: noWait } })
    expect(test.server.requests).toHaveLength(4)
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses %s attempts before anything is sent', async (maxAttempts) => {
    await using test = await setup(completion('x'))
    await failure(test.provider, ask, 'provider_invalid_request', { retry: { maxAttempts } })
    expect(test.server.requests).toHaveLength(0)
  })

  it('calls the classifier and the observer, whose own failure changes nothing', async () => {
    await using test = await setup([{ status: 400, body: {} }, down(), completion('ok')])
    const asked: number[] = []
    const told: number[] = []
    const response = await test.provider.complete(ask, {
      retry: {
        backoff: noWait,
        classifier: (_, { attemptIndex }) => asked.push(attemptIndex) > 0,
        onRetry: async (_, attemptIndex) => {
          told.push(attemptIndex)
          throw new Error('observer')
        },
      },
    })
    expect(response.message.content).toBe('ok')
    expect({ asked, told }).toEqual({ asked: [0, 1], told: [0, 1] })
  })

  it('raises an abort before the classifier is asked', async () => {
    await using test = await setup({ by: () => {} })
    const stop = new AbortController()
    let asked = 0
    const classifier = () => ++asked > 0
    const call = test.provider.complete(ask, { retry: { classifier, backoff: noWait }, signal: stop.signal })
    await test.server.until(1)
    stop.abort()
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
    expect({ asked, calls: test.server.requests.length }).toEqual({ asked: 0, calls: 1 })
  })

  it('ends a wait when it is aborted', async () => {
    await using test = await setup(down())
    const stop = new AbortController()
    const reason = new Error('enough')
    const retry = { backoff: () => 3600, onRetry: () => queueMicrotask(() => stop.abort(reason)) }
    await expect(test.provider.complete(ask, { retry, signal: stop.signal })).rejects.toBe(reason)
  })

  it('sends nothing when it was aborted before', async () => {
    await using test = await setup(completion('x'))
    await expect(test.provider.complete(ask, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    })
    expect(test.server.requests).toHaveLength(0)
  })
})

describe('the defaults', () => {
  it('wait a random time that doubles up to 30 seconds', () => {
    const most = [0, 1, 2, 3, 4, 5, 60].map((index) => fullJitter(index, () => 1))
    expect(most).toEqual([1, 2, 4, 8, 16, 30, 30])
    expect(fullJitter(3, () => 0)).toBe(0)
    expect(fullJitter(2, () => 0.5)).toBe(2)
  })

  it('know three transient categories, on the error or one level below', () => {
    const codes = ['llm_unavailable', 'llm_rate_limited', 'llm_model_loading'] as const
    for (const code of codes) expect(isTransient(providerError(code, 'x'))).toBe(true)
    for (const code of [
      'llm_authentication',
      'llm_model_unknown',
      'llm_request_invalid',
      'llm_response_invalid',
    ] as const)
      expect(isTransient(providerError(code, 'x'))).toBe(false)
    const carried = new Error('node', { cause: providerError('llm_unavailable', 'x') })
    expect(isTransient(carried)).toBe(true)
    expect(isTransient(new Error('graph', { cause: carried }))).toBe(false)
    expect(isTransient(new GraphmillError('broker_unavailable', 'x'))).toBe(false)
  })
})

describe('061-066 overrides and reask', () => {
  it('061 lays an override over the config of each retry', async () => {
    await using test = await setup([down(), down(), completion('ok')])
    const seen = watched()
    await test.provider.complete(
      frozen({ ...ask, config: { temperature: 0, maxTokens: 9, extras: { a: 1 } } }),
      {
        retry: frozen({
          maxAttempts: 3,
          backoff: noWait,
          perAttemptOverride: [
            { temperature: 0.3, maxTokens: null },
            { temperature: 0.6, extras: { b: 2 } },
          ],
        }),
        onAttempt: seen.onAttempt,
      },
    )
    expect(test.wire().map(({ temperature, max_tokens, a, b }) => [temperature, max_tokens, a, b])).toEqual([
      [0, 9, 1, undefined],
      [0.3, 9, 1, undefined],
      [0.6, 9, 1, 2],
    ])
    expect(seen.reasons()).toEqual([undefined, 'transient', 'transient'])
  })

  it('061 repeats the last override', async () => {
    await using test = await setup(down())
    const retry = { maxAttempts: 4, backoff: noWait, perAttemptOverride: [{ seed: 1 }, { seed: 2 }] }
    await failure(test.provider, ask, 'provider_unavailable', { retry })
    expect(test.wire().map(({ seed }) => seed)).toEqual([undefined, 1, 2, 2])
  })

  it("062 answers an invalid reply with the caller's words and nothing of its own", async () => {
    await using test = await setup([completion(alice), completion(whole)])
    const seen = watched()
    const response = await test.provider.complete(askP, {
      retry: { maxAttempts: 2, backoff: noWait, reask },
      onAttempt: seen.onAttempt,
    })
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
    expect(test.wire()[1]!['messages']).toEqual([...ask.messages, ...pair(alice)])
    expect(seen.reasons()).toEqual([undefined, 'reask'])
  })

  it('063 raises the last failure, and builds no words for it', async () => {
    await using test = await setup([
      completion(alice, {}, counted(20, 6, 26)),
      completion(alice, {}, counted(30, 6, 36)),
    ])
    let built = 0
    const counting = (context: { outputContent: string }) => {
      built += 1
      return reask(context)
    }
    const thrown = await failure<StructuredOutputInvalid>(test.provider, askP, 'structured_output_invalid', {
      retry: { maxAttempts: 2, backoff: noWait, reask: counting },
    })
    expect(thrown.usage).toEqual({ promptTokens: 30, completionTokens: 6, totalTokens: 36 })
    expect(test.wire()[1]!['messages']).toEqual([...ask.messages, ...pair(alice)])
    expect({ built, calls: test.server.requests.length }).toEqual({ built: 1, calls: 2 })
  })

  it('064 does not reask without a builder', async () => {
    await using test = await setup([completion(alice), completion(whole)])
    await failure(test.provider, askP, 'structured_output_invalid', {
      retry: { maxAttempts: 2, backoff: noWait },
    })
    expect(test.server.requests).toHaveLength(1)
  })

  it('asks again after a reply that was cut off only with a larger limit', async () => {
    const cut = completion('{"name":"Al', { finish_reason: 'length' }, counted(20, 9, 29))
    const small = { maxTokens: 9 }
    for (const [config, perAttemptOverride, limits] of [
      [small, undefined, [9]],
      [small, [{ temperature: 0.5 }], [9]],
      [small, [small], [9]],
      [small, [{ maxTokens: 8 }], [9]],
      [small, [{ maxTokens: 18 }], [9, 18]],
      // Without a limit in the request it is the server's: what the reply had.
      [{}, [small], [undefined]],
      [{}, [{ maxTokens: 18 }], [undefined, 18]],
    ] as const) {
      await using test = await setup([cut, completion(whole)])
      const retry = {
        maxAttempts: 2,
        backoff: noWait,
        reask,
        ...(perAttemptOverride && { perAttemptOverride }),
      }
      const asked = test.provider.complete(frozen({ ...askP, config }), { retry })
      if (limits.length === 1) await expect(asked).rejects.toMatchObject({ finishReason: 'length' })
      else
        expect((await asked).attempts).toMatchObject([
          { usage: { totalTokens: 29 } },
          { retryReason: 'reask' },
        ])
      expect(test.wire().map((body) => body['max_tokens'])).toEqual(limits)
    }
  })

  it('065 lets the transcript grow, and composes with overrides', async () => {
    const forty = '{"name":"Dan","age":"forty"}'
    await using test = await setup([completion(alice), completion(forty), completion(whole)])
    const response = await test.provider.complete(frozen({ ...askP, config: { temperature: 0 } }), {
      retry: {
        maxAttempts: 3,
        backoff: noWait,
        reask,
        perAttemptOverride: [{ temperature: 0.3 }, { temperature: 0.6 }],
      },
    })
    expect(test.wire().map(({ temperature }) => temperature)).toEqual([0, 0.3, 0.6])
    expect(test.wire()[2]!['messages']).toEqual([...ask.messages, ...pair(alice), ...pair(forty)])
    expect(response.attempts.map(({ retryReason }) => retryReason)).toEqual([undefined, 'reask', 'reask'])
  })

  it('066 sends the transcript unchanged after a transient failure in between', async () => {
    await using test = await setup([completion(alice), down(), completion(whole)])
    const response = await test.provider.complete(askP, {
      retry: { maxAttempts: 3, backoff: noWait, reask },
    })
    const messages = test.wire().map((body) => body['messages'])
    expect(messages[1]).toEqual([...ask.messages, ...pair(alice)])
    expect(messages[2]).toEqual(messages[1])
    expect(response.attempts.map(({ retryReason }) => retryReason)).toEqual([undefined, 'reask', 'transient'])
  })

  it('reasks on the fallback path too, with the directive still first', async () => {
    await using test = await setup([completion('Sure!'), completion(whole)], { native: false })
    const response = await test.provider.complete(askP, { retry: { backoff: noWait, reask } })
    const messages = test.wire()[1]!['messages'] as { role: string }[]
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user'])
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
  })

  it('reasks an empty reply', async () => {
    await using test = await setup([completion(''), completion(whole)])
    const response = await test.provider.complete(askP, { retry: { backoff: noWait, reask: () => 'Again.' } })
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
  })

  it('evaluates every reply, the last too', async () => {
    await using test = await setup([completion(whole)])
    const response = await test.provider.complete(askP, { retry: { maxAttempts: 1, reask } })
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
  })
})

describe('concurrent calls', () => {
  it('go to the server at once', async () => {
    const open: (() => void)[] = []
    const { body } = completion('x')
    await using test = await setup({
      by: (response) => {
        open.push(() => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)))
        if (open.length === 3) for (const end of open) end()
      },
    })
    const calls = [1, 2, 3].map(() => test.provider.complete({ messages: hi }))
    expect(await Promise.all(calls)).toHaveLength(3)
  })
})
