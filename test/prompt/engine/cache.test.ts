// What a run leaves in the cache, and what the next attempt makes of it.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import cacache from 'cacache'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { openCache, type ReplyCache } from '../../../src/llm/cache/reply-cache.ts'
import type { Prompt } from '../../../src/prompt/catalogue/prompt.ts'
import { type AskOptions, ask, type RunPart } from '../../../src/prompt/engine/engine.ts'
import { askAll, itemOf, itemSchema, linesOf, testPrompt } from '../../support/asking.ts'
import { type Script, type ScriptedLlm, scriptedLlm } from '../../support/scripted-llm.ts'

let dir: string
let replies: ReplyCache
let cache: NonNullable<AskOptions['cache']>
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'graphmill-cache-'))
  replies = openCache({ dir })
  cache = { replies, workspace: 'w' }
})
afterEach(async () => {
  await replies.close()
  await rm(dir, { recursive: true, force: true })
})

/** As a later process would find it. */
const reopened = () => ({ replies: openCache({ dir }), workspace: 'w' })
const items = (count: number) => Array.from({ length: count }, (_, n) => itemOf(n))
const without = (parts: readonly RunPart[]) =>
  parts.map(({ end, ...part }) => {
    if (!end) return part
    const { usage: _usage, spent: _spent, ...rest } = end
    return { ...part, end: rest }
  })
const away = new GraphmillError('llm_unavailable', 'away')
const whole = { text: testPrompt({ responseType: 'text' }), json: testPrompt({ responseType: 'json' }) }

const refused = { text: '', error: new GraphmillError('llm_request_invalid', 'No such thing.') }
const broken = { text: linesOf(2, 3), error: new GraphmillError('llm_response_invalid', 'What is this?') }

const objectSchema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }

/** An entry as it is stored on the disk. */
interface Written {
  readonly calls: Record<string, unknown>[]
  readonly cut: Record<string, unknown>
}

/** Reads slowly, now and then, so that parts are cut at odd places. */
async function askSlowly(llm: ScriptedLlm, more: Partial<AskOptions>): Promise<RunPart[]> {
  const prompt = testPrompt({ jsonSchema: itemSchema })
  const options = {
    prompt,
    terms: { text: 'a text' },
    llm,
    streaming: true,
    newRun: () => ({ id: 'slow', startedAt: 7 }),
  }
  const parts: RunPart[] = []
  for await (const part of ask({ ...options, signal: new AbortController().signal, ...more })) {
    parts.push(part)
    for (let turn = 0; turn < parts.length * 300; turn++) await Promise.resolve()
  }
  return parts
}

describe('a run that is over', () => {
  it.each<[string, Partial<AskOptions>, Script]>([
    ['jsonl', {}, [linesOf(60)]],
    ['jsonl, not streamed', { streaming: false }, [linesOf(60)]],
    ['text', { prompt: whole.text }, ['The mill on the river. '.repeat(40)]],
    ['json', { prompt: whole.json }, ['{"a": [1, 2, 3]}']],
    ['nothing, honestly', {}, ['[]']],
    ['a continued reply', {}, [{ text: linesOf(30), finish: 'length' }, linesOf(30, 30)]],
    ['a longer one', {}, [{ text: linesOf(1), cutAt: 10 }, linesOf(2)]],
    ['one asked again', {}, [`${linesOf(3)}{"e": "x", "w": "y"}\n`, '{"e": "x", "d": "y"}']],
    ['one asked again in vain', {}, [`${linesOf(3)}{"e": "x", "w": "y"}\n`, 'What?']],
    ['one that thought aloud', {}, [`${linesOf(3)}</think>\n${linesOf(2)}`]],
    ['one in a loop', {}, [linesOf(1).repeat(100)]],
    ['one of white space', {}, [linesOf(2) + ' '.repeat(50_000)]],
    ['json, then white space', { prompt: whole.json }, [`{"a": 1}${' '.repeat(50_000)}`]],
    ['one cut off for good', {}, [{ text: linesOf(3), finish: 'length' }]],
    ['a continuation refused', {}, [{ text: linesOf(3), finish: 'length' }, refused]],
    ['a continuation that broke for good', {}, [{ text: linesOf(3), finish: 'length' }, broken]],
    ['a reask refused', {}, [`${linesOf(1)}{"e": 7}\n`, refused]],
  ])('is replayed as the same run, part by part, without a call: %s', async (_name, more, script) => {
    const first = await askSlowly(scriptedLlm(script), { cache, ...more })
    const again = scriptedLlm([
      { text: '', error: new GraphmillError('llm_request_invalid', 'It was asked.') },
    ])
    const second = await askSlowly(again, {
      cache: reopened(),
      newRun: () => ({ id: 'new', startedAt: 8 }),
      ...more,
    })
    expect(again.requests).toHaveLength(0)
    expect(without(second)).toEqual(without(first))
    expect(second.at(-1)!.end!.usage).toEqual(first.at(-1)!.end!.usage)
    expect(second.at(-1)!.end!.spent.every(({ reason }) => reason === 'cached')).toBe(true)
  })

  it('is replayed after a split of its text too', async () => {
    const terms = { text: 'one. two. three. four.' }
    const refuse = new GraphmillError('context_overflow', 'too long')
    const first = await askSlowly(scriptedLlm([{ text: '', error: refuse }, linesOf(2), linesOf(2, 2)]), {
      cache,
      terms,
    })
    const again = scriptedLlm([{ text: '', error: away }])
    expect(without(await askSlowly(again, { cache: reopened(), terms }))).toEqual(without(first))
    expect(again.requests).toHaveLength(0)
  })

  it('is replayed when half of its text was refused, or its form', async () => {
    const terms = { text: 'one. two. three. four.' }
    const overflow = { text: '', error: new GraphmillError('context_overflow', 'too long') }
    const details = { status: 500, server: 'Unexpected empty grammar stack' }
    const choked = { text: '', error: new GraphmillError('llm_unavailable', 'had an error', { details }) }
    const wrapped = {
      text: `{"items":[${linesOf(3).trim().split('\n').join(',')}`,
      finish: 'length',
    } as const
    for (const [script, constrains] of [
      [[overflow, linesOf(2), refused], false],
      [[wrapped, choked], true],
    ] as const) {
      const first = await askSlowly(scriptedLlm(script, { constrains }), { cache, terms })
      const again = scriptedLlm([{ text: '', error: away }], { constrains })
      expect(without(await askSlowly(again, { cache: reopened(), terms }))).toEqual(without(first))
      expect(again.requests).toHaveLength(0)
      expect(first.at(-1)!.end).toMatchObject({ truncated: true, cause: { type: 'llm_request_invalid' } })
    }
  })

  it('is replayed, also in another process, when the server ignored the schema or took it only without `strict`', async () => {
    const schema = { ...itemSchema, additionalProperties: false }
    const details = { status: 400, server: 'strict json_schema is not supported' }
    const refused = { text: '', error: new GraphmillError('llm_request_invalid', 'refused', { details }) }
    for (const responseType of ['json', 'jsonl'] as const)
      for (const [n, first] of ['It is a mill.', refused].entries()) {
        const prompt = testPrompt({ id: `${responseType} ${n}`, responseType, jsonSchema: schema })
        const llm = (script: Script) => ({
          ...scriptedLlm(script, { constrains: true }),
          circuit: `llm:${responseType} ${n}`,
        })
        const asked = llm([first, JSON.stringify(itemOf(0))])
        const terms = { text: `${responseType} ${n}` }
        const before = await askAll(asked, { cache, prompt, terms })
        expect(asked.requests).toHaveLength(2)
        expect(before.items).toEqual(items(1))
        // Another process knows nothing of the server yet.
        const again = { ...llm([{ text: '', error: away }]), circuit: `llm:${responseType} ${n}, again` }
        expect((await askAll(again, { cache: reopened(), prompt, terms })).items).toEqual(items(1))
        expect(again.requests).toHaveLength(0)
      }
  })

  it('is replayed when it changed to lines after an empty half', async () => {
    const terms = { text: 'one. two. three. four.' }
    const overflow = { text: '', error: new GraphmillError('context_overflow', 'too long') }
    const details = { status: 400, server: 'response_format: the grammar is too large' }
    const choked = { text: '', error: new GraphmillError('llm_request_invalid', 'refused', { details }) }
    const llm = (script: Script) => ({
      ...scriptedLlm(script, { constrains: true }),
      circuit: 'llm:chokes on the second half',
    })
    const first = await askSlowly(llm([overflow, '{"items": []}', choked, linesOf(3)]), { cache, terms })
    const again = llm([{ text: '', error: away }])
    expect(without(await askSlowly(again, { cache: reopened(), terms }))).toEqual(without(first))
    expect(again.requests).toHaveLength(0)
    expect(first.at(-1)!.end).toMatchObject({ accepted: 3, outputMode: 'text-based' })
  })

  it('continues where its cost limit had stopped it', async () => {
    const error = new GraphmillError('cost_limit_reached', 'enough')
    const stopped = scriptedLlm([
      { text: linesOf(3), finish: 'length' },
      { text: '', error },
    ])
    expect((await askAll(stopped, { cache })).end.incomplete).toBe('max_cost')
    const { items: found, end } = await askAll(scriptedLlm([linesOf(2, 3)]), { cache: reopened() })
    expect(found).toEqual(items(5))
    expect(end.incomplete).toBeUndefined()
  })

  it('is marked so before its last part leaves', async () => {
    const reader = ask({
      prompt: testPrompt({ jsonSchema: itemSchema }),
      terms: { text: 'a text' },
      llm: scriptedLlm([linesOf(1)]),
      streaming: false,
      newRun: () => ({ id: 'first', startedAt: 1 }),
      cache,
      signal: new AbortController().signal,
    })
    await reader.next()
    const again = scriptedLlm([{ text: '', error: away }])
    const { parts } = await askAll(again, { cache: reopened(), streaming: false })
    expect(parts[0]).toMatchObject({ run: { id: 'first', startedAt: 1 }, accepted: 1 })
    await reader.return()
  })

  it('serves a request that wants it streamed otherwise', async () => {
    await askAll(scriptedLlm([linesOf(5)]), { cache, streaming: true })
    const once = await askAll(scriptedLlm([]), { cache, streaming: false })
    expect(once.parts).toHaveLength(1)
    expect(once.items).toEqual(items(5))
  })

  it('adds next to nothing (two milliseconds at most, says the bench, on a machine that is not busy)', async () => {
    const llm = scriptedLlm([{ pieces: [linesOf(30)] }])
    const texts = Array.from({ length: 100 }, (_, n) => ({ text: `text ${n}` }))
    for (const terms of texts) await askAll(llm, { cache, terms })
    const timed = async (more: Partial<AskOptions>) => {
      const begun = performance.now()
      await askAll(llm, more)
      return performance.now() - begun
    }
    const added: number[] = []
    for (const terms of texts) added.push((await timed({ cache, terms })) - (await timed({ terms })))
    expect(llm.requests).toHaveLength(200)
    expect(added.sort((a, b) => a - b)[50]).toBeLessThan(10)
  })

  it.each<[string, (entry: Written) => void]>([
    ['a call that says nothing of its tokens', (entry) => delete entry.calls[0]!['usage']],
    ['a call that ended in a way unknown', (entry) => Object.assign(entry.calls[0]!, { finishReason: 'x' })],
    [
      'a failure unknown',
      (entry) => Object.assign(entry.calls[0]!, { failure: { code: 'x', message: 'y' } }),
    ],
    ['parts cut at an unknown place', (entry) => Object.assign(entry.cut, { cuts: 5 })],
  ])('is asked for anew where its entry is foreign: %s', async (_name, change) => {
    await askAll(scriptedLlm([linesOf(2)]), { cache })
    const [key] = Object.keys(await cacache.ls(dir))
    const entry = JSON.parse((await cacache.get(dir, key!)).data.toString()) as Written
    change(entry)
    await cacache.put(dir, key!, JSON.stringify(entry))
    const llm = scriptedLlm([linesOf(3)])
    expect((await askAll(llm, { cache: reopened() })).items).toEqual(items(3))
    expect(llm.requests).toHaveLength(1)
  })

  it('is asked for again by another workspace, text or prompt parameter', async () => {
    await askAll(scriptedLlm([linesOf(1)]), { cache })
    const hot = testPrompt({ jsonSchema: itemSchema, sampling: { temperature: 1 } })
    for (const more of [{ cache: { replies, workspace: 'v' } }, { terms: { text: 'b' } }, { prompt: hot }]) {
      const llm = scriptedLlm([linesOf(2)])
      expect((await askAll(llm, { cache, ...more })).items).toEqual(items(2))
      expect(llm.requests).toHaveLength(1)
    }
  })

  it("is asked for again at another temperature of the model, unless the prompt's own overrides it", async () => {
    const at = (temperature: number) => ({ ...scriptedLlm([linesOf(1)]), sampling: { temperature } })
    const plain = scriptedLlm([linesOf(1)])
    const models = [plain, at(0), at(1), at(0)]
    for (const llm of models) await askAll(llm, { cache })
    expect(models.map(({ requests }) => requests.map(({ sampling }) => sampling))).toEqual([
      [{}],
      [{ temperature: 0 }],
      [{ temperature: 1 }],
      [],
    ])
    const prompt = testPrompt({ jsonSchema: itemSchema, sampling: { temperature: 0.5, maxTokens: 9 } })
    const [cold, hot] = [at(0), at(1)]
    for (const llm of [cold, hot]) await askAll(llm, { cache, prompt })
    expect(cold.requests.map(({ sampling }) => sampling)).toEqual([{ temperature: 0.5, maxTokens: 9 }])
    expect(hot.requests).toHaveLength(0)
  })

  it.each<[string, (n: number) => Partial<Prompt>]>([
    ['json, two output modes', (n) => ({ responseType: 'json', outputMode: n ? 'openai_oo' : 'fallback' })],
    [
      'json, two schemas',
      (n) => ({ responseType: 'json', jsonSchema: n ? objectSchema : { type: 'object' } }),
    ],
    ['jsonl, two output modes', (n) => ({ outputMode: n ? 'openai_oo' : 'text-based' })],
  ])('is remembered beside that of another form, however they take turns: %s', async (_name, more) => {
    const llm = scriptedLlm(['{"n": 1}\n'])
    const runs: string[] = []
    for (const n of [0, 1, 0, 1]) {
      const prompt = testPrompt({ jsonSchema: objectSchema, ...more(n) })
      runs.push((await askAll(llm, { cache, prompt })).parts[0]!.run.id)
    }
    expect(llm.requests).toHaveLength(2)
    expect(runs.slice(2)).toEqual(runs.slice(0, 2))
  })

  it('is found by the output mode of the model when the prompt names none', async () => {
    const prompt = testPrompt({ responseType: 'json', jsonSchema: objectSchema })
    const llm = scriptedLlm(['{"n": 1}'])
    for (const outputMode of ['openai_oo', 'fallback', 'openai_oo'] as const)
      await askAll({ ...llm, outputMode }, { cache, prompt })
    expect(llm.requests).toHaveLength(2)
  })

  it('is read as a new run, without a call, when the schema has changed', async () => {
    const first = await askAll(scriptedLlm([linesOf(2)]), { cache })
    const loose = testPrompt({ jsonSchema: { type: 'object' } })
    const llm = scriptedLlm([linesOf(9)])
    const second = await askAll(llm, { cache, prompt: loose })
    expect(second.items).toEqual(items(2))
    expect(second.parts[0]!.run.id).not.toBe(first.parts[0]!.run.id)
    expect(llm.requests).toHaveLength(0)
  })

  it('continues when it may make more calls now', async () => {
    const never = testPrompt({ jsonSchema: itemSchema, maxContinuations: 0 })
    expect(
      (await askAll(scriptedLlm([{ text: linesOf(3), finish: 'length' }]), { cache, prompt: never })).end
        .truncated,
    ).toBe(true)
    const llm = scriptedLlm([linesOf(2, 3)])
    const { items: found, end } = await askAll(llm, { cache })
    expect(found).toEqual(items(5))
    expect(llm.requests).toHaveLength(1)
    expect(end.spent.map(({ reason }) => reason)).toEqual(['cached', 'continuation'])
  })
})

describe('a run that was interrupted', () => {
  it('is a new run that replays the calls that ended, and continues from there', async () => {
    const broken = scriptedLlm([
      { text: linesOf(30), finish: 'length' },
      { text: linesOf(5, 30), error: away },
    ])
    await expect(askAll(broken, { cache, newRun: () => ({ id: 'first', startedAt: 1 }) })).rejects.toBe(away)
    const llm = scriptedLlm([linesOf(30, 30)])
    const { parts, items: found } = await askAll(llm, {
      cache: reopened(),
      newRun: () => ({ id: 'second', startedAt: 2 }),
    })
    expect(found).toEqual(items(60))
    expect(parts.every(({ run }) => run.id === 'second')).toBe(true)
    expect(llm.requests).toHaveLength(1)
    expect(llm.requests[0]!.messages).toEqual(broken.requests[1]!.messages)
    const third = scriptedLlm([])
    expect((await askAll(third, { cache: reopened() })).parts[0]!.run.id).toBe('second')
  })

  it('pays a call again that a crash cut short', async () => {
    await expect(askAll(scriptedLlm([{ text: linesOf(5), error: away }]), { cache })).rejects.toBe(away)
    const llm = scriptedLlm([linesOf(7)])
    expect((await askAll(llm, { cache })).items).toEqual(items(7))
    expect(llm.requests).toHaveLength(1)
  })
})

describe('a server that does not take the form of reply', () => {
  const details = { status: 400, param: 'response_format', server: 'response_format is not supported' }
  const refusal = () => ({
    text: '',
    error: new GraphmillError('llm_request_invalid', 'refused', { details }),
  })
  const kinds = [
    ['json', testPrompt({ id: 'a', responseType: 'json', jsonSchema: objectSchema }), '{"n": 3}'],
    ['jsonl', testPrompt({ id: 'b', jsonSchema: itemSchema }), linesOf(3)],
  ] as const
  /** Refuses what asks for a form, and says `reply` to the rest. */
  const refusing = (reply: string, circuit: string) => {
    const llm = scriptedLlm(({ extras }) => (extras?.['response_format'] ? refusal() : { text: reply }), {
      constrains: true,
    })
    return Object.assign(llm, { circuit })
  }
  /** The engine as another process has it: it has seen nothing of any server. */
  const restarted = async () => {
    vi.resetModules()
    return await import('../../support/asking.ts')
  }

  it.each(kinds)('is not asked again by a later process: %s', async (kind, prompt, reply) => {
    const llm = refusing(reply, `llm:refusing ${kind}`)
    const texts = [{ text: 'where the refusal is met' }, { text: 'where it is known' }]
    const before = []
    for (const terms of texts) before.push(await askAll(llm, { cache, prompt, terms }))
    expect(llm.requests).toHaveLength(3)
    // Each alone, and the second one first: neither depends on what the process saw before.
    for (const place of [1, 0]) {
      const later = await restarted()
      const again = refusing(reply, llm.circuit)
      const { parts, items: found } = await later.askAll(again, {
        cache: reopened(),
        prompt,
        terms: texts[place]!,
      })
      expect(again.requests).toHaveLength(0)
      expect(found).toEqual(before[place]!.items)
      expect(without(parts)).toEqual(without(before[place]!.parts))
    }
  })

  it('is not asked again for what an interrupted run of lines has received', async () => {
    const [, prompt] = kinds[1]
    const llm = Object.assign(
      scriptedLlm(
        (_, call) =>
          [refusal(), { text: linesOf(3), finish: 'length' as const }, { text: '', error: away }][call - 1]!,
        { constrains: true },
      ),
      { circuit: 'llm:refusing for a while' },
    )
    await expect(askAll(llm, { cache, prompt })).rejects.toBe(away)
    const later = await restarted()
    const again = refusing(linesOf(2, 3), llm.circuit)
    const { items: found } = await later.askAll(again, { cache: reopened(), prompt })
    expect(found).toEqual(items(5))
    expect(again.requests).toHaveLength(1)
    expect(again.requests[0]!.messages).toEqual(llm.requests[2]!.messages)
  })

  it('is asked in its form for what is not remembered', async () => {
    for (const [kind, prompt, reply] of kinds) {
      const llm = refusing(reply, `llm:refused ${kind}`)
      await askAll(llm, { cache, prompt })
      const later = await restarted()
      const native = kind === 'json' ? reply : JSON.stringify({ items: items(3) })
      const mended = Object.assign(scriptedLlm([native], { constrains: true }), { circuit: llm.circuit })
      const { end } = await later.askAll(mended, {
        cache: reopened(),
        prompt,
        terms: { text: 'something else' },
      })
      expect(end.outputMode).toBe('native')
      expect(mended.requests).toHaveLength(1)
    }
  })

  it('leaves alone what was remembered before it stopped taking it', async () => {
    for (const [kind, prompt, reply] of kinds) {
      const circuit = `llm:refusing later ${kind}`
      const native = kind === 'json' ? reply : JSON.stringify({ items: items(3) })
      const taking = Object.assign(scriptedLlm([native], { constrains: true }), { circuit })
      const first = await askAll(taking, { cache, prompt })
      await askAll(refusing(reply, circuit), { cache, prompt, terms: { text: 'something else' } })
      const again = refusing(reply, circuit)
      const second = await askAll(again, { cache: reopened(), prompt })
      expect(again.requests).toHaveLength(0)
      expect(second.parts[0]!.run).toEqual(first.parts[0]!.run)
    }
  })
})

describe('a reply that brings nothing', () => {
  it.each<[string, Script, Partial<AskOptions>]>([
    ['prose', ['There is nothing.'], {}],
    ['a refusal', ["I'm sorry, no."], {}],
    ['rejected items only', ['{"e": 1}', ''], {}],
    ['a filtered one', [{ text: '', finish: 'content_filter' }], {}],
    ['an empty text', [' '], { prompt: whole.text }],
  ])('is not remembered: %s', async (_name, script, more) => {
    await askAll(scriptedLlm(script), { cache, ...more })
    const llm = scriptedLlm([more.prompt ? 'a text' : linesOf(1)])
    expect((await askAll(llm, { cache, ...more })).end.incomplete).toBeUndefined()
    expect(llm.requests).toHaveLength(1)
  })
})

describe('equal requests in flight', () => {
  it('share one call', async () => {
    const llm = scriptedLlm([linesOf(10)])
    const all = await Promise.all(Array.from({ length: 5 }, () => askAll(llm, { cache })))
    expect(llm.requests).toHaveLength(1)
    expect(new Set(all.map(({ parts }) => parts[0]!.run.id)).size).toBe(1)
    for (const { items: found } of all) expect(found).toEqual(items(10))
  })

  it.each<[string, (stop: AbortController, reader: AsyncGenerator<RunPart, void>) => unknown]>([
    ['is cancelled', (stop) => stop.abort(new Error('enough'))],
    ['is read no further', (_stop, reader) => reader.return()],
  ])('take over from the first where it %s amid its reply', async (_name, giveUp) => {
    const llm = scriptedLlm([linesOf(50)], { slow: true })
    const stop = new AbortController()
    const reader = ask({
      prompt: testPrompt({ jsonSchema: itemSchema }),
      terms: { text: 'a text' },
      llm,
      streaming: true,
      newRun: () => ({ id: 'first', startedAt: 1 }),
      cache,
      signal: stop.signal,
    })
    expect((await reader.next()).value?.accepted).toBe(1)
    const others = [askAll(llm, { cache }), askAll(llm, { cache })]
    await giveUp(stop, reader)
    await reader.next().catch(() => undefined)
    for (const { items: found, parts } of await Promise.all(others)) {
      expect(found).toEqual(items(50))
      expect(parts[0]!.run.id).not.toBe('first')
    }
    expect(llm.requests).toHaveLength(2)
    expect(llm.cancelled).toBe(1)
  })

  it('take over from one that fails', async () => {
    const llm = scriptedLlm([{ text: linesOf(1), error: away }, linesOf(2)])
    const [first, second] = await Promise.allSettled([askAll(llm, { cache }), askAll(llm, { cache })])
    expect(first).toMatchObject({ status: 'rejected', reason: away })
    expect(second).toMatchObject({ status: 'fulfilled', value: { items: items(2) } })
    expect(llm.requests).toHaveLength(2)
  })
})
