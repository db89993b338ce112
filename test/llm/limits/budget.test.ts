import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { type Budget, createBudget } from '../../../src/llm/limits/budget.ts'
import { costOf, priceOf, readPrices } from '../../../src/llm/limits/prices.ts'
import type { CompletionEvent, Sampling } from '../../../src/llm/llm.ts'
import { noLlm } from '../../support/flow.ts'

const usage = { promptTokens: 100, completionTokens: 50, totalTokens: 150 }
/** The cost of such a call is 200. */
const price = { prompt: 1_000_000, completion: 2_000_000 }

/** A call with a prompt of about 100 tokens, that the test answers. */
async function ask(
  budget: Budget,
  { sampling = {} as Sampling, signal = new AbortController().signal } = {},
) {
  const reply = new PassThrough({ objectMode: true })
  let begun = false
  const stream = (): AsyncIterable<CompletionEvent> => {
    begun = true
    return reply
  }
  const request = { messages: [{ role: 'user' as const, content: 'x'.repeat(350) }], sampling }
  const over = (async () => {
    for await (const _event of budget.limit({ ...noLlm, stream }).stream(request, signal));
  })()
  over.catch(() => undefined)
  const looked = () => new Promise<void>((resolve) => setImmediate(resolve))
  await looked()
  return {
    /** It has reached the model. */
    get begun() {
      return begun
    },
    over,
    async hear(characters: number, kind = 'content'): Promise<void> {
      reply.write({ type: 'delta', kind, text: 'x'.repeat(characters) })
      await looked()
    },
    async end(reported: object): Promise<void> {
      reply.end({ type: 'end', finishReason: 'stop', usage: { ...usage, ...reported }, model: 'm', raw: {} })
      await over
    },
    async fail(): Promise<void> {
      reply.destroy(new GraphmillError('llm_unavailable', 'away'))
      await expect(over).rejects.toMatchObject({ code: 'llm_unavailable' })
    },
  }
}

const refused = { code: 'cost_limit_reached', retry: 'never' }

describe('a budget', () => {
  it('admits calls as long as another one fits', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    for (let n = 0; n < 4; n++) await (await ask(budget)).end(usage)
    const fifth = await ask(budget)
    await expect(fifth.over).rejects.toMatchObject(refused)
    expect(fifth.begun).toBe(false)
    expect(budget.spent).toBe(800)
  })

  it('is kept when many callers ask at once', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    const calls = await Promise.all(Array.from({ length: 50 }, () => ask(budget)))
    for (let open = calls; open.length > 0; ) {
      open = calls.filter(({ begun }) => begun)
      await Promise.all(open.map((call) => call.end(usage)))
      calls.splice(0, calls.length, ...calls.filter((call) => !open.includes(call)))
      await new Promise(setImmediate)
    }
    expect(calls).toHaveLength(46)
    for (const { over } of calls) await expect(over).rejects.toMatchObject(refused)
    expect(budget.spent).toBe(800)
  })

  it('admits one call at first, and one more at once after every reply', async () => {
    const budget = createBudget({ maxCost: 1_000_000, price })
    let calls = await Promise.all(Array.from({ length: 100 }, () => ask(budget)))
    const together: number[] = []
    for (let round = 0; round < 5; round++) {
      const open = calls.filter(({ begun }) => begun)
      together.push(open.length)
      calls = calls.filter((call) => !open.includes(call))
      await Promise.all(open.map((call) => call.end(usage)))
      await new Promise(setImmediate)
    }
    expect(together).toEqual([1, 2, 4, 8, 16])
  })

  it('expects a reply to have at least a share of its prompt, even after empty replies', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    for (let n = 0; n < 6; n++) await (await ask(budget)).end({ completionTokens: 0 })
    // 600 are spent: each of these is expected to cost 100 and a reply of 50.
    const calls = [await ask(budget), await ask(budget), await ask(budget)]
    expect(calls.map(({ begun }) => begun)).toEqual([true, true, false])
  })

  it('expects a reply to be as long as the longest so far, unless it has a limit', async () => {
    const budget = createBudget({ maxCost: 1200, price })
    for (const completionTokens of [0, 200, 0]) await (await ask(budget)).end({ completionTokens })
    // 700 are spent, and such a reply would cost 100 and 480.
    await expect((await ask(budget)).over).rejects.toMatchObject(refused)
    expect((await ask(budget, { sampling: { maxTokens: 100 } })).begun).toBe(true)
  })

  it('counts the reply of a call in flight against the others', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    await (await ask(budget)).end({ completionTokens: 0 })
    const long = await ask(budget)
    await long.hear(250 * 3.5)
    await long.hear(100 * 3.5, 'reasoning')
    expect((await ask(budget)).begun).toBe(false)
  })

  it('learns from the server how many tokens a prompt has', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    const dense = { promptTokens: 300, completionTokens: 0 }
    // After 300 are spent, another call would cost 300 and a reply of 75: one call fits, two do not.
    await (await ask(budget)).end(dense)
    await (await ask(budget)).end(dense)
    await expect((await ask(budget)).over).rejects.toMatchObject(refused)
  })

  it('estimates tokens that were not reported', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    const call = await ask(budget)
    await call.hear(100)
    await call.hear(75, 'reasoning')
    await call.end({ promptTokens: null, completionTokens: null })
    expect(budget.spent).toBe(200)
  })

  it('charges nothing for a call without a reply, and the received part of one that broke off', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    for (let n = 0; n < 20; n++) await (await ask(budget)).fail()
    expect(budget.spent).toBe(0)
    const broken = await ask(budget)
    // None of those had a reply: this call still runs alone.
    expect((await ask(budget)).begun).toBe(false)
    await broken.hear(175)
    await broken.fail()
    expect(budget.spent).toBe(200)
  })

  it('releases a waiting caller that is aborted', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    await ask(budget)
    const stop = new AbortController()
    const waiting = await ask(budget, { signal: stop.signal })
    stop.abort(new Error('enough'))
    await expect(waiting.over).rejects.toThrow('enough')
  })
})

describe('prices', () => {
  const prices = readPrices(['gpt-4o=2.5/10', 'llama3.1:8b = 0.1/0.2'])

  it('are found by the name of a model', () => {
    expect(priceOf('gpt-4o', prices)).toEqual({ prompt: 2.5, completion: 10 })
    expect(priceOf('llama3.1:8b', prices)).toEqual({ prompt: 0.1, completion: 0.2 })
    expect(priceOf('gpt-4o-mini', prices)).toBeUndefined()
    expect(priceOf('gpt-4o-mini-2024-07-18', prices)).toBeUndefined()
  })

  it.each([
    ['gpt-4o', 'gpt-4o-2024-08-06'],
    ['gpt-4.1', 'gpt-4.1-2025-04-14'],
    ['gpt-4', 'gpt-4-0613'],
    ['gpt-5', 'gpt-5-2025-08-07'],
    ['gpt-5-mini', 'gpt-5-mini-2025-08-07'],
    ['claude-opus-4', 'claude-opus-4-20250514'],
    ['claude-3-5-sonnet', 'claude-3-5-sonnet-latest'],
    ['anthropic.claude-sonnet-4', 'anthropic.claude-sonnet-4-20250514-v1:0'],
    ['claude-opus-4', 'claude-opus-4@20250514'],
    ['qwen3', 'qwen3:latest'],
  ])('of %s are found for %s too', (name, dated) => {
    const price = { prompt: 1, completion: 2 }
    expect(priceOf(dated, readPrices([`${name}=1/2`]))).toEqual(price)
    const shorter = name.replace(/[-.][^-.]*$/, '')
    expect(priceOf(dated, readPrices([`${shorter}=3/4`, `${name}=1/2`]))).toEqual(price)
  })

  it('make a cost, or null if anything is unknown', () => {
    const tokens = { promptTokens: 1_000_000, completionTokens: 500_000 }
    expect(costOf(tokens, priceOf('gpt-4o', prices))).toBe(7.5)
    expect(costOf(tokens, undefined)).toBeNull()
    expect(costOf({ ...tokens, completionTokens: null }, priceOf('gpt-4o', prices))).toBeNull()
  })

  it.each(['gpt-4o', 'm=1', 'm=1/x', '=1/2', 'm=1/2/3'])('refuse %s', (text) => {
    expect(() => readPrices([text])).toThrow(/MODEL=PROMPT\/COMPLETION/)
  })
})
