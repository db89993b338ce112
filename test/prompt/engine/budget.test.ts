// What calls cost that are made in a run, and what a run makes of it when the limit is reached.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { openCache } from '../../../src/llm/cache/reply-cache.ts'
import { createBudget } from '../../../src/llm/limits/budget.ts'
import type { AskOptions, LostRun } from '../../../src/prompt/engine/engine.ts'
import { askAll, linesOf, testPrompt } from '../../support/asking.ts'
import { type ScriptedReply, scriptedLlm } from '../../support/scripted-llm.ts'

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

  it('is free again for others as soon as a call is refused, though its run continues', async () => {
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

describe('a run that the cost limit stops', () => {
  const kinds = (['text', 'json', 'jsonl'] as const).map((kind) => [kind, linesOf(1)] as const)

  it.each(kinds)('is partial for another time, and gives nothing: %s', async (responseType, reply) => {
    const prompt = testPrompt({ responseType })
    const broke = createBudget({ maxCost: 1, price: byPrompt })
    await withCache(async (cache) => {
      const llm = scriptedLlm([reply])
      const { parts, items, text, end } = await askAll(broke.limit(llm), { prompt, cache })
      expect(llm.requests).toHaveLength(0)
      expect([parts.length, items, text]).toEqual([1, [], ''])
      expect(end).toMatchObject({ incomplete: 'max_cost', truncated: true, accepted: 0, spent: [] })
      expect(end.cause?.type).toBe('cost_limit_reached')
      const rich = createBudget({ maxCost: 1000, price: byPrompt })
      const { end: later } = await askAll(rich.limit(llm), { prompt, cache })
      expect(llm.requests).toHaveLength(1)
      expect(later.incomplete).toBeUndefined()
    })
  })

  it('keeps what was found before it, and says what that has cost', async () => {
    const budget = createBudget({ maxCost: 60, price: byReply })
    const llm = scriptedLlm([{ text: linesOf(3), finish: 'length' }, linesOf(3, 3)])
    const { items, end } = await askAll(budget.limit(llm))
    expect(items).toHaveLength(3)
    expect(end).toMatchObject({ incomplete: 'max_cost', truncated: true, accepted: 3 })
    expect(end.spent).toMatchObject([{ reason: 'first', calls: 1 }])
  })

  it('is partial too when a json reply cannot be asked for again', async () => {
    const prompt = testPrompt({ responseType: 'json' })
    const budget = createBudget({ maxCost: 60, price: byReply })
    const llm = scriptedLlm(['There is no JSON here, nor was there ever, and that is all. '.repeat(3), '{}'])
    const { items, end } = await askAll(budget.limit(llm), { prompt })
    expect(llm.requests).toHaveLength(1)
    expect(items).toEqual([])
    expect(end).toMatchObject({ incomplete: 'max_cost', spent: [{ reason: 'first', calls: 1 }] })
  })
})

describe('a run that fails', () => {
  it('says that a call broke off amid its thoughts, which are paid for', async () => {
    const error = new GraphmillError('llm_unavailable', 'cut')
    for (const responseType of ['text', 'json', 'jsonl'] as const) {
      const lost: LostRun[] = []
      const llm = scriptedLlm([{ reasoning: 'Let me think.', error }])
      const prompt = testPrompt({ responseType })
      await expect(askAll(llm, { prompt, onLost: (run) => lost.push(run) })).rejects.toBe(error)
      expect(lost.map(({ spent }) => spent)).toEqual([
        [{ reason: 'first', model: 'scripted', calls: 1, promptTokens: null, completionTokens: null }],
      ])
    }
  })
})

async function withCache(work: (cache: NonNullable<AskOptions['cache']>) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'graphmill-cache-'))
  try {
    await work({ replies: openCache({ dir }), workspace: 'w' })
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}
