// What calls cost that are made in a run, and what a run makes of it when the limit is reached.
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../src/errors.ts'
import { createBudget } from '../../src/llm/budget.ts'
import { askAll, linesOf } from '../support/asking.ts'
import { type ScriptedReply, scriptedLlm } from '../support/scripted-llm.ts'

/** Only what is written costs: one a token. */
const byReply = { prompt: 0, completion: 1_000_000 }
/** Only what is asked costs. */
const byPrompt = { prompt: 1_000_000, completion: 0 }

const refusals: [string, GraphmillError][] = [
  ['429', new GraphmillError('llm_rate_limited', 'too many')],
  ['503 or a connection that fails', new GraphmillError('llm_unavailable', 'away')],
  ['a prompt that does not fit', new GraphmillError('context_overflow', 'too long')],
  ['400', new GraphmillError('llm_request_invalid', 'no')],
]

describe('the budget of a run', () => {
  it.each(refusals)('is charged nothing for a call that the server refuses: %s', async (_name, error) => {
    const budget = createBudget({ maxCost: 100, price: byPrompt })
    for (let n = 0; n < 50; n++)
      await expect(askAll(budget.limit(scriptedLlm([{ error }])))).rejects.toBe(error)
    expect(budget.spent).toBe(0)
    const { items } = await askAll(budget.limit(scriptedLlm([linesOf(2)])))
    expect(items).toHaveLength(2)
    expect(budget.spent).toBe(10)
  })

  it('is free again for others as soon as a call is refused, though its run goes on', async () => {
    const overflow: ScriptedReply = { error: new GraphmillError('context_overflow', 'too long') }
    const llm = scriptedLlm([overflow, linesOf(1), linesOf(1, 1)])
    // Both halves fit, and not beside what the whole would have cost.
    const budget = createBudget({ maxCost: 35, price: byPrompt })
    const { items } = await askAll(budget.limit(llm), { terms: { text: 'One. Two. Three. Four.' } })
    expect(items).toHaveLength(2)
    expect(budget.spent).toBe(20)
  })

  it.each<[string, ScriptedReply]>([
    ['text', { text: 'x'.repeat(350) }],
    ['thoughts', { reasoning: 'x'.repeat(350) }],
  ])('is charged for what a call wrote that broke off: %s', async (_name, written) => {
    const error = new GraphmillError('llm_unavailable', 'cut')
    const budget = createBudget({ maxCost: 1000, price: byReply })
    await expect(askAll(budget.limit(scriptedLlm([{ ...written, error }])))).rejects.toBe(error)
    expect(budget.spent).toBe(100)
  })

  it('is overrun by no more than the calls that were in work when the first long reply came', async () => {
    const budget = createBudget({ maxCost: 1000, price: byReply })
    await askAll(budget.limit(scriptedLlm(['[]'])))
    const llm = scriptedLlm([linesOf(100)])
    const texts = Array.from({ length: 64 }, (_, n) => ({ text: `text ${n}` }))
    const asked = await Promise.all(texts.map((terms) => askAll(budget.limit(llm), { terms })))
    expect(llm.requests).toHaveLength(2)
    expect(asked.filter(({ end }) => end.incomplete === 'max_cost')).toHaveLength(62)
  })
})
