import { describe, expect, it } from 'vitest'
import { type Admission, type Budget, createBudget } from '../../src/llm/budget.ts'
import { costOf, priceOf, readPrices } from '../../src/llm/prices.ts'

const never = new AbortController().signal
/** A prompt of about 100 tokens. */
const request = { messages: [{ role: 'user' as const, content: 'x'.repeat(350) }] }
const usage = { promptTokens: 100, completionTokens: 50, totalTokens: 150 }
/** Such a call costs 200. */
const price = { prompt: 1_000_000, completion: 2_000_000 }

/** Another call is neither admitted nor refused now. */
async function expectWaiting(budget: Budget): Promise<void> {
  const stop = new AbortController()
  const asking = budget.admit(request, stop.signal)
  await new Promise(setImmediate)
  stop.abort(new Error('it waits'))
  await expect(asking).rejects.toThrow('it waits')
}

describe('a budget', () => {
  it('admits calls as long as another one fits, and not one more', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    let calls = 0
    await expect(async () => {
      for (;;) {
        const admission = await budget.admit(request, never)
        calls++
        admission.settle(usage)
        admission.settle(usage)
        admission.giveUp()
      }
    }).rejects.toMatchObject({ code: 'cost_limit_reached', retry: 'never' })
    expect(calls).toBe(4)
    expect(budget.spent).toBe(800)
  })

  it('is kept however many ask at once', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    let calls = 0
    const ask = async () => {
      const admission = await budget.admit(request, never)
      calls++
      await new Promise(setImmediate)
      admission.settle(usage)
    }
    const asked = await Promise.allSettled(Array.from({ length: 50 }, ask))
    expect(calls).toBe(4)
    expect(asked.filter(({ status }) => status === 'rejected')).toHaveLength(46)
    expect(budget.spent).toBeLessThanOrEqual(1000)
  })

  it('admits one call at first, and with every reply one more at once', async () => {
    const budget = createBudget({ maxCost: 1_000_000, price })
    const open: Admission[] = []
    for (let n = 0; n < 100; n++) void budget.admit(request, never).then((admission) => open.push(admission))
    const together: number[] = []
    for (let round = 0; round < 5; round++) {
      await new Promise(setImmediate)
      together.push(open.length)
      for (const admission of open.splice(0)) admission.settle(usage)
    }
    expect(together).toEqual([1, 2, 4, 8, 16])
  })

  it('takes a reply for no shorter than a part of its prompt, though those before were empty', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    const empty = { promptTokens: 100, completionTokens: 0, totalTokens: 100 }
    for (let n = 0; n < 6; n++) (await budget.admit(request, never)).settle(empty)
    // 600 are spent: each of these is taken for 100 and a reply of 50.
    await Promise.all([budget.admit(request, never), budget.admit(request, never)])
    await expectWaiting(budget)
  })

  it('takes a reply for as long as the longest so far, unless it has a limit', async () => {
    const budget = createBudget({ maxCost: 1200, price })
    for (const completionTokens of [0, 200, 0])
      (await budget.admit(request, never)).settle({ ...usage, completionTokens })
    // 700 are spent, and such a reply would cost 100 and 480.
    await expect(budget.admit(request, never)).rejects.toMatchObject({ code: 'cost_limit_reached' })
    await budget.admit({ ...request, sampling: { maxTokens: 100 } }, never)
  })

  it('counts what is heard of a call against the others, while it is in work', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    ;(await budget.admit(request, never)).settle({ ...usage, completionTokens: 0 })
    const long = await budget.admit(request, never)
    long.hear(350 * 3.5)
    await expectWaiting(budget)
  })

  it('learns from the server how many tokens a prompt has', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    ;(await budget.admit(request, never)).settle({ ...usage, promptTokens: 300, completionTokens: 0 })
    // 300 are spent, and another one would cost 300 and a reply of 75: one fits, and not two.
    const fitting = await budget.admit(request, never)
    fitting.settle({ ...usage, promptTokens: 300, completionTokens: 0 })
    await expect(budget.admit(request, never)).rejects.toMatchObject({ code: 'cost_limit_reached' })
  })

  it('guesses what was not reported', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    const unknown = { promptTokens: null, completionTokens: null, totalTokens: null }
    const admission = await budget.admit(request, never)
    admission.hear(100)
    admission.hear(75)
    admission.settle(unknown)
    expect(budget.spent).toBe(200)
  })

  it('charges nothing for a call of which nothing was heard, and what was heard of one that broke off', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    for (let n = 0; n < 100; n++) (await budget.admit(request, never)).giveUp()
    expect(budget.spent).toBe(0)
    // None of them was a reply: the next one still goes alone.
    const broken = await budget.admit(request, never)
    await expectWaiting(budget)
    broken.hear(175)
    broken.giveUp()
    expect(budget.spent).toBe(200)
  })

  it('lets who waits go when it is aborted', async () => {
    const budget = createBudget({ maxCost: 1000, price })
    await budget.admit(request, never)
    const stop = new AbortController()
    const waiting = budget.admit(request, stop.signal)
    stop.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
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

  it('make a cost, or null where anything is unknown', () => {
    const tokens = { promptTokens: 1_000_000, completionTokens: 500_000 }
    expect(costOf(tokens, priceOf('gpt-4o', prices))).toBe(7.5)
    expect(costOf(tokens, undefined)).toBeNull()
    expect(costOf({ ...tokens, completionTokens: null }, priceOf('gpt-4o', prices))).toBeNull()
  })

  it.each(['gpt-4o', 'm=1', 'm=1/x', '=1/2', 'm=1/2/3'])('refuse %s', (text) => {
    expect(() => readPrices([text])).toThrow(/MODEL=PROMPT\/COMPLETION/)
  })
})
