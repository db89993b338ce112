// What becomes of replies that stop at the token limit, that lose their way, and of texts that do not fit.
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import type { CompletionRequest } from '../../../src/llm/llm.ts'
import { askAll, itemOf, itemSchema, linesOf, testPrompt } from '../../support/asking.ts'
import { type ScriptedReply, scriptedLlm } from '../../support/scripted-llm.ts'

const items = (count: number) => Array.from({ length: count }, (_, n) => itemOf(n))

/** Continues after the last item that it is shown, and stops after `length` characters of each reply. */
function continuing(count: number, length: number) {
  return (request: CompletionRequest): ScriptedReply => {
    const shown = request.messages.findLast(({ role }) => role === 'assistant')?.content ?? ''
    const last = shown === '' ? undefined : (JSON.parse(shown.split('\n').at(-1)!) as { e: string })
    const from = last ? Number(last.e.split(' ')[1]) + 1 : 0
    const text = linesOf(count - from, from)
    return text.length > length ? { text, cutAt: length } : text === '' ? { text: '[]' } : { text }
  }
}

describe('a reply that was cut off', () => {
  it('is continued after its last 50 complete items until it is whole', async () => {
    const llm = scriptedLlm(continuing(150, linesOf(60).length + 9))
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual(items(150))
    expect(end).toMatchObject({
      truncated: false,
      incomplete: undefined,
      finishReason: 'stop',
      accepted: 150,
    })
    expect(end.spent).toMatchObject([
      { reason: 'first', calls: 1 },
      { reason: 'continuation', calls: 2 },
    ])
    const { messages } = llm.requests[1]!
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user'])
    expect(messages[2]!.content).toBe(linesOf(50, 10).trimEnd())
  })

  it('is continued three times at most, or as often as the prompt says', async () => {
    const llm = scriptedLlm(continuing(50, linesOf(5, 10).length))
    const { items: found, end } = await askAll(llm)
    expect(llm.requests).toHaveLength(4)
    expect(found).toEqual(items(20))
    expect(end).toMatchObject({ truncated: true, incomplete: 'truncated' })
    const none = scriptedLlm(continuing(50, linesOf(5, 10).length))
    const prompt = testPrompt({ jsonSchema: itemSchema, maxContinuations: 0 })
    expect((await askAll(none, { prompt })).items).toEqual(items(5))
    expect(none.requests).toHaveLength(1)
  })

  it('drops what an earlier call gave already, and keeps repeats within a call', async () => {
    const llm = scriptedLlm([{ text: linesOf(4), finish: 'length' }, linesOf(3, 2) + linesOf(1, 4)])
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual([...items(5), itemOf(4)])
    expect(end).toMatchObject({ accepted: 6, duplicates: 1, truncated: false })
  })

  it('ends with a continuation that brings nothing new', async () => {
    for (const [reply, truncated] of [
      ['', false],
      ['[]', false],
      [linesOf(2), false],
      [{ text: linesOf(2), finish: 'length' }, true],
      ['That was all I have to say.', true],
    ] as const) {
      const llm = scriptedLlm([{ text: `${linesOf(2)}{"e": "cut`, finish: 'length' }, reply])
      const { items: found, end } = await askAll(llm)
      expect(llm.requests).toHaveLength(2)
      expect(found).toEqual(items(2))
      expect(end.truncated, JSON.stringify(reply)).toBe(truncated)
    }
  })

  it('keeps its items when a continuation fails for good, and says why', async () => {
    const error = new GraphmillError('llm_request_invalid', 'No such thing.')
    const llm = scriptedLlm([
      { text: linesOf(3), finish: 'length' },
      { text: '', error },
    ])
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual(items(3))
    const cause = { type: 'llm_request_invalid', message: 'No such thing.' }
    expect(end).toMatchObject({ truncated: true, incomplete: 'truncated', cause })
  })

  it('is tried again as a whole when a continuation fails for a while', async () => {
    const error = new GraphmillError('llm_unavailable', 'away')
    const llm = scriptedLlm([
      { text: linesOf(3), finish: 'length' },
      { text: '', error },
    ])
    await expect(askAll(llm)).rejects.toBe(error)
  })

  it('makes no more calls than a run may', async () => {
    const llm = scriptedLlm(continuing(50, linesOf(5, 10).length))
    const prompt = testPrompt({ jsonSchema: itemSchema, maxContinuations: 100 })
    const { items: found, end } = await askAll(llm, { prompt })
    expect(llm.requests).toHaveLength(8)
    expect(found).toEqual(items(40))
    expect(end).toMatchObject({ truncated: true, cause: { type: 'calls_exhausted' } })
  })
})

describe('a reply that was cut off inside its first item', () => {
  const cutInside: ScriptedReply = { text: linesOf(1), cutAt: 12 }

  it('is asked for once more, with twice the limit', async () => {
    const limited = testPrompt({ jsonSchema: itemSchema, sampling: { maxTokens: 100 } })
    const unlimited = testPrompt({ jsonSchema: itemSchema })
    for (const [prompt, doubled] of [
      [limited, 200],
      [unlimited, 6],
    ] as const) {
      const llm = scriptedLlm([cutInside, linesOf(2)])
      const { items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual(items(2))
      expect(llm.requests[1]!.sampling).toEqual({ maxTokens: doubled })
      expect(end.spent.map(({ reason }) => reason)).toEqual(['first', 'longer'])
    }
  })

  it('fails with a code when that is not enough, or the limit is not known', async () => {
    const llm = scriptedLlm([cutInside])
    await expect(askAll(llm)).rejects.toMatchObject({ code: 'item_too_long', retry: 'never' })
    expect(llm.requests).toHaveLength(2)
    const silent = { promptTokens: null, completionTokens: null, totalTokens: null }
    const unknown = scriptedLlm([{ ...cutInside, usage: silent }])
    await expect(askAll(unknown)).rejects.toMatchObject({ code: 'item_too_long' })
    expect(unknown.requests).toHaveLength(1)
  })

  it('says so when it is the thinking that took all of it', async () => {
    const thoughts: ScriptedReply = {
      reasoning: 'let me see',
      text: '',
      finish: 'length',
      usage: { promptTokens: 1, completionTokens: 9, totalTokens: 10 },
    }
    await expect(askAll(scriptedLlm([thoughts]))).rejects.toMatchObject({ code: 'reasoning_too_long' })
    const inText = scriptedLlm([{ text: '<think>let me see, there is', finish: 'length' }])
    await expect(askAll(inText)).rejects.toMatchObject({ code: 'reasoning_too_long' })
    const through = scriptedLlm([
      { text: `<think>${'so. '.repeat(100)}</think>\n{"e": "mi`, finish: 'length' },
    ])
    await expect(askAll(through)).rejects.toMatchObject({ code: 'item_too_long' })
    const enough = scriptedLlm([thoughts, linesOf(1)])
    expect((await askAll(enough)).items).toEqual(items(1))
    expect(enough.requests[1]!.sampling).toEqual({ maxTokens: 18 })
  })
})

describe('a model that repeats itself', () => {
  it('is stopped after twenty repeated items in succession, and not continued', async () => {
    const llm = scriptedLlm([{ text: linesOf(3) + linesOf(3).repeat(1000), finish: 'length' }])
    const { items: found, end } = await askAll(llm)
    expect(found).toHaveLength(23)
    expect(llm).toMatchObject({ cancelled: 1, requests: { length: 1 } })
    expect(end).toMatchObject({
      truncated: true,
      incomplete: 'repetition',
      duplicates: 20,
      cause: { type: 'repetition' },
    })
  })

  it('is stopped inside one string, keeps what is complete, and is not continued or asked again', async () => {
    const loop = `{"e": "mill", "d": "It is ${'a mill of '.repeat(50_000)}`
    for (const [begin, count] of [
      [linesOf(2), 2],
      ['', 0],
    ] as const) {
      const llm = scriptedLlm([begin + loop])
      const { items: found, end } = await askAll(llm)
      expect(found).toEqual(items(count))
      expect(end).toMatchObject({ truncated: true, incomplete: 'repetition', cause: { type: 'repetition' } })
      expect(llm).toMatchObject({ cancelled: 1, requests: { length: 1 } })
    }
  })

  it('is not stopped by nineteen repeats with a new item after them', async () => {
    const text = linesOf(1) + linesOf(1).repeat(19) + linesOf(1, 1) + linesOf(1).repeat(19)
    const { items: found, end } = await askAll(scriptedLlm([text]))
    expect(found).toHaveLength(40)
    expect(end.truncated).toBe(false)
  })

  it('is stopped in white space without end', async () => {
    const llm = scriptedLlm([linesOf(2) + ' \n'.repeat(100_000) + linesOf(1, 9)])
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual(items(2))
    expect(llm.cancelled).toBe(1)
    expect(end).toMatchObject({ truncated: true, cause: { type: 'repetition' } })
    const short = await askAll(scriptedLlm([`${linesOf(1)}${' '.repeat(4000)}${linesOf(1, 1)}`]))
    expect(short.items).toEqual(items(2))
  })
})

describe('a text that does not fit the context', () => {
  /** Refuses texts of more than `most` characters; gives one item for every number in the text. */
  const small =
    (most: number) =>
    (request: CompletionRequest): ScriptedReply => {
      const text = request.messages.at(-1)!.content.slice('Read: '.length)
      if (text.length > most) return { text: '', error: new GraphmillError('context_overflow', 'too long') }
      const numbers = text.match(/\d+/g) ?? []
      return { text: numbers.map((n) => linesOf(1, Number(n))).join('') }
    }
  const text = Array.from({ length: 40 }, (_, n) => `This is ${n}.`).join(' ')

  it('is split in two, at most twice, and every item is found once', async () => {
    for (const [most, calls] of [
      [text.length, 1],
      [text.length * 0.6, 3],
      [text.length * 0.3, 7],
    ] as const) {
      const llm = scriptedLlm(small(most))
      const { items: found, end } = await askAll(llm, { terms: { text } })
      expect(found).toEqual(items(40))
      expect(llm.requests).toHaveLength(calls)
      expect(end).toMatchObject({ truncated: false, incomplete: undefined })
      if (calls > 1) expect(end.spent.map(({ reason }) => reason)).toEqual(['split'])
    }
  })

  it('may make all its calls though others were refused for their length', async () => {
    const overflow = { text: '', error: new GraphmillError('context_overflow', 'too long') }
    const limit = text.length * 0.3
    // Three calls are refused; each quarter takes two.
    const llm = scriptedLlm(({ messages }) => {
      const about = messages[1]!.content.slice('Read: '.length)
      if (about.length > limit) return overflow
      const [first, ...rest] = (about.match(/\d+/g) ?? []).map((n) => linesOf(1, Number(n)))
      return messages.length === 2 ? { text: first!, finish: 'length' } : rest.join('')
    })
    const { items: found, end } = await askAll(llm, { terms: { text } })
    expect(llm.requests).toHaveLength(11)
    expect(found).toEqual(items(40))
    expect(end).toMatchObject({ truncated: false, cause: undefined })
    const fewer = await askAll(llm, { terms: { text }, limits: { maxCalls: 7 } })
    expect(fewer.end).toMatchObject({ truncated: true, cause: { type: 'calls_exhausted' } })
  })

  it('fails when quarters are too long too', async () => {
    const llm = scriptedLlm(small(5))
    await expect(askAll(llm, { terms: { text } })).rejects.toMatchObject({ code: 'context_overflow' })
  })

  it('fails at once for a prompt whose halves would be two replies, and says that and what helps', async () => {
    for (const responseType of ['json', 'text'] as const) {
      const llm = scriptedLlm(small(text.length * 0.6))
      const prompt = testPrompt({ id: 'summary', responseType })
      const error = await askAll(llm, { terms: { text }, prompt }).catch((thrown) => thrown)
      expect(error).toMatchObject({ code: 'context_overflow', retry: 'never' })
      expect(error.message).toContain(`summary is a ${responseType} prompt`)
      expect(error.cause).toMatchObject({ message: 'too long' })
      expect(error.remedy).toMatch(/--chunk-size.*jsonl/)
      expect(llm.requests).toHaveLength(1)
    }
  })

  it('is not split by a continuation that does not fit', async () => {
    const error = new GraphmillError('context_overflow', 'too long')
    const llm = scriptedLlm([
      { text: linesOf(2), finish: 'length' },
      { text: '', error },
    ])
    const { items: found, end } = await askAll(llm, { terms: { text } })
    expect(found).toEqual(items(2))
    expect(llm.requests).toHaveLength(2)
    expect(end).toMatchObject({ truncated: true, cause: { type: 'context_overflow' } })
  })
})

describe('items that failed the schema', () => {
  it('are asked for again, alone, and what comes back valid is added and marked', async () => {
    const reply = `${linesOf(1)}{"e": "mill", "d": 5}\n{"e": 7}\n{"e": "weir", "what": "a dam"}\n${linesOf(1, 1)}`
    const llm = scriptedLlm([reply, '{"e": "weir", "d": "a dam"}\n{"e": "invented", "d": "never said"}\n'])
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual([itemOf(0), { e: 'mill', d: '5' }, itemOf(1), { e: 'weir', d: 'a dam' }])
    expect(end).toMatchObject({
      accepted: 4,
      rejected: 1,
      reasked: 1,
      rejectedBy: { schema: 1 },
      incomplete: undefined,
    })
    expect(end.rejections[0]).toMatchObject({ line: 3, text: '{"e": 7}' })
    const { messages } = llm.requests[1]!
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user'])
    expect(messages[1]!.content).toContain('{"e": "weir", "what": "a dam"}\n# ')
    expect(messages[1]!.content).not.toContain('entity 0')
    expect(end.spent.map(({ reason }) => reason)).toEqual(['first', 'reask'])
  })

  it('stay rejected when the second answer is no better, or fails', async () => {
    const error = new GraphmillError('llm_request_invalid', 'no')
    for (const second of ['{"e": 7}', 'Sorry.', { text: '', error }]) {
      const llm = scriptedLlm([`${linesOf(1)}{"e": 7}\n`, second])
      const { items: found, end } = await askAll(llm)
      expect(found).toEqual(items(1))
      expect(llm.requests).toHaveLength(2)
      expect(end).toMatchObject({ accepted: 1, rejected: 1, reasked: 0, truncated: false })
    }
  })

  it('stay rejected when the second answer only repeats what the run has already', async () => {
    const llm = scriptedLlm([
      '{"e": "mill", "d": "x"}\n{"e": "mill", "w": "x"}\n',
      '{"e": "mill", "d": "x"}\n',
    ])
    const { items: found, end } = await askAll(llm)
    expect(found).toEqual([{ e: 'mill', d: 'x' }])
    expect(end).toMatchObject({ accepted: 1, rejected: 1, reasked: 0, rejectedBy: { schema: 1 } })
  })

  it('are not asked for again when they were not JSON', async () => {
    const llm = scriptedLlm([`${linesOf(1)}{"e": oh no}\n`])
    expect((await askAll(llm)).end).toMatchObject({ accepted: 1, rejected: 1 })
    expect(llm.requests).toHaveLength(1)
  })

  it('are asked for up to 50 lines and 20,000 characters; a longer line is left out', async () => {
    const line = (length: number, n: number) => `{"e": "mill ${n}", "w": "${'x'.repeat(length)}"}\n`
    const lines = [
      line(21_000, 0),
      line(12_000, 1),
      line(12_000, 2),
      ...Array.from({ length: 60 }, (_, n) => line(9, n + 3)),
    ]
    const llm = scriptedLlm([lines.join(''), '[]'])
    await askAll(llm)
    const asked = [...llm.requests[1]!.messages[1]!.content.matchAll(/^\{"e": "mill (\d+)"/gm)]
    expect(asked.map(([, n]) => Number(n))).toEqual([1, ...Array.from({ length: 49 }, (_, n) => n + 3)])
  })

  it('are asked for whole, however long their lines', async () => {
    const long = 'x'.repeat(5000)
    const llm = scriptedLlm([`{"e": "mill", "wrong": "${long}"}\n`, `{"e": "mill", "d": "${long}"}`])
    expect((await askAll(llm)).items).toEqual([{ e: 'mill', d: long }])
    expect(llm.requests[1]!.messages[1]!.content).toContain(long)
  })
})
