import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { parseReply } from '../../../src/items/parse.ts'
import { compileSchema } from '../../../src/items/validate.ts'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'
import { type AskOptions, ask } from '../../../src/prompt/engine/engine.ts'
import { askAll, itemOf, itemSchema, linesOf, testPrompt } from '../../support/asking.ts'
import { type Script, scriptedLlm } from '../../support/scripted-llm.ts'

const text = testPrompt({ responseType: 'text' })
const objectSchema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
const json = testPrompt({ responseType: 'json', jsonSchema: objectSchema })

describe('a text prompt', () => {
  it('gives what the model writes, streamed or in one part', async () => {
    for (const streaming of [true, false]) {
      const {
        parts,
        text: said,
        end,
      } = await askAll(scriptedLlm(['A mill grinds corn.']), { prompt: text, streaming })
      expect(said).toBe('A mill grinds corn.')
      expect(parts.length).toBe(streaming ? parts.length : 1)
      expect(end).toMatchObject({
        finishReason: 'stop',
        truncated: false,
        incomplete: undefined,
        model: 'scripted-1',
      })
      expect(parts.slice(0, -1).every((part) => part.end === undefined)).toBe(true)
    }
  })

  it('is truncated at the token limit, and refused by a content filter', async () => {
    const cut = await askAll(scriptedLlm([{ text: 'A mill grinds', cutAt: 6 }]), { prompt: text })
    expect(cut).toMatchObject({ text: 'A mill', end: { truncated: true, incomplete: 'truncated' } })
    const filtered = await askAll(scriptedLlm([{ text: '', finish: 'content_filter' }]), { prompt: text })
    expect(filtered.end.incomplete).toBe('refused')
  })

  it('says so when the model spent its whole limit thinking', async () => {
    const llm = scriptedLlm([{ reasoning: 'hm', text: '', finish: 'length' }])
    await expect(askAll(llm, { prompt: text })).rejects.toMatchObject({ code: 'reasoning_too_long' })
  })

  it('cuts a very long reply into parts that fit a message, and never inside a character', async () => {
    const long = `x${'🌾'.repeat(200_000)}`
    for (const streaming of [true, false]) {
      const { parts, text: said } = await askAll(scriptedLlm([{ pieces: [long] }]), {
        prompt: text,
        streaming,
      })
      expect(said).toBe(long)
      expect(parts.length).toBeGreaterThan(2)
      expect(parts.every((part) => part.text!.length <= 170_000 && part.text!.isWellFormed())).toBe(true)
    }
  })
})

describe('a json prompt', () => {
  it('gives one checked value in one part', async () => {
    const { parts, items, end } = await askAll(scriptedLlm(['Here:\n```json\n{"n": 3}\n```']), {
      prompt: json,
    })
    expect(parts).toHaveLength(1)
    expect(items).toEqual([{ n: 3 }])
    expect(end).toMatchObject({ accepted: 1, repaired: 0, incomplete: undefined })
  })

  it('gives a repaired value without asking again, counted, as `graphmill parse` reads it', async () => {
    const reply = `The answer:\n{'N': "3",}`
    const { items, end } = await askAll(scriptedLlm([reply]), { prompt: json })
    expect(items).toEqual([{ n: 3 }])
    expect(end).toMatchObject({ accepted: 1, repaired: 1 })
    const parsed = await parseReply([reply], { responseType: 'json', schema: compileSchema(objectSchema) })
    expect(parsed).toMatchObject({ items, rejected: [], repaired: [{ line: 2 }] })
  })

  it("is asked in its own output mode, else in the model's, and says in which", async () => {
    const extras = { response_format: { type: 'json_object' } }
    for (const [own, models, outputMode, asked] of [
      [undefined, undefined, 'native', { response_format: { type: 'json_schema' } }],
      [undefined, 'fallback', 'fallback', {}],
      ['openai_oo', 'fallback', 'openai_oo', extras],
      ['ollama', undefined, 'ollama', { format: objectSchema }],
    ] as const) {
      const scripted = scriptedLlm(['{"n": 3}'])
      const llm = { ...scripted, ...(models && { outputMode: models }) }
      const { end } = await askAll(llm, { prompt: { ...json, ...(own && { outputMode: own }) } })
      expect(end.outputMode).toBe(outputMode)
      expect(scripted.requests[0]!.extras).toMatchObject(asked)
    }
  })

  it('reads a value with a pattern that backtracks in time that is linear', async () => {
    const jsonSchema = {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^(\\w+\\s?)*$' }, b: { pattern: '(x+x+)+y' } },
      patternProperties: { '^(z|zz)+$': {} },
    }
    const evil = { a: `${'a'.repeat(30_000)}!`, b: 'x'.repeat(30_000), [`${'z'.repeat(30_000)}!`]: 1 }
    const llm = scriptedLlm([{ pieces: [JSON.stringify(evil)] }])
    const before = performance.now()
    const asked = askAll(llm, { prompt: testPrompt({ responseType: 'json', jsonSchema }) })
    await expect(asked).rejects.toMatchObject({ code: 'reply_schema_failed' })
    expect(performance.now() - before).toBeLessThan(2000)
  })

  it('asks once more for an unusable reply, and then no more', async () => {
    const mended = scriptedLlm(['{"n": "x"}', '{"n": 4}'])
    expect((await askAll(mended, { prompt: json })).items).toEqual([{ n: 4 }])
    expect(mended.requests[1]!.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
    ])
    for (const [reply, code] of [
      ['{"n": "x"}', 'reply_schema_failed'],
      ['no idea', 'reply_not_json'],
    ] as const) {
      const bad = scriptedLlm([reply])
      await expect(askAll(bad, { prompt: json })).rejects.toMatchObject({ code, retry: 'never' })
      expect(bad.requests).toHaveLength(2)
    }
  })

  it('that repeats itself inside a string fails as a repetition, and is not asked for once more', async () => {
    const jsonSchema = { type: 'object', properties: { n: { type: 'string' } }, required: ['n'] }
    const llm = scriptedLlm([`{"n": "${'a mill of '.repeat(50_000)}`])
    const asked = askAll(llm, { prompt: testPrompt({ responseType: 'json', jsonSchema }) })
    await expect(asked).rejects.toMatchObject({ code: 'repetition', finishReason: 'length' })
    await expect(asked).rejects.toThrow(/^The model repeated itself without end, and was stopped: /)
    expect(llm).toMatchObject({ cancelled: 1, requests: { length: 1 } })
  })

  it('that has its value before white space without end is a repetition', async () => {
    const llm = scriptedLlm([`{"n": 3}${' \n'.repeat(10_000)}`])
    const { items, end } = await askAll(llm, { prompt: json })
    expect(items).toEqual([{ n: 3 }])
    expect(end).toMatchObject({ truncated: true, incomplete: 'repetition', cause: { type: 'repetition' } })
    expect(llm).toMatchObject({ cancelled: 1, requests: { length: 1 } })
  })

  it('is not asked for once more when a run may make only one call', async () => {
    const llm = scriptedLlm(['no idea'])
    const asked = askAll(llm, { prompt: json, limits: { maxCalls: 1 } })
    await expect(asked).rejects.toMatchObject({ code: 'reply_not_json' })
    expect(llm.requests).toHaveLength(1)
  })
})

describe('a jsonl prompt', () => {
  it('gives the items in order, streamed or in one part', async () => {
    for (const streaming of [true, false]) {
      const { parts, items, end } = await askAll(scriptedLlm([linesOf(20)]), { streaming })
      expect(items).toEqual(Array.from({ length: 20 }, (_, n) => itemOf(n)))
      if (!streaming) expect(parts).toHaveLength(1)
      expect(end).toMatchObject({ accepted: 20, rejected: 0, truncated: false, incomplete: undefined })
    }
  })

  it('sends the first item at once, then what came while the part before was on its way', async () => {
    const llm = scriptedLlm([linesOf(30)], { slow: true })
    const { signal } = new AbortController()
    const prompt = testPrompt({ jsonSchema: itemSchema })
    const newRun = () => ({ id: 'r', startedAt: 0 })
    const reader = ask({ prompt, terms: { text: 't' }, llm, streaming: true, newRun, signal })
    const sizes: number[] = []
    for (;;) {
      const { value, done } = await reader.next()
      if (done) break
      sizes.push((JSON.parse(value.object!) as unknown[]).length)
      // A slow reader: the model is through before it comes back.
      for (let turns = 0; turns < 5000; turns++) await turn()
    }
    expect(sizes).toEqual([1, 29])
  })

  it('sends what comes at once in one part, with the end', async () => {
    const { parts } = await askAll(scriptedLlm([linesOf(30)]))
    expect(parts).toHaveLength(1)
  })

  it('counts what was accepted and rejected so far in every part, and everything in the last', async () => {
    const reply = `${linesOf(1)}{"e": 1}\n${linesOf(1, 1)}{"e": oh no}\n${linesOf(1, 2)}`
    const { parts, end } = await askAll(scriptedLlm([reply, ''], { slow: true }))
    expect(parts[0]).toMatchObject({ accepted: 1, rejected: 0 })
    expect(parts.at(-1)).toMatchObject({ accepted: 3, rejected: 2 })
    expect(end.rejectedBy).toEqual({ schema: 1, invalid_json: 1 })
    expect(end.rejections.map(({ reason, line }) => [reason, line])).toEqual([
      ['schema', 2],
      ['invalid_json', 4],
    ])
  })

  it.each([
    ['', undefined],
    [' \n', undefined],
    ['[]', undefined],
    ['{"items":[]}', undefined],
    ['There is nothing to define here.', 'no_items'],
    ["I'm sorry, but I can't help with that.", 'refused'],
  ])('tells an honest empty %j from prose and refusals: %s', async (reply, incomplete) => {
    const { parts, end } = await askAll(scriptedLlm([reply]))
    expect(parts).toHaveLength(1)
    expect(parts[0]!.object).toBe('[]')
    expect(end).toMatchObject({ accepted: 0, incomplete })
  })

  it('is partial when items came and none was accepted, after they were asked for again', async () => {
    const llm = scriptedLlm(['{"e": 1}\n{"e": oh no}\n', ''])
    const { end } = await askAll(llm)
    expect(end).toMatchObject({ accepted: 0, rejected: 2, incomplete: 'no_facts' })
    expect(llm.requests).toHaveLength(2)
    const accepted = await askAll(scriptedLlm(['{"e": 1}', linesOf(1).replace('entity 0', '1')]))
    expect(accepted.end).toMatchObject({ accepted: 1, rejected: 0, incomplete: undefined })
    const cut = await askAll(scriptedLlm([{ text: '{"e": 1}\n{"e": "mi', finish: 'length' }]))
    expect(cut.end.incomplete).toBe('truncated')
  })

  it('is partial when items left before a lone end of thinking, and names those that the answer does not repeat', async () => {
    const thoughts = `Perhaps:\n${linesOf(3)}{"e": 1}\n`
    const llm = scriptedLlm([`${thoughts}</think>\n${linesOf(2, 1)}${linesOf(1, 5)}`, ''])
    const { items, end } = await askAll(llm)
    expect(items).toEqual([0, 1, 2, 1, 2, 5].map(itemOf))
    expect(end).toMatchObject({
      accepted: 6,
      rejected: 1,
      rejectedBy: { thought: 1 },
      incomplete: 'thoughts',
    })
    expect(end.rejections[0]).toMatchObject({ reason: 'thought', line: 2, text: linesOf(1).trim() })
    expect(llm.requests, 'nothing is asked for again, not a rejected thought either').toHaveLength(1)
  })

  it('names the thoughts that left and asks for no rejected one, also when the call fails after their end', async () => {
    const error = new GraphmillError('llm_call_too_long', 'Too long.')
    const llm = scriptedLlm([{ text: `${linesOf(2)}{"e": 1}\n</think>\n${linesOf(1)}`, error }, ''])
    const { items, end } = await askAll(llm)
    expect(items).toEqual([0, 1, 0].map(itemOf))
    expect(end).toMatchObject({ rejected: 1, rejectedBy: { thought: 1 }, incomplete: 'truncated' })
    expect(end.rejections[0]).toMatchObject({ reason: 'thought', line: 2 })
    expect(llm.requests).toHaveLength(1)
  })

  it('is done when the answer repeats all items of its thoughts, however many, or leaves none of what were none', async () => {
    const { end } = await askAll(scriptedLlm([`${linesOf(30)}</think>\n${linesOf(30)}`]))
    expect(end).toMatchObject({ accepted: 60, duplicates: 30, rejected: 0, incomplete: undefined })
    const llm = scriptedLlm(['Is {"e": 1} one? No.\n</think>\n[]'])
    expect((await askAll(llm)).end).toMatchObject({ accepted: 0, rejected: 0, incomplete: undefined })
    expect(llm.requests).toHaveLength(1)
  })

  it('counts repeated items of a call, and keeps them', async () => {
    const { items, end } = await askAll(scriptedLlm([linesOf(2) + linesOf(2)]))
    expect(items).toHaveLength(4)
    expect(end).toMatchObject({ accepted: 4, duplicates: 2 })
  })

  it('survives garbage: deep nesting, __proto__, binary noise, endless lines that fail', async () => {
    const deep = `{"a":${'['.repeat(200_000)}\n`
    const noise = Array.from({ length: 20_000 }, (_, n) => String.fromCharCode((n * 7919) % 0xd7ff)).join('')
    const proto = '{"__proto__": {"polluted": 1}, "e": "x", "d": "y"}\n'
    const llm = scriptedLlm([{ pieces: [deep, linesOf(1), noise, '\n', proto, '{"e": 1}\n'.repeat(30_000)] }])
    const { items, end } = await askAll(llm)
    expect(items).toEqual([itemOf(0), { e: 'x', d: 'y' }])
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
    expect(end.rejections.length).toBeLessThanOrEqual(10_000)
    expect(Object.values(end.rejectedBy).reduce((sum, count) => sum + count, 0)).toBe(end.rejected)
    expect(end.rejected).toBeGreaterThan(20_000)
  })

  it.each<[string, Partial<AskOptions>, string]>([
    ['jsonl', {}, linesOf(3)],
    ['jsonl, without an item', {}, 'Well,'],
    ['text', { prompt: testPrompt({ responseType: 'text' }) }, 'A mill is'],
    ['json', { prompt: testPrompt({ responseType: 'json' }) }, '{"n": 3}'],
  ])('is partial, and says why, where the server ended it with an error: %s', async (_name, more, text) => {
    const { end } = await askAll(scriptedLlm([{ text, finish: 'error' }]), more)
    const cause = { type: 'llm_response_invalid' }
    expect(end).toMatchObject({ finishReason: 'error', truncated: true, incomplete: 'truncated', cause })
  })

  it('keeps what a call brought that took too long, asks for no more, and says why', async () => {
    const error = new GraphmillError('llm_call_too_long', 'It did not end its reply within 600 s.')
    const llm = scriptedLlm([{ text: linesOf(3), error }])
    const { items, end } = await askAll(llm)
    expect(items).toEqual([itemOf(0), itemOf(1), itemOf(2)])
    const cause = { type: 'llm_call_too_long', message: error.message }
    expect(end).toMatchObject({ truncated: true, incomplete: 'truncated', cause })
    expect(llm.requests).toHaveLength(1)
  })

  it('stops a model that writes items without end, and says why', async () => {
    const llm = scriptedLlm([{ pieces: Array.from({ length: 30 }, () => '{"e": 1}\n'.repeat(5000)) }, ''])
    const { end } = await askAll(llm)
    expect(end).toMatchObject({
      truncated: true,
      incomplete: 'truncated',
      cause: { type: 'reply_too_large' },
    })
    expect(end.rejected).toBe(100_000)
    expect(llm).toMatchObject({ cancelled: 1 })
    expect(llm.requests).toHaveLength(2) // the second asks for rejected lines again
  })

  it('throws what the model throws, when nothing was found', async () => {
    const error = new GraphmillError('llm_unavailable', 'away')
    await expect(askAll(scriptedLlm([{ text: '', error }]))).rejects.toBe(error)
  })

  it('takes every reply of the built-in prompts that is not streamed in one part', async () => {
    const prompt = (await loadCatalogue()).get('extract-topics')
    const script: Script = ['{"topic":"mills","definition":"d"}\n{"topic":"chalk","definition":"e"}\n\n']
    const { parts } = await askAll(scriptedLlm(script), { prompt, terms: { text: 't' }, streaming: false })
    expect(parts.map(({ object }) => object)).toEqual([
      '[{"topic":"mills","definition":"d"},{"topic":"chalk","definition":"e"}]',
    ])
  })
})
