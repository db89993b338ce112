// A jsonl prompt on a server that keeps replies to a schema.
import { describe, expect, it } from 'vitest'
import type { AnswerMode } from '../../../src/config/models.ts'
import { GraphmillError } from '../../../src/errors.ts'
import type { CompletionRequest } from '../../../src/llm/llm.ts'
import { createOllama, ollamaJson } from '../../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import { askAll, itemOf, itemSchema, linesOf, testPrompt } from '../../support/asking.ts'
import { startRecordingServer } from '../../support/recording-server.ts'
import { type ScriptedReply, scriptedLlm } from '../../support/scripted-llm.ts'

const items = (count: number, first = 0) => Array.from({ length: count }, (_, n) => itemOf(first + n))
const wrapped = (count: number, first = 0) => JSON.stringify({ items: items(count, first) })
const native = { constrains: true }
const prompt = testPrompt({ jsonSchema: itemSchema })

describe('a constrained jsonl prompt', () => {
  it('puts the schema of a list of items on the wire, and one sentence into the system message', async () => {
    const llm = scriptedLlm([wrapped(3)], native)
    const { items: found, end } = await askAll(llm, { prompt })
    expect(found).toEqual(items(3))
    expect(end).toMatchObject({ truncated: false, incomplete: undefined })
    const [request] = llm.requests
    expect(request!.extras?.['response_format']).toMatchObject({
      type: 'json_schema',
      json_schema: {
        strict: true,
        schema: {
          type: 'object',
          properties: {
            items: { type: 'array', items: { required: ['e', 'd'], additionalProperties: false } },
          },
          required: ['items'],
          additionalProperties: false,
        },
      },
    })
    expect(request!.messages[0]!.content).toMatch(/^Be exact\.\n\n.*"items"/)
  })

  it('puts it into format on Ollama', async () => {
    const llm = scriptedLlm([wrapped(1)], { constrains: true, jsonFormat: ollamaJson })
    await askAll(llm, { prompt })
    expect(llm.requests[0]!.extras).toMatchObject({ format: { type: 'object', required: ['items'] } })
  })

  it('removes the nulls of absent keys before it checks an item', async () => {
    const jsonSchema = {
      type: 'object',
      properties: { e: { type: 'string' }, n: { type: 'integer' } },
      required: ['e'],
      additionalProperties: false,
    }
    const llm = scriptedLlm(['{"items":[{"e":"a","n":null},{"e":"b","n":2}]}'], native)
    const { items: found, end } = await askAll(llm, { prompt: testPrompt({ jsonSchema }) })
    expect(found).toEqual([{ e: 'a' }, { e: 'b', n: 2 }])
    expect(end).toMatchObject({ rejected: 0, repaired: 0 })
  })

  it('shows the model its items in the constrained form when it is to continue', async () => {
    const jsonSchema = {
      type: 'object',
      properties: { e: { type: 'string' }, n: { type: 'integer' } },
      required: ['e'],
    }
    const first = '{"items": [{"e":"a","n":null}, {"e":"b","n":2}'
    const llm = scriptedLlm([{ text: `${first}, {"e"`, finish: 'length' }, '{"items": []}'], native)
    const { items: found } = await askAll(llm, { prompt: testPrompt({ jsonSchema }) })
    expect(found).toEqual([{ e: 'a' }, { e: 'b', n: 2 }])
    expect(llm.requests[1]!.messages[2]).toEqual({ role: 'assistant', content: `${first}]}` })
  })

  it('lets items leave one by one', async () => {
    const { parts } = await askAll(scriptedLlm([wrapped(20)], { ...native, slow: true }), { prompt })
    expect(parts.length).toBeGreaterThan(5)
  })

  it('is honest when it is empty', async () => {
    const { end } = await askAll(scriptedLlm(['{"items": []}'], native), { prompt })
    expect(end).toMatchObject({ accepted: 0, incomplete: undefined })
  })

  it('is asked for again in its own form', async () => {
    const llm = scriptedLlm(['{"items":[{"e":"mill","w":"x"}]}', '{"items":[{"e":"mill","d":"x"}]}'], native)
    const { items: found } = await askAll(llm, { prompt })
    expect(found).toEqual([{ e: 'mill', d: 'x' }])
    expect(llm.requests[1]!.extras).toEqual(llm.requests[0]!.extras)
  })
})

describe('the form of a jsonl prompt', () => {
  it('is lines when the server is not known to keep to a schema, or is not asked to', async () => {
    for (const llm of [scriptedLlm(['']), scriptedLlm([''], { constrains: true })]) {
      const plain = testPrompt({ jsonSchema: itemSchema, outputMode: 'text-based' })
      await askAll(llm, { prompt: llm.requests === undefined ? prompt : plain })
      expect(llm.requests[0]!.extras).toBeUndefined()
    }
    const unsure = scriptedLlm([''])
    await askAll(unsure, { prompt })
    expect(unsure.requests[0]!.extras).toBeUndefined()
  })

  it('is what the prompt says', async () => {
    for (const [outputMode, extras] of [
      ['openai', { response_format: { type: 'json_schema' } }],
      ['openai_oo', { response_format: { type: 'json_object' } }],
      ['ollama', { format: { type: 'object' } }],
      ['ollama_oo', { format: 'json' }],
    ] as const) {
      const llm = scriptedLlm([wrapped(2)])
      const { items: found } = await askAll(llm, {
        prompt: testPrompt({ jsonSchema: itemSchema, outputMode }),
      })
      expect(found).toEqual(items(2))
      expect(llm.requests[0]!.extras).toMatchObject(extras)
    }
  })

  it("is otherwise what the model says, and reported with the reply's end", async () => {
    const said = async (outputMode: AnswerMode | undefined, own?: AnswerMode) => {
      const scripted = scriptedLlm([outputMode === 'fallback' ? JSON.stringify(itemOf(0)) : wrapped(1)])
      const llm = { ...scripted, ...(outputMode && { outputMode }) }
      const asked = { ...prompt, ...(own && { outputMode: own }) }
      const { end, items: found } = await askAll(llm, { prompt: asked })
      expect(found).toEqual(items(1))
      return [end.outputMode, Object.keys(scripted.requests[0]!.extras ?? {})]
    }
    expect(await said('native')).toEqual(['native', ['response_format']])
    expect(await said('fallback')).toEqual(['text-based', []])
    expect(await said('native', 'ollama_oo')).toEqual(['ollama_oo', ['format']])
  })

  it('falls back to lines for a schema that cannot be sent to a server, with a note when the server could constrain', async () => {
    for (const [outputMode, constrains, jsonSchema, notes] of [
      ['openai', false, { type: 'object', minProperties: 1 }, 1],
      ['auto', true, { type: 'object', minProperties: 1 }, 1],
      ['auto', false, { type: 'object', minProperties: 1 }, 0],
      ['auto', true, undefined, 0],
    ] as const) {
      const told: string[] = []
      const llm = scriptedLlm(['{"a": 1}\n'], { constrains })
      const open = testPrompt({ ...(jsonSchema && { jsonSchema }), outputMode })
      const { items: found } = await askAll(llm, { prompt: open, onNote: (note) => told.push(note) })
      expect(found).toEqual([{ a: 1 }])
      expect(llm.requests[0]!.extras).toBeUndefined()
      expect(told, outputMode).toHaveLength(notes)
    }
  })

  it('falls back to lines when the server refuses the schema, and remembers that', async () => {
    const details = { status: 400, param: 'response_format', server: 'response_format is not supported' }
    const error = new GraphmillError('llm_request_invalid', 'refused', { details })
    const llm = scriptedLlm(
      ({ extras }) => (extras ? { text: '', error } : { text: `${JSON.stringify(itemOf(0))}\n` }),
      native,
    )
    const refusing = { ...llm, circuit: 'llm:refusing', requests: llm.requests }
    const notes: string[] = []
    const onNote = (note: string) => notes.push(note)
    for (let n = 0; n < 2; n++) expect((await askAll(refusing, { prompt, onNote })).items).toEqual(items(1))
    expect(llm.requests).toHaveLength(3)
    expect(notes).toHaveLength(1)
  })

  it('is the same without `strict` when the server refuses that, for all runs with this schema, and noted once', async () => {
    const details = {
      status: 400,
      param: 'response_format',
      server: 'Invalid schema: strict is not supported',
    }
    const error = new GraphmillError('llm_request_invalid', 'refused', { details })
    const strict = ({ extras }: CompletionRequest) =>
      (extras?.['response_format'] as { json_schema: { strict: boolean } } | undefined)?.json_schema.strict
    const llm = Object.assign(
      scriptedLlm((request) => (strict(request) ? { text: '', error } : wrapped(2)), native),
      { circuit: 'llm:not strict' },
    )
    const notes: string[] = []
    for (let n = 0; n < 2; n++) {
      const { items: found, end } = await askAll(llm, { prompt, onNote: (note) => notes.push(note) })
      expect(found).toEqual(items(2))
      expect(end).toMatchObject({ outputMode: 'native', finishReason: 'stop' })
    }
    expect(llm.requests.map(strict)).toEqual([true, false, false])
    expect(notes).toEqual([expect.stringMatching(/^test: .*without `strict`/)])
  })

  describe('on a server that ignores it', () => {
    const prose = 'There are two mills, and both are old.'
    const ignoring = (circuit: string, inWords: string | ScriptedReply) =>
      Object.assign(
        scriptedLlm(({ extras }) => (extras ? prose : inWords), native),
        { circuit },
      )

    it('becomes lines, with the schema in the prompt, from then on, and that is noted once', async () => {
      const llm = ignoring('llm:ignoring', linesOf(3))
      const notes: string[] = []
      for (let n = 0; n < 2; n++) {
        const { items: found, end } = await askAll(llm, { prompt, onNote: (note) => notes.push(note) })
        expect(found).toEqual(items(3))
        expect(end).toMatchObject({ outputMode: 'text-based', incomplete: undefined })
        expect(end.spent).toMatchObject([{ reason: 'first', calls: 2 - n }])
      }
      expect(llm.requests.map(({ extras }) => extras !== undefined)).toEqual([true, false, false])
      expect(llm.requests[1]!.messages[0]!.content).toContain(JSON.stringify(itemSchema.required))
      expect(notes).toEqual([expect.stringMatching(/does not keep to the JSON/)])
    })

    it('is asked natively again when lines brought no more, and by a run that may make one call only', async () => {
      const llm = ignoring('llm:talkative', prose)
      for (let n = 0; n < 2; n++) expect((await askAll(llm, { prompt })).end.incomplete).toBe('no_items')
      expect(llm.requests.map(({ extras }) => extras !== undefined)).toEqual([true, false, true, false])
      const { end } = await askAll(llm, { prompt, limits: { maxCalls: 1 } })
      expect(end).toMatchObject({ incomplete: 'no_items', outputMode: 'native' })
    })

    it('keeps lines that it writes instead of the list', async () => {
      const llm = Object.assign(scriptedLlm([linesOf(3)], native), { circuit: 'llm:of lines' })
      const { items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual(items(3))
      expect(end.outputMode).toBe('native')
      expect(llm.requests).toHaveLength(1)
    })

    it('is seen over HTTP, on Ollama and on llama.cpp', async () => {
      const chat = (content: string) => ({ choices: [{ delta: { content }, finish_reason: 'stop' }] })
      const list = { body: { data: [{ id: 'm', owned_by: 'llamacpp' }] } }
      const ollamaSays = (content: string) => ({
        lines: [{ message: { content }, done: true, done_reason: 'stop' }],
      })
      for (const [field, answers] of [
        ['format', [ollamaSays(prose), ollamaSays(linesOf(2))]],
        ['response_format', [list, { events: [chat(prose)] }, { events: [chat(linesOf(2))] }]],
      ] as const) {
        await using server = await startRecordingServer(answers)
        const llm =
          field === 'format'
            ? createOllama({ host: server.origin, model: 'm' })
            : createOpenAi({ baseUrl: server.url, model: 'm' })
        expect((await askAll(llm, { prompt })).items).toEqual(items(2))
        const posts = server.requests.filter(({ method }) => method === 'POST')
        expect(posts.map(({ json }) => field in json)).toEqual([true, false])
        expect(posts[1]!.text).toContain('JSON Schema')
      }
    })
  })

  describe('when the server fails on it later', () => {
    const details = { status: 500, server: 'Unexpected empty grammar stack after accepting piece' }
    const error = new GraphmillError('llm_unavailable', 'had an error', { details })
    /** In this form the first call is answered with `first`, and all that follow fail; lines are five items. */
    const choking = (circuit: string, first: ScriptedReply) => {
      let calls = 0
      const llm = scriptedLlm(
        ({ extras }) =>
          !extras
            ? Array.from({ length: 5 }, (_, n) => `${JSON.stringify(itemOf(n))}\n`).join('')
            : ++calls === 1
              ? first
              : { text: '', error },
        native,
      )
      return Object.assign(llm, { circuit })
    }
    const cutOff: ScriptedReply = { text: wrapped(4).slice(0, wrapped(3).length), finish: 'length' }

    it('keeps what has left, cut off, with the cause, in one run', async () => {
      const llm = choking('llm:choking', cutOff)
      const { parts, items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual(items(3))
      const cause = { type: 'llm_request_invalid', message: 'had an error' }
      expect(end).toMatchObject({ truncated: true, incomplete: 'truncated', accepted: 3, cause })
      expect(end.outputMode).toBe('native')
      const counts = parts.map(({ accepted }) => accepted)
      expect(counts).toEqual(counts.toSorted((a, b) => a - b))
      expect(llm.requests).toHaveLength(2)
    })

    it('keeps what has left of the call that fails', async () => {
      const llm = choking('llm:choking amid', { ...cutOff, error })
      const { items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual(items(3))
      expect(end).toMatchObject({ truncated: true, cause: { type: 'llm_request_invalid' } })
    })

    it('leaves the rejected items rejected', async () => {
      const llm = choking('llm:choking again', { text: '{"items":[{"e":"mill","w":"x"}]}' })
      const { items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual([])
      expect(end).toMatchObject({ accepted: 0, rejected: 1, outputMode: 'native' })
    })

    it('falls back to lines as long as nothing has left', async () => {
      const llm = choking('llm:choking early', { text: wrapped(1), cutAt: 15 })
      const { items: found, end } = await askAll(llm, { prompt })
      expect(found).toEqual(items(5))
      expect(end).toMatchObject({ truncated: false, outputMode: 'text-based', accepted: 5 })
      expect(end.spent.map(({ reason }) => reason)).toEqual(['first'])
    })
  })

  it('is known from what llama.cpp and vLLM say about their models', async () => {
    for (const [owner, expected] of [
      ['llamacpp', true],
      ['vllm', true],
      ['library', false],
      ['openai', false],
    ] as const) {
      let asked = 0
      const fetch = async () => {
        asked++
        return Response.json({ object: 'list', data: [{ id: 'm', object: 'model', owned_by: owner }] })
      }
      const llm = createOpenAi({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: fetch as never })
      const { signal } = new AbortController()
      const answers = await Promise.all([llm.constrains!(signal), llm.constrains!(signal)])
      expect(answers).toEqual([expected, expected])
      expect(await llm.constrains!(signal)).toBe(expected)
      expect(asked).toBe(1)
    }
  })
})
