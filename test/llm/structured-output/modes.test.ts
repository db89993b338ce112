// The modes of tidyprompt's answer_as_json by name, with their exact wire, on both kinds of servers.
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { JsonSchema } from '../../../src/llm/llm.ts'
import { createOllama } from '../../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import { ProviderError } from '../../../src/llm/provider-error.ts'
import { StructuredOutputInvalid } from '../../../src/llm/structured-output/invalid-error.ts'
import { type AnswerJsonOptions, answerJson } from '../../../src/llm/structured-output/json-answer.ts'
import { exampleOf } from '../../../src/llm/structured-output/json-example.ts'
import { unwrapped } from '../../../src/llm/structured-output/unwrapped.ts'
import { chunk, frozen, usageChunk } from '../../complete/harness.ts'
import { type RecordingServer, type Scripted, startRecordingServer } from '../../support/recording-server.ts'

const S = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
} as const
const messages = frozen([
  { role: 'system', content: 'Be kind.' },
  { role: 'user', content: 'Who?' },
] as const)
const alice = '{"name":"Alice","age":30}'
const instruction = 'Who?\n\nYou must format your response as a JSON object.'
const byExample = `\n\nYour JSON object should match this example JSON object:\n${JSON.stringify({ name: '...', age: 123 }, null, 2)}`

let server: RecordingServer
afterEach(() => server.close())

/** An event stream of OpenAI's with this text. */
const says = (text: string, finish = 'stop'): Scripted => ({
  events: [chunk({ content: text }, finish), usageChunk(5, 3, 8), '[DONE]'],
})

/** A stream of Ollama's with this text. */
const ollamaSays = (text: string): Scripted => ({
  lines: [
    { model: 'm', message: { role: 'assistant', content: text }, done: false },
    {
      model: 'm',
      message: { role: 'assistant', content: '' },
      done: true,
      done_reason: 'stop',
      prompt_eval_count: 5,
      eval_count: 3,
    },
  ],
})

async function openAi(...answers: Scripted[]) {
  server = await startRecordingServer(answers)
  return createOpenAi({ baseUrl: server.url, model: 'test-model' })
}

async function ollama(...answers: Scripted[]) {
  server = await startRecordingServer(answers)
  return createOllama({ host: server.origin, model: 'm' })
}

type More = Omit<AnswerJsonOptions, 'llm' | 'messages' | 'signal'>
const signal = new AbortController().signal

async function ask(llm: AnswerJsonOptions['llm'], more: More) {
  return answerJson({ llm, messages, signal, warnAuto: false, ...frozen(more) })
}

/** What the last request says beside the model and the stream. */
function sent(index = 0) {
  const { messages: asked, response_format, format } = server.requests[index]!.json
  const [system, user, ...more] = asked as { content: string }[]
  return { system: system!.content, user: user!.content, more, response_format, format }
}

const jsonObject = { type: 'json_object' }
const byApi = { type: 'json_schema', json_schema: { name: 'schema', schema: S, strict: false } }

describe('the modes on the wire', () => {
  it.each([
    ['text-based', undefined, undefined, undefined, instruction],
    ['text-based', S, undefined, undefined, instruction + byExample],
    ['openai', undefined, jsonObject, undefined, instruction],
    ['openai', S, byApi, undefined, 'Who?'],
    ['ollama', undefined, undefined, 'json', instruction],
    ['ollama', S, undefined, S, 'Who?'],
    ['openai_oo', undefined, jsonObject, undefined, instruction],
    ['openai_oo', S, jsonObject, undefined, instruction + byExample],
    ['ollama_oo', undefined, undefined, 'json', instruction],
    ['ollama_oo', S, undefined, 'json', instruction + byExample],
  ] as const)('%s, with the schema %j', async (mode, schema, response_format, format, user) => {
    const llm = await openAi(says(alice))
    const answer = await ask(llm, { mode, schema })
    expect(sent()).toEqual({ system: 'Be kind.', user, more: [], response_format, format })
    expect(answer).toEqual({
      repairs: [],
      value: JSON.parse(alice),
      content: alice,
      finishReason: 'stop',
      usage: { promptTokens: 5, completionTokens: 3, totalTokens: 8 },
      model: 'test-model',
      outputMode: mode,
      calls: 1,
    })
  })

  it('shows the schema as a schema with that option', async () => {
    await ask(await openAi(says(alice)), { mode: 'text-based', schema: S, as: 'schema' })
    const [before, shown] = sent().user.split('Your JSON object should match this JSON schema:\n')
    expect(before).toBe(`${instruction}\n\n`)
    expect(JSON.parse(shown!)).toEqual(S)
    expect(shown).toContain('\n  "')
  })

  it.each([
    ['ollama', S],
    ['ollama_oo', 'json'],
  ] as const)("%s on Ollama's own API", async (mode, format) => {
    const answer = await ask(await ollama(ollamaSays(alice)), { mode, schema: S, schemaStrict: true })
    expect(sent().format).toEqual(format)
    expect(server.requests[0]!.text).not.toContain('strict')
    expect(answer).toMatchObject({ value: JSON.parse(alice), outputMode: mode, calls: 1 })
  })

  it('makes the same bytes of the same schema in another order', async () => {
    const { type, properties, required } = S
    const llm = await openAi(says(alice))
    for (const mode of ['text-based', 'openai', 'native', 'fallback'] as const) {
      await ask(llm, { mode, schema: S, as: 'schema' })
      await ask(llm, { mode, schema: { required, properties, type }, as: 'schema' })
    }
    const texts = server.requests.map(({ text }) => text)
    for (let index = 0; index < texts.length; index += 2) expect(texts[index + 1]).toBe(texts[index])
  })
})

describe('auto', () => {
  it.each([
    ['openai', openAi, says],
    ['ollama', ollama, ollamaSays],
  ] as const)('is %s on such a server', async (mode, open, reply) => {
    expect((await ask(await open(reply(alice)), { mode: 'auto', schema: S })).outputMode).toBe(mode)
  })

  it("is the model's own mode when it has one, and text-based when its kind says nothing", async () => {
    const llm = await openAi(says(alice))
    const mode = async (more: object) =>
      (await ask({ ...llm, ...more }, { mode: 'auto', schema: S })).outputMode
    expect(await mode({ jsonType: 'openai_oo' })).toBe('openai_oo')
    expect(await mode({ jsonType: 'auto' })).toBe('openai')
    expect(await mode({ jsonType: 'ellmer' })).toBe('openai')
    expect(await mode({ jsonFormat: false })).toBe('text-based')
  })

  it('continues with text when the server refuses, and when it can only give objects', async () => {
    const refusal = { status: 400, body: { error: { message: 'response_format is not supported' } } }
    const llm = await openAi(refusal, says(alice), says(alice), says('["x"]'))
    expect((await ask(llm, { mode: 'auto', schema: S })).outputMode).toBe('text-based')
    expect((await ask(llm, { mode: 'auto', schema: S })).outputMode).toBe('text-based')
    const list = { type: 'array', items: { type: 'string' } }
    expect(await ask(llm, { mode: 'auto', schema: list })).toMatchObject({
      value: ['x'],
      outputMode: 'text-based',
    })
    expect(server.requests).toHaveLength(4)
  })

  it('warns once for each model, and not at all with that option', async () => {
    const onWarning = vi.fn()
    const llm = await openAi(says(alice))
    await answerJson({ llm, messages, signal, mode: 'auto', schema: S, onWarning, warnAuto: false })
    expect(onWarning).not.toHaveBeenCalled()
    await answerJson({ llm, messages, signal, mode: 'openai', schema: S, onWarning })
    expect(onWarning).not.toHaveBeenCalled()
    for (let n = 0; n < 2; n++)
      await answerJson({ llm, messages, signal, mode: 'auto', schema: S, onWarning })
    expect(onWarning).toHaveBeenCalledOnce()
    expect(onWarning.mock.calls[0]![0]).toMatch(/auto.*openai.*text-based always works/)
  })
})

describe('without a mode', () => {
  it('is native with a schema, by the rule for strict and under a name', async () => {
    for (const [more, strict] of [
      [{ title: 'Person', additionalProperties: false }, true],
      [{ title: 'Person' }, false],
    ] as const) {
      const answer = await ask(await openAi(says(alice)), { schema: { ...S, ...more } })
      expect(answer.outputMode).toBe('native')
      expect(sent().response_format).toEqual({
        type: 'json_schema',
        json_schema: { name: 'Person', schema: { ...S, ...more }, strict },
      })
    }
    expect(sent().user).toBe('Who?')
  })

  it('falls back when the server refuses, and remembers it', async () => {
    const refusal = { status: 400, body: { error: { message: 'unknown field', param: 'response_format' } } }
    const llm = await openAi(refusal, says(alice), says(alice))
    const first = await ask(llm, { schema: S })
    const second = await ask(llm, { schema: S })
    expect([first.outputMode, second.outputMode]).toEqual(['fallback', 'fallback'])
    expect(sent(1).system).toMatch(/^Be kind\.\n\n.*"properties"/s)
    expect(server.requests).toHaveLength(3)
  })

  it('falls back on Ollama, too', async () => {
    const refusal = { status: 500, body: { error: 'invalid JSON schema in format' } }
    const answer = await ask(await ollama(refusal, ollamaSays(alice)), { schema: S })
    expect(answer).toMatchObject({ outputMode: 'fallback', calls: 1 })
  })

  it('does not remember a refusal that was about something else', async () => {
    const refusal = { status: 400, body: { error: { message: 'no json_schema, no anything' } } }
    const llm = await openAi(refusal, refusal, says(alice))
    await expect(ask(llm, { schema: S })).rejects.toMatchObject({ category: 'provider_invalid_request' })
    expect((await ask(llm, { schema: S })).outputMode).toBe('native')
  })

  it('asks in words for what a server cannot constrain', async () => {
    const answer = await ask(await openAi(says('[1,2]')), {
      schema: { type: 'array', items: { type: 'integer' } },
    })
    expect(answer).toMatchObject({ outputMode: 'fallback', value: [1, 2] })
  })

  it('asks for nothing without a schema, and takes any JSON', async () => {
    const answer = await ask(await openAi(says('It is [1, 2].')), {})
    expect(answer).toMatchObject({ outputMode: 'plain', value: [1, 2] })
    expect(sent()).toMatchObject({ user: 'Who?', response_format: undefined })
  })
})

describe('a server that does not take `strict`', () => {
  const closed = { ...S, additionalProperties: false } as const
  const refused = (message: string): Scripted => ({
    status: 400,
    body: { error: { message, param: 'response_format' } },
  })
  const formats = () => server.requests.map(({ json }) => strictOf(json))
  const strictOf = (json: Record<string, unknown>) =>
    (json['response_format'] as { json_schema: { strict: boolean } } | undefined)?.json_schema.strict

  it('is asked without it, for this schema from then on, and that is noted once', async () => {
    const notes: string[] = []
    const onNote = (note: string) => notes.push(note)
    const llm = await openAi(
      refused("Invalid schema: 'minimum' is not permitted"),
      says(alice),
      says(alice),
      says(alice),
    )
    for (let n = 0; n < 2; n++)
      expect(await ask(llm, { schema: closed, onNote })).toMatchObject({ outputMode: 'native', calls: 1 })
    await ask(llm, { schema: { ...closed, title: 'another' }, onNote })
    expect(formats()).toEqual([true, false, false, true])
    expect(notes).toEqual([expect.stringMatching(/does not take the schema.*without `strict`/)])
  })

  it('is asked in the prompt when it refuses the schema without it too', async () => {
    const notes: string[] = []
    const onNote = (note: string) => notes.push(note)
    const refusal = refused('Invalid schema for response_format: strict is not supported')
    const llm = await openAi(refusal, refusal, says(alice), says(alice))
    for (let n = 0; n < 2; n++)
      expect((await ask(llm, { schema: closed, onNote })).outputMode).toBe('fallback')
    expect(formats()).toEqual([true, false, undefined, undefined])
    expect(sent(2).system).toContain('"properties"')
    expect(notes).toEqual([expect.stringMatching(/asked in the prompt/)])
  })

  it('keeps a mode that the caller named', async () => {
    const llm = await openAi(refused('strict: unknown'), says(alice))
    expect(await ask(llm, { schema: closed, mode: 'native' })).toMatchObject({ outputMode: 'native' })
    expect(formats()).toEqual([true, false])
  })

  it('is not asked without it for what has nothing to do with it', async () => {
    for (const message of [
      'Unknown field: response_format',
      'the grammar is too large',
      'response_format is unavailable',
    ]) {
      const llm = await openAi(refused(message), says(alice))
      expect((await ask(llm, { schema: closed })).outputMode).toBe('fallback')
      expect(formats()).toEqual([true, undefined])
      await server.close()
    }
  })
})

describe('a server that ignores the format that it is asked for', () => {
  it.each([
    ['OpenAI', () => openAi(says('It is Alice, aged 30.'), says(alice), says(alice)), 'response_format'],
    [
      'Ollama',
      () => ollama(ollamaSays('It is Alice, aged 30.'), ollamaSays(alice), ollamaSays(alice)),
      'format',
    ],
  ])('is asked in the prompt, from then on, which is noted once: %s', async (_, open, field) => {
    const notes: string[] = []
    const onNote = (note: string) => notes.push(note)
    const llm = await open()
    expect(await ask(llm, { schema: S, onNote })).toMatchObject({ outputMode: 'fallback', calls: 2 })
    const other = { ...S, title: 'another' }
    expect(await ask(llm, { schema: other, onNote })).toMatchObject({ outputMode: 'fallback', calls: 1 })
    expect(server.requests.map(({ json }) => field in json)).toEqual([true, false, false])
    expect(sent(1).system).toContain('"properties"')
    expect(notes).toEqual([expect.stringMatching(/does not keep to the JSON/)])
  })

  it('is known also when no further call followed', async () => {
    const llm = await openAi(says('Alice.'), says(alice))
    const first = ask(llm, { schema: S, reask: 0 })
    await expect(first).rejects.toMatchObject({ code: 'reply_not_json' })
    expect((await ask(llm, { schema: S, reask: 0 })).outputMode).toBe('fallback')
  })

  it.each([
    ['broken JSON', says('{"name": "Alice" "age": }')],
    ['a refusal', says("I'm sorry, I can't help with that.")],
    ['a cut reply', says('Let me', 'length')],
    ['JSON that fails the schema', says('{"name":"Alice"}')],
  ])('is not suspected for %s', async (_, reply) => {
    const llm = await openAi(reply, says(alice))
    expect((await ask(llm, { schema: S })).outputMode).toBe('native')
    expect(server.requests[1]!.json).toHaveProperty('response_format')
  })

  it('is not blamed when the model does not write JSON in any way', async () => {
    const llm = await openAi(says('no'), says('no'), says(alice))
    await expect(ask(llm, { schema: S })).rejects.toMatchObject({ code: 'reply_not_json' })
    expect((await ask(llm, { schema: S })).outputMode).toBe('native')
  })
})

describe('a reply that cannot be used', () => {
  const feedback = (index = 1) => sent(index).more as { role: string; content: string }[]

  it('is answered, when it is not JSON', async () => {
    const answer = await ask(await openAi(says('I am Alice.'), says(alice)), {
      mode: 'text-based',
      schema: S,
    })
    expect(feedback()).toEqual([
      { role: 'assistant', content: 'I am Alice.' },
      { role: 'user', content: 'You must respond as a valid JSON object.' },
    ])
    expect(answer).toMatchObject({
      calls: 2,
      usage: { promptTokens: 10, completionTokens: 6, totalTokens: 16 },
    })
  })

  it('is answered with a table and the schema of the prompt, when it fails', async () => {
    await ask(await openAi(says('{"name":"Alice","age":"x"}'), says(alice)), {
      mode: 'text-based',
      schema: S,
    })
    expect(feedback()[1]!.content).toBe(
      `Your response did not match the expected JSON schema.\n\ninstancePath, message\n/age, must be integer${byExample}`,
    )
  })

  it('is answered without the schema when the prompt did not have it', async () => {
    await ask(await openAi(says('{"name":"Alice"}'), says(alice)), { mode: 'openai', schema: S })
    expect(feedback()[1]!.content).toMatch(
      /^Your response did not match the expected JSON schema\.\n\ninstancePath, message\n\/, .*age'?$/,
    )
  })

  it('ends in an error with the last output, after the last reply was evaluated', async () => {
    const llm = await openAi(says('one'), says('{"name":"two"}', 'length'))
    const thrown: unknown = await ask(llm, { mode: 'openai', schema: S }).catch((error) => error)
    expect(thrown).toBeInstanceOf(StructuredOutputInvalid)
    expect(thrown).toMatchObject({
      outputContent: '{"name":"two"}',
      finishReason: 'length',
      responseSchema: S,
      category: 'structured_output_invalid',
    })
    expect(server.requests).toHaveLength(2)
  })

  it('is answered as often as the option says, or not at all', async () => {
    const llm = await openAi(says('no'))
    await expect(ask(llm, { schema: S, reask: 0 })).rejects.toThrow(StructuredOutputInvalid)
    expect(server.requests).toHaveLength(1)
    await expect(ask(llm, { schema: S, reask: 3 })).rejects.toThrow(StructuredOutputInvalid)
    expect(server.requests).toHaveLength(5)
    expect(feedback(4)).toHaveLength(6)
  })

  it('is asked for again with twice the limit when the limit cut it off, and not when the limit is not known', async () => {
    const llm = await openAi(says('{"name":"Al', 'length'), says(alice))
    const answer = await ask(llm, { mode: 'text-based', schema: S, sampling: { maxTokens: 7 } } as More)
    expect(answer.calls).toBe(2)
    expect(server.requests.map(({ json }) => json['max_tokens'])).toEqual([7, 14])
    await server.close()
    const uncounted = await openAi(
      { events: [chunk({ content: '{"name":"Al' }, 'length'), '[DONE]'] },
      says(alice),
    )
    await ask(uncounted, { mode: 'text-based', schema: S, sampling: { maxTokens: 7 } } as More)
    expect(server.requests.map(({ json }) => json['max_tokens'])).toEqual([7, 14])
    await server.close()
    const loop = `{"name":"${'Al of '.repeat(9000)}`
    const looping = await openAi(says(loop), says(alice))
    await expect(ask(looping, { mode: 'text-based', schema: S })).rejects.toMatchObject({
      code: 'repetition',
      finishReason: 'length',
    })
    expect(server.requests).toHaveLength(1)
  })

  it('is the only failure that is tried again', async () => {
    const llm = await openAi({ status: 503, body: {} }, says(alice))
    await expect(ask(llm, { schema: S })).rejects.toMatchObject({ category: 'provider_unavailable' })
    expect(server.requests).toHaveLength(1)
  })
})

describe('bad input', () => {
  it('says of the mode of an R package that it does not exist outside of R', async () => {
    const llm = await openAi(says(alice))
    await expect(ask(llm, { mode: 'ellmer' } as unknown as More)).rejects.toThrow(
      /no mode ellmer; .*ellmer .*does not exist outside of R\.$/,
    )
  })

  it.each([
    ['a mode that does not exist', { mode: 'ellmer' }],
    ['a way to show a schema that does not exist', { as: 'picture' }],
    ['an empty schema', { schema: {} }],
    ['a schema that is a list', { schema: [] }],
    ['a negative number of reasks', { reask: -1 }],
  ])('%s: is a TypeError before anything is sent', async (_, more) => {
    const llm = await openAi(says(alice))
    await expect(ask(llm, more as More)).rejects.toThrow(TypeError)
    expect(server.requests).toHaveLength(0)
  })

  it.each([
    ['no schema', { schema: { type: 'thing' } }, '/type'],
    [
      'a reference to nowhere',
      { schema: { type: 'object', properties: { a: { $ref: '#/gone' } } } },
      '/properties/a',
    ],
    [
      'no object at its root, when the mode gives only objects',
      { mode: 'openai', schema: { type: 'array' } },
      '/type',
    ],
  ])('%s: is refused before anything is sent, with its place', async (_, more, place) => {
    const llm = await openAi(says(alice))
    const thrown: unknown = await ask(llm, more as More).catch((error) => error)
    expect(thrown).toBeInstanceOf(ProviderError)
    expect(thrown).toMatchObject({ code: 'schema_invalid', details: { place } })
    expect(server.requests).toHaveLength(0)
  })

  it("refuses an extra that contradicts the mode's own", async () => {
    const llm = await openAi(says(alice))
    const extras = { response_format: { type: 'text' } }
    await expect(ask(llm, { mode: 'openai', schema: S, extras })).rejects.toMatchObject({
      category: 'provider_invalid_request',
    })
    expect(server.requests).toHaveLength(0)
  })

  it('stops a model that continues in white space, and a reply without end', async () => {
    const spaces = (n: number) => chunk({ content: ' '.repeat(n) })
    const endless = (first: string): Scripted => ({
      by: (response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.write(`data: ${JSON.stringify(chunk({ content: first }))}\n\n`)
        for (let n = 0; n < 6; n++) response.write(`data: ${JSON.stringify(spaces(1000))}\n\n`)
      },
    })
    const llm = await openAi(endless(alice), endless('{'), says('x'.repeat(100)))
    expect(await ask(llm, { schema: S })).toMatchObject({ value: JSON.parse(alice), finishReason: 'length' })
    await expect(ask(llm, { schema: S, reask: 0 })).rejects.toMatchObject({ code: 'repetition' })
    const thrown: unknown = await ask(llm, { schema: S, maxCharacters: 50 }).catch((error) => error)
    expect(thrown).toMatchObject({ code: 'reply_not_json', category: 'structured_output_invalid' })
    expect(server.requests).toHaveLength(3)
  })

  it('ends when it is aborted', async () => {
    const llm = await openAi({ by: () => {} })
    const stop = new AbortController()
    const call = answerJson({ llm, messages, schema: S, signal: stop.signal })
    await server.until(1)
    stop.abort()
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
  })
})

describe('a wrapped schema', () => {
  it.each([
    [
      'response_format',
      { response_format: { type: 'json_schema', json_schema: { name: 'x', schema: S, strict: true } } },
      true,
    ],
    ['json_schema', { json_schema: { name: 'x', schema: S, strict: false } }, false],
    ['a name beside it', { name: 'x', schema: S, strict: true }, true],
    ['strict outside only', { strict: true, json_schema: { name: 'x', schema: S } }, true],
    ['nothing', S, undefined],
    ['nothing, beside a keyword of its own named schema', { ...S, schema: { type: 'string' } }, undefined],
  ])('is found in %s', (_, given, strict) => {
    const found = unwrapped(given as JsonSchema)
    expect(found.strict).toBe(strict)
    expect(found.schema).toMatchObject(S)
  })

  it('is sent without its wrapper, with its strict unless the option says otherwise', async () => {
    const llm = await openAi(says(alice))
    const schema = { name: 'x', schema: S, strict: true }
    await ask(llm, { mode: 'openai', schema })
    await ask(llm, { mode: 'openai', schema, schemaStrict: false })
    expect(server.requests.map(({ json }) => json['response_format'])).toEqual([
      { ...byApi, json_schema: { ...byApi.json_schema, strict: true } },
      byApi,
    ])
  })
})

describe('the example of a schema', () => {
  it.each([
    [
      'an object, with properties that are not required',
      { type: 'object', properties: { a: { type: 'string' }, b: { type: 'number' } }, required: [] },
      { a: '...', b: 123.45 },
    ],
    ['a list', { type: 'array', items: { type: 'integer' } }, [123]],
    ['a boolean', { type: 'boolean' }, true],
    ['an enum', { type: 'string', enum: ['a', 'b'] }, 'a|b'],
    ['an enum of one', { type: 'string', enum: ['a'] }, 'a'],
    ['an enum of numbers', { enum: [1, 2] }, 1],
    ['its own example', { type: 'string', example: 'Alice' }, 'Alice'],
    ['a constant', { const: 'x' }, 'x'],
    ['a type that may be null', { type: ['null', 'string'] }, '...'],
    ['null', { type: 'null' }, null],
    ['branches', { anyOf: [{ type: 'null' }, { type: 'integer' }] }, 123],
    [
      'all parts together',
      { allOf: [{ properties: { a: { const: 1 } } }, { properties: { b: { const: 2 } } }] },
      { a: 1, b: 2 },
    ],
    ['a reference', { $ref: '#/$defs/a', $defs: { a: { type: 'integer' } } }, 123],
    ['a reference to nowhere', { $ref: '#/$defs/a' }, '...'],
    ['nothing', {}, '...'],
  ])('%s', (_, schema, expected) => {
    expect(exampleOf(schema)).toEqual(expected)
  })

  it('ends for a schema that contains itself', () => {
    const tree = { type: 'object', properties: { next: { $ref: '#' } } }
    expect(JSON.stringify(exampleOf(tree))).toMatch(/"\.\.\."\}+$/)
    expect(exampleOf({ $ref: '#' })).toBe('...')
  })
})
