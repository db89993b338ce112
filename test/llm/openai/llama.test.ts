// A real server besides the scripted ones: the tests assert protocol and schema, never the model's text.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Parser } from 'n3'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { complete } from '../../../src/complete/complete.ts'
import { createOpenAiProvider } from '../../../src/complete/openai/openai.ts'
import { textOf } from '../../../src/complete/provider.ts'
import { jsonFromReply } from '../../../src/items/json-reply.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../../src/llm/llm.ts'
import { createOpenAi, onlyModel } from '../../../src/llm/openai/openai.ts'
import { graphmill } from '../../support/command.ts'
import { installLlama, type LlamaServer, startLlamaServer } from '../../support/llama-server.ts'

const installation = await installLlama("llama.cpp's server")

const never = new AbortController().signal
const user = (content: string) => [{ role: 'user', content } as const]

async function read(llm: Llm, request: CompletionRequest, signal = never) {
  const events: CompletionEvent[] = []
  for await (const event of llm.stream(request, signal)) events.push(event)
  const end = events.at(-1)
  if (end?.type !== 'end') throw new Error('the stream has no end')
  const text = events.map((event) => (event.type === 'delta' ? event.text : '')).join('')
  return { events, text, end }
}

describe.skipIf(!installation)("llama.cpp's server", { timeout: 60_000 }, () => {
  let server: LlamaServer
  let llm: Llm
  beforeAll(async () => {
    server = await startLlamaServer(installation!, { contextTokens: 2048 })
    llm = createOpenAi({ baseUrl: server.url, model: server.model })
  })
  afterAll(() => server.close())
  const provider = () => createOpenAiProvider({ baseUrl: server.url, model: server.model })

  test('is ready, and lists its one model', async () => {
    await llm.ready(never)
    expect(await onlyModel({ baseUrl: server.url }, never)).toBe(server.model)
  })

  test('answers whole, with usage and its own name of the model', async () => {
    const response = await complete(provider(), { messages: user('Say hello.'), config: { maxTokens: 8 } })
    expect(textOf(response.message)).not.toBe('')
    expect(['stop', 'length']).toContain(response.finishReason)
    expect(response.model).toBe(server.model)
    expect(response.parsed).toBeUndefined()
    const { promptTokens, completionTokens, totalTokens } = response.usage
    expect(completionTokens).toBeGreaterThan(0)
    expect(totalTokens).toBe(promptTokens! + completionTokens!)
  })

  test('streams deltas, then one end with usage', async () => {
    const { events, text, end } = await read(llm, {
      messages: user('Say hello.'),
      sampling: { maxTokens: 8, temperature: 0 },
    })
    expect(events.filter(({ type }) => type === 'end')).toHaveLength(1)
    expect(events.length).toBeGreaterThan(2)
    expect(text).not.toBe('')
    expect(end).toMatchObject({ model: server.model })
    expect(end.usage.totalTokens).toBe(end.usage.promptTokens! + end.usage.completionTokens!)
  })

  test('ends with length at the token limit, streamed and whole', async () => {
    const messages = user('Write a long story.')
    const { end } = await read(llm, { messages, sampling: { maxTokens: 4 } })
    expect(end).toMatchObject({ finishReason: 'length', usage: { completionTokens: 4 } })
    const whole = await complete(provider(), { messages, config: { maxTokens: 4 } })
    expect(whole).toMatchObject({ finishReason: 'length', usage: { completionTokens: 4 } })
  })

  test('writes a JSON object, or its beginning, when response_format asks for one', async () => {
    const { text, end } = await read(llm, {
      messages: user('What is a cat?'),
      sampling: { maxTokens: 48, temperature: 0 },
      extras: { response_format: { type: 'json_object' } },
    })
    const found = jsonFromReply(text)
    if (end.finishReason === 'stop') expect(found).toMatchObject({ value: expect.any(Object) })
    else expect([text.trimStart()[0], 'truncated' in found && found.truncated]).toEqual(['{', true])
  })

  test('writes a value of the schema, natively', async () => {
    const responseSchema = {
      type: 'object',
      properties: { colour: { enum: ['red', 'green', 'blue'] }, dark: { type: 'boolean' } },
      required: ['colour', 'dark'],
      additionalProperties: false,
    } as const
    for (const stream of [false, true]) {
      const request = { messages: user('Choose a colour.'), responseSchema, config: { maxTokens: 64 } }
      const { parsed, outputMode, finishReason } = await complete(provider(), request, { stream })
      expect({ outputMode, finishReason }).toEqual({ outputMode: 'native', finishReason: 'stop' })
      expect(['red', 'green', 'blue']).toContain(parsed.colour)
      expect([true, false]).toContain(parsed.dark)
    }
  })

  test('follows a grammar of the caller, and refuses an invalid one', async () => {
    const asked = { messages: user('Is chalk a rock?'), sampling: { maxTokens: 16 } }
    const { text, end } = await read(llm, {
      ...asked,
      extras: { grammar: 'root ::= "yes, " ("chalk" | "rock")' },
    })
    expect(text).toMatch(/^yes, (chalk|rock)$/)
    expect(end.finishReason).toBe('stop')
    await expect(read(llm, { ...asked, extras: { grammar: 'root ::= (' } })).rejects.toMatchObject({
      code: 'llm_request_invalid',
    })
  })

  test('refuses a prompt that is longer than its context', async () => {
    const messages = user('chalk '.repeat(4000))
    await expect(read(llm, { messages })).rejects.toMatchObject({ code: 'context_overflow' })
    await expect(complete(provider(), { messages })).rejects.toMatchObject({ code: 'context_overflow' })
  })

  test.each([
    ['aborted', (cancel: AbortController) => cancel.abort(new Error('enough'))],
    ['left', () => {}],
  ])('serves the next request within two seconds when a stream was %s', async (_, leave) => {
    const cancel = new AbortController()
    const long = {
      messages: user('Write a very long story.'),
      sampling: { maxTokens: 1900 },
      extras: { ignore_eos: true },
    }
    await (async () => {
      for await (const event of llm.stream(long, cancel.signal))
        if (event.type === 'delta') return leave(cancel)
    })()
    const left = performance.now()
    await read(llm, { messages: user('Hi'), sampling: { maxTokens: 1 } })
    expect(performance.now() - left).toBeLessThan(2000)
  })

  test('is enough for a whole extract', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-llama-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const document = join(folder, 'mill.txt')
    await writeFile(
      document,
      'A mill is a machine that grinds grain. The miller works in the mill by the river.',
    )
    const env = { OPENAI_BASE_URL: server.url }
    const { code, stdout, stderr } = await graphmill(['extract', document, '--llm-timeout', '60'], { env })
    expect(stderr).toContain(`the text goes to openai ${server.model} at ${server.url}`)
    expect(stderr).toMatch(/chunks +1 /)
    expect([0, 3]).toContain(code)
    // The text is arbitrary, but the output is RDF.
    expect(new Parser({ format: 'N-Quads' }).parse(stdout)).toEqual(expect.any(Array))
  })
})
