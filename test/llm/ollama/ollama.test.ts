// Ollama's own API, against a real HTTP server: requests, replies, and every kind of failure.
// N1 to N16 are the cases of the reference for streams of NDJSON.
import { getEventListeners } from 'node:events'
import { afterEach, describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import type { CompletionEvent, CompletionRequest } from '../../../src/llm/llm.ts'
import {
  createOllama,
  listOllamaModels,
  type OllamaOptions,
  onlyOllamaModel,
} from '../../../src/llm/ollama/ollama.ts'
import {
  line,
  type OllamaAnswer,
  type OllamaScript,
  type OllamaServer,
  refusal,
  startOllamaServer,
} from '../../support/ollama-server.ts'

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }

let server: OllamaServer
let warnings: string[]
afterEach(() => server?.close())

async function scripted(script: OllamaScript = {}, options: Partial<OllamaOptions> = {}) {
  server = await startOllamaServer(script)
  warnings = []
  const onWarning = (message: string) => void warnings.push(message)
  return createOllama({ host: server.host, model: 'test-model', onWarning, ...options })
}

const sending = (...chunks: OllamaAnswer['chunks']) => scripted({ answer: { chunks } })

async function collect(events: AsyncIterable<CompletionEvent>) {
  const deltas: [kind: string, text: string][] = []
  const ends: Extract<CompletionEvent, { type: 'end' }>[] = []
  for await (const event of events)
    if (event.type === 'delta') deltas.push([event.kind, event.text])
    else ends.push(event)
  const text = (kind: string) => deltas.map(([of, part]) => (of === kind ? part : '')).join('')
  expect(ends).toHaveLength(1)
  return { content: text('content'), reasoning: text('reasoning'), deltas, end: ends[0]! }
}

/** The events before a failure, and the failure. */
async function failing(events: AsyncIterable<CompletionEvent>) {
  const deltas: string[] = []
  try {
    for await (const event of events) {
      expect(event.type).toBe('delta')
      if (event.type === 'delta') deltas.push(event.text)
    }
  } catch (error) {
    expect(error).toBeInstanceOf(GraphmillError)
    return { deltas, error: error as GraphmillError }
  }
  throw new Error('It did not fail.')
}

const says = (content: string) => line({ model: 'm', message: { role: 'assistant', content }, done: false })
const done = (fields: object = { done_reason: 'stop' }) =>
  line({ model: 'm', message: { role: 'assistant', content: '' }, done: true, ...fields })

describe('a request', () => {
  it('has the context length, and no sampling parameter that was not set', async () => {
    const llm = await scripted()
    await collect(llm.stream(question, never))
    expect(server.requests).toEqual([
      {
        method: 'POST',
        path: '/api/chat',
        contentType: 'application/json',
        body: {
          model: 'test-model',
          messages: question.messages,
          stream: true,
          truncate: false,
          shift: false,
          options: { num_ctx: 8192 },
        },
      },
    ])
  })

  it('has sampling parameters, format and thinking', async () => {
    const format = { type: 'object', properties: { z: {}, a: {} } }
    const llm = await scripted({}, { numCtx: 2048, think: true, format: 'json' })
    const sampling = { temperature: 0, maxTokens: 5, topP: 0.9, seed: 7, stop: ['###'] }
    await collect(llm.stream({ ...question, sampling }, never))
    await collect(llm.stream({ ...question, extras: { format, think: 'low', keep_alive: '5m' } }, never))
    const [first, second] = server.requests.map(({ body }) => body)
    expect(first).toMatchObject({
      think: true,
      format: 'json',
      options: { num_ctx: 2048, temperature: 0, num_predict: 5, top_p: 0.9, seed: 7, stop: ['###'] },
    })
    expect(second).toMatchObject({ think: 'low', format, keep_alive: '5m', options: { num_ctx: 2048 } })
    expect(JSON.stringify(second?.['format'])).toBe(JSON.stringify(format))
  })

  it('joins further options with its own, and does not change its arguments', async () => {
    const llm = await scripted()
    const request: CompletionRequest = {
      ...question,
      sampling: { seed: 1, stop: ['a', 'b'] },
      extras: { options: { num_ctx: 512, top_k: 3, seed: 1, stop: ['b', 'c'] } },
    }
    const before = structuredClone(request)
    await collect(llm.stream(request, never))
    expect(request).toEqual(before)
    expect(server.requests[0]!.body!.options).toEqual({
      num_ctx: 512,
      top_k: 3,
      seed: 1,
      stop: ['a', 'b', 'c'],
    })
  })

  it.each<[string, Partial<CompletionRequest>]>([
    ['another model', { extras: { model: 'other' } }],
    ['no stream', { extras: { stream: false } }],
    ['another temperature', { sampling: { temperature: 0 }, extras: { options: { temperature: 1 } } }],
    ['options that are no object', { extras: { options: [1] } }],
  ])('with %s among the extras is refused unsent', async (_, fields) => {
    const llm = await scripted()
    const { error } = await failing(llm.stream({ ...question, ...fields }, never))
    expect(error).toMatchObject({
      code: 'llm_request_invalid',
      details: { category: 'provider_invalid_request' },
    })
    expect(server.requests).toHaveLength(0)
  })

  it('goes to /api/generate on request', async () => {
    const llm = await scripted({ text: 'A machine.', thinking: 'Hm.' }, { api: 'generate' })
    const system = { role: 'system', content: 'Be short.' } as const
    const reply = await collect(llm.stream({ messages: [system, ...question.messages] }, never))
    expect(reply).toMatchObject({ content: 'A machine.', reasoning: 'Hm.', end: { finishReason: 'stop' } })
    expect(server.requests[0]).toMatchObject({
      path: '/api/generate',
      body: { system: 'Be short.', prompt: 'What is a mill?', options: { num_ctx: 8192 } },
    })
    const { error } = await failing(
      llm.stream({ messages: [...question.messages, ...question.messages] }, never),
    )
    expect(error.code).toBe('llm_request_invalid')
    expect(server.requests).toHaveLength(1)
  })
})

describe('a reply', () => {
  it('comes as deltas, then one end with finish reason, usage and model', async () => {
    const llm = await scripted({ text: 'A machine.' })
    const { deltas, end } = await collect(llm.stream(question, never))
    expect(deltas).toEqual([
      ['content', 'A ma'],
      ['content', 'chin'],
      ['content', 'e.'],
    ])
    expect(end).toMatchObject({
      finishReason: 'stop',
      usage: { promptTokens: 4, completionTokens: 3, totalTokens: 7 },
      model: 'test-model',
      raw: { done: true, done_reason: 'stop', created_at: '2026-01-01T00:00:00.3255Z' },
    })
  })

  it('keeps thinking apart from content', async () => {
    const llm = await scripted({ thinking: 'Let me think.', text: 'It is 42.' })
    expect(await collect(llm.stream(question, never))).toMatchObject({
      reasoning: 'Let me think.',
      content: 'It is 42.',
    })
  })

  it('reports that it was cut at the output limit', async () => {
    const llm = await scripted({ text: 'a reply that is longer' })
    const { content, end } = await collect(llm.stream({ ...question, sampling: { maxTokens: 2 } }, never))
    expect({ content, reason: end.finishReason }).toEqual({ content: 'a reply ', reason: 'length' })
  })

  it.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['load', 'error'],
    ['unload', 'error'],
    [undefined, 'error'],
    ['some_new_reason', 'error'],
  ])('ends with %s as %s', async (said, expected) => {
    const llm = await sending(says('x'), done({ done_reason: said }))
    expect((await collect(llm.stream(question, never))).end.finishReason).toBe(expected)
  })

  it('reports that it calls tools', async () => {
    const call = line({
      message: { role: 'assistant', content: '', tool_calls: [{ function: {} }] },
      done: false,
    })
    const llm = await sending(call, done())
    expect((await collect(llm.stream(question, never))).end.finishReason).toBe('tool_calls')
  })

  it.each<[string, object, (number | null)[]]>([
    ['all counts', { prompt_eval_count: 3, eval_count: 4, total_duration: 1 }, [3, 4, 7]],
    ['no eval_count, which is 0', { prompt_eval_count: 3 }, [3, 0, 3]],
    ['no eval_count beside a duration', { total_duration: 5 }, [null, 0, null]],
    ['no prompt_eval_count, which is unknown', { eval_count: 4 }, [null, 4, null]],
    ['no metric at all', {}, [null, null, null]],
    ['malformed counts', { prompt_eval_count: 'x', eval_count: -1, total_duration: 5 }, [null, null, null]],
  ])('reads a usage of %s', async (_, metrics, [promptTokens, completionTokens, totalTokens]) => {
    const llm = await sending(done({ done_reason: 'stop', ...metrics }))
    const { end } = await collect(llm.stream(question, never))
    expect(end.usage).toEqual({ promptTokens, completionTokens, totalTokens })
  })

  it('may be in the last record, as from a server that does not stream', async () => {
    const whole = JSON.stringify({
      model: 'm',
      message: { content: 'All.', thinking: 'Hm.' },
      done: true,
      done_reason: 'stop',
    })
    const llm = await scripted({ answer: { contentType: 'application/json', chunks: [whole] } })
    expect(await collect(llm.stream(question, never))).toMatchObject({ content: 'All.', reasoning: 'Hm.' })
  })
})

describe('a stream of records', () => {
  it('N1 keeps a character that is split over packets', async () => {
    const bytes = Buffer.from(says('café') + done())
    const cut = bytes.indexOf(0xc3) + 1
    const llm = await sending(bytes.subarray(0, cut), bytes.subarray(cut))
    expect((await collect(llm.stream(question, never))).content).toBe('café')
  })

  it('N2 keeps a character of four bytes in four packets', async () => {
    const bytes = Buffer.from(says('😀') + done())
    const at = bytes.indexOf(0xf0)
    const one = (offset: number) => bytes.subarray(at + offset, at + offset + 1)
    const llm = await sending(bytes.subarray(0, at), one(0), one(1), one(2), one(3), bytes.subarray(at + 4))
    expect((await collect(llm.stream(question, never))).content).toBe('😀')
  })

  it('N3 reads \\r\\n, split between the two, as one line end', async () => {
    const llm = await sending(says('a').replace('\n', '\r'), `\n${says('b')}`, done())
    expect((await collect(llm.stream(question, never))).deltas.map(([, text]) => text)).toEqual(['a', 'b'])
    expect(warnings).toEqual([])
  })

  it('N4 reads a record that is split over packets', async () => {
    const record = says('b')
    const llm = await sending(says('a') + record.slice(0, 9), record.slice(9) + done())
    expect((await collect(llm.stream(question, never))).deltas.map(([, text]) => text)).toEqual(['a', 'b'])
  })

  it('N5 is the same in one packet, byte by byte, and cut anywhere', async () => {
    const bytes = Buffer.from(
      `${says('é😀')}\r\n${says('\\"}')}${done({ done_reason: 'length', eval_count: 2 })}`,
    )
    const llm = await sending(bytes)
    const expected = await collect(llm.stream(question, never))
    expect(expected).toMatchObject({ content: 'é😀\\"}', end: { finishReason: 'length' } })
    const splits = [...bytes.keys()].map((at) => [bytes.subarray(0, at), bytes.subarray(at)])
    for (const chunks of [...splits, [...bytes].map((byte) => Uint8Array.of(byte))]) {
      server.set({ answer: { chunks } })
      expect(await collect(llm.stream(question, never))).toEqual(expected)
    }
  })

  it('N6 accepts a complete last line without a line feed, and warns', async () => {
    const llm = await sending(says('a'), done().trimEnd())
    expect(await collect(llm.stream(question, never))).toMatchObject({
      content: 'a',
      end: { finishReason: 'stop' },
    })
    expect(warnings).toEqual([expect.stringContaining('did not end its last line')])
  })

  it('N7 that is cut in its last line broke off, and the deltas before it are kept', async () => {
    const llm = await sending(says('a'), says('b'), '{"model":"x","resp')
    const { deltas, error } = await failing(llm.stream(question, never))
    expect(deltas).toEqual(['a', 'b'])
    expect(error).toMatchObject({ code: 'llm_unavailable', details: { category: 'provider_unavailable' } })
  })

  it('N8 ends at an error, with its words', async () => {
    const llm = await sending(says('a'), says('b'), line({ error: 'boom' }), says('c'), done())
    const { deltas, error } = await failing(llm.stream(question, never))
    expect(deltas).toEqual(['a', 'b'])
    expect(error).toMatchObject({ code: 'llm_unavailable', details: { server: 'boom' } })
    expect(error.message).toContain('boom')
  })

  it('N9 that ends without `done` broke off', async () => {
    const llm = await sending(says('a'), says('b'))
    const { deltas, error } = await failing(llm.stream(question, never))
    expect({ deltas, code: error.code }).toEqual({ deltas: ['a', 'b'], code: 'llm_unavailable' })
  })

  it.each([
    ['in the same packet', [done() + says('late')]],
    ['in a later packet', [done(), '\n', says('late')]],
    ['that is an error', [done() + line({ error: 'late' })]],
    ['that is no JSON', [done(), 'late\n']],
  ])('N10 ignores a record behind the last one, %s, and says so', async (_, chunks) => {
    const llm = await sending(says('a'), ...chunks)
    expect(await collect(llm.stream(question, never))).toMatchObject({ deltas: [['content', 'a']] })
    expect(warnings).toEqual([expect.stringContaining('more after the end')])
  })

  it('N11 joins a surrogate pair that is split over deltas', async () => {
    const half = (code: string) => says('HALF').replace('HALF', code)
    const llm = await sending(half('a\\ud83d'), half('\\ude00b'), done())
    expect((await collect(llm.stream(question, never))).deltas.map(([, text]) => text)).toEqual(['a', '😀b'])
    expect(warnings).toEqual([])
    server.set({ answer: { chunks: [half('a\\ud83d'), done()] } })
    expect((await collect(llm.stream(question, never))).content).toBe('a\ufffd')
    expect(warnings).toEqual([expect.stringContaining('half of a character')])
  })

  it('N12 reads a line of 9 MB, and none above its limit', async () => {
    const long = 'x'.repeat(9_000_000)
    const llm = await sending(says(long), done())
    expect((await collect(llm.stream(question, never))).content).toHaveLength(9_000_000)
    const narrow = createOllama({ host: server.host, model: 'm', maxLine: 1_000_000 })
    const { error } = await failing(narrow.stream(question, never))
    expect(error).toMatchObject({
      code: 'llm_response_invalid',
      details: { category: 'provider_invalid_response' },
    })
  })

  it('N13 ignores blank lines', async () => {
    const llm = await sending('\n', says('a'), ' \t\r\n\n', done(), '\n\n')
    expect(await collect(llm.stream(question, never))).toMatchObject({ deltas: [['content', 'a']] })
    expect(warnings).toEqual([])
  })

  it('N16 turns bytes that are no UTF-8 into U+FFFD, and warns', async () => {
    const [before, after] = says('a|b').split('|')
    const llm = await sending(
      Buffer.concat([Buffer.from(before!), Buffer.of(0xff), Buffer.from(after!)]),
      done(),
    )
    expect((await collect(llm.stream(question, never))).content).toBe('a\ufffdb')
    expect(warnings).toEqual([expect.stringContaining('no UTF-8')])
  })

  it.each([
    ['a number', '5\n', 'llm_response_invalid'],
    ['an object of another kind', '{"hello":1}\n', 'llm_response_invalid'],
    ['nothing', '', 'llm_unavailable'],
  ])('of %s is no reply', async (_, text, code) => {
    const llm = await sending(text)
    const { error } = await failing(llm.stream(question, never))
    expect(error.code).toBe(code)
  })

  it('of a web page comes from a wrong address, in any form and any packets, and no retry can fix that', async () => {
    for (const page of [
      '<html>\n<body>busy</body>\n</html>\n',
      '<!DOCTYPE html><html><body>Welcome</body></html>',
      '\ufeff\n\n  <!-- portal --><html>',
      '<?xml version="1.0"?><Error/>',
    ]) {
      const bytes = Buffer.from(page)
      for (const chunks of [[bytes], [...bytes].map((byte) => Uint8Array.of(byte))]) {
        const llm = await scripted({ answer: { contentType: 'text/html', chunks } })
        const { error } = await failing(llm.stream(question, never))
        expect(error).toMatchObject({ code: 'llm_address_wrong', retry: 'operator' })
        expect(error.details).toMatchObject({ category: 'provider_invalid_response' })
        expect(error.message).toMatch(/ is a web page: .*</)
        expect(error.remedy).toContain('OLLAMA_HOST')
        await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_address_wrong' })
        await server.close()
      }
    }
  })

  it("of another server's words is no reply, also without a line end", async () => {
    const llm = await sending('Ollama is running')
    expect((await failing(llm.stream(question, never))).error.code).toBe('llm_response_invalid')
  })

  it('that ends with the error page of a proxy broke off, and is tried again', async () => {
    const llm = await sending(says('a'), '<html>504</html>\n')
    const { deltas, error } = await failing(llm.stream(question, never))
    expect({ deltas, code: error.code }).toEqual({ deltas: ['a'], code: 'llm_unavailable' })
  })

  it('may begin with a byte order mark, in any packets', async () => {
    for (const text of [`\ufeff${says('a')}${done()}`, `\ufeff\r\n${says('a')}${done()}`]) {
      const bytes = Buffer.from(text)
      for (const chunks of [[bytes], [...bytes].map((byte) => Uint8Array.of(byte))]) {
        const llm = await sending(...chunks)
        expect((await collect(llm.stream(question, never))).content).toBe('a')
        expect(warnings).toEqual([])
        await server.close()
      }
    }
    const llm = await sending(
      `\ufeff${done({ done_reason: 'stop', message: { content: 'All.' } })}`.trimEnd(),
    )
    expect((await collect(llm.stream(question, never))).content).toBe('All.')
  })

  it('is complete after its finish reason, even if the connection breaks then', async () => {
    const llm = await scripted({ answer: { chunks: [says('All'), done()], close: 'cut' } })
    expect((await collect(llm.stream(question, never))).content).toBe('All')
  })

  it('is not awaited for long after its finish reason', async () => {
    const llm = await scripted({ answer: { chunks: [says('All'), done()], close: 'silence' } })
    expect((await collect(llm.stream(question, never))).content).toBe('All')
  }, 10_000)
})

describe('a prompt that does not fit', () => {
  const long: CompletionRequest = { messages: [{ role: 'user', content: 'word '.repeat(200) }] }

  it('is an error when the server cut it silently', async () => {
    const llm = await scripted({}, { numCtx: 100 })
    const { deltas, error } = await failing(llm.stream(long, never))
    expect(deltas.join('')).toBe('Hello.')
    expect(error).toMatchObject({ code: 'context_overflow', details: { promptTokens: 100, numCtx: 100 } })
  })

  it('is an error by the context length of the request', async () => {
    const llm = await scripted()
    const { error } = await failing(llm.stream({ ...long, extras: { options: { num_ctx: 50 } } }, never))
    expect(error.code).toBe('context_overflow')
    await collect(llm.stream(long, never))
  })

  it('costs no reply if the server can refuse it', async () => {
    const llm = await scripted({ refusesOverflow: true }, { numCtx: 100 })
    const { deltas, error } = await failing(llm.stream(long, never))
    expect({ deltas, code: error.code }).toEqual({ deltas: [], code: 'context_overflow' })
  })

  it.each([400, 500])('is recognised in the words of the engine behind the server (%i)', async (status) => {
    const inner = {
      error: {
        code: 400,
        message: 'request (351 tokens) exceeds the available context size (256 tokens), try increasing it',
        type: 'exceed_context_size_error',
      },
    }
    const llm = await scripted({ answer: refusal(status, JSON.stringify(inner)) })
    const { error } = await failing(llm.stream(question, never))
    expect(error).toMatchObject({ code: 'context_overflow', circuit: llm.circuit, details: { status } })
  })
})

describe('a failure', () => {
  it.each<[string, OllamaAnswer, string, string]>([
    [
      'N14 an unknown model',
      refusal(404, 'model "x" not found, try pulling it first'),
      'llm_model_unknown',
      'not found',
    ],
    [
      'N14 a page of a proxy',
      { status: 502, contentType: 'text/html', chunks: ['<html>Bad Gateway</html>'] },
      'llm_unavailable',
      '<html>Bad Gateway',
    ],
    ['400', refusal(400, '"test" does not support thinking'), 'llm_request_invalid', 'thinking'],
    ['401', refusal(401, 'unauthorized'), 'llm_authentication', 'unauthorized'],
    ['429', refusal(429, 'slow down'), 'llm_rate_limited', 'slow down'],
    ['500', refusal(500, 'model runner has unexpectedly stopped'), 'llm_unavailable', 'stopped'],
    [
      'a format that the server cannot use',
      refusal(500, 'invalid JSON schema in format'),
      'llm_request_invalid',
      'schema',
    ],
    [
      'a grammar that the server cannot read',
      refusal(500, 'failed to parse grammar'),
      'llm_request_invalid',
      'grammar',
    ],
    ['503', refusal(503, 'server busy, please try again'), 'llm_unavailable', 'busy'],
    ['a cut connection', { chunks: [], close: 'cut' }, 'llm_unavailable', 'broke'],
    ['a connection cut in mid-reply', { chunks: [says('a')], close: 'cut' }, 'llm_unavailable', 'broke'],
    [
      'a server that says nothing',
      { chunks: [], close: 'silence' },
      'llm_unavailable',
      'said nothing for 0.1 s',
    ],
    [
      'a server that falls silent',
      { chunks: [says('a')], close: 'silence' },
      'llm_unavailable',
      'said nothing',
    ],
  ])('%s has its own code, and the text', async (_, answer, code, words) => {
    const llm = await scripted({ answer }, { timeoutMs: 100 })
    const { error } = await failing(llm.stream(question, never))
    expect(error).toMatchObject({ code, circuit: llm.circuit })
    expect(error.message).toContain(words)
    expect(error.details['category']).toMatch(/^provider_/)
    expect(server.requests).toHaveLength(1)
  })

  it('of a server that does not answer the request at all is noticed', async () => {
    const hanging = await scripted({}, { timeoutMs: 100, fetch: (_url, init) => hang(init?.signal) })
    const { error } = await failing(hanging.stream(question, never))
    expect(error).toMatchObject({ code: 'llm_unavailable', message: expect.stringContaining('said nothing') })
  })

  it('of an unavailable server names the reason', async () => {
    const llm = await scripted()
    await server.close()
    const { error } = await failing(llm.stream(question, never))
    expect(error.code).toBe('llm_unavailable')
    expect(error.message).toContain(`${llm.destination} cannot be reached: ECONNREFUSED.`)
  })
})

function hang(signal: AbortSignal | null | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
}

describe('an abort', () => {
  it('N15 between packets cancels the call at the server and throws the reason', async () => {
    const llm = await scripted({ answer: { chunks: [says('a')], close: 'silence' } })
    const stopping = new AbortController()
    const reason = new GraphmillError('deadline_exceeded', 'too late')
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const event of llm.stream(question, stopping.signal)) {
        seen.push(event)
        stopping.abort(reason)
      }
    })()
    await expect(reading).rejects.toBe(reason)
    expect(seen).toHaveLength(1)
    await server.untilCancelled(1)
    expect(server.requests).toHaveLength(1)
  })

  it('N15 drops the further records of the same packet', async () => {
    const llm = await scripted({ answer: { chunks: [says('a') + says('b') + says('c')], close: 'silence' } })
    const stopping = new AbortController()
    const seen: unknown[] = []
    const reading = (async () => {
      for await (const event of llm.stream(question, stopping.signal)) {
        seen.push(event)
        stopping.abort()
      }
    })()
    await expect(reading).rejects.toMatchObject({ name: 'AbortError' })
    expect(seen).toHaveLength(1)
  })

  it('before the call prevents it', async () => {
    const llm = await scripted()
    await expect(collect(llm.stream(question, AbortSignal.abort()))).rejects.toMatchObject({
      name: 'AbortError',
    })
    await expect(llm.ready(AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' })
    expect(server.requests).toHaveLength(0)
  })

  it('by a reader that leaves cancels the call at the server', async () => {
    const llm = await scripted({ answer: { chunks: [says('a')], close: 'silence' } })
    for await (const event of llm.stream(question, never)) if (event) break
    await server.untilCancelled(1)
  })

  it('leaves no listener on a long-lived signal', async () => {
    const llm = await scripted()
    const { signal } = new AbortController()
    await collect(llm.stream(question, signal))
    await llm.ready(signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('the models of a server', () => {
  it('are listed for every notation of the host', async () => {
    await scripted({ models: ['a:latest', 'b:7b'] })
    expect(await listOllamaModels(server.host, never)).toEqual(['a:latest', 'b:7b'])
    expect(await listOllamaModels(`${server.url}/`, never)).toEqual(['a:latest', 'b:7b'])
  })

  it('are none if the server has none, or no list', async () => {
    await scripted({ answer: { contentType: 'application/json', chunks: ['{"models":null}'] } })
    expect(await listOllamaModels(server.host, never)).toEqual([])
    server.set({ answer: refusal(404, '404 page not found') })
    expect(await listOllamaModels(server.host, never)).toEqual([])
  })

  it('of a server that answers something else are an error', async () => {
    await scripted({ answer: { chunks: ['<html>'] } })
    await expect(listOllamaModels(server.host, never)).rejects.toMatchObject({ code: 'llm_address_wrong' })
    server.set({ answer: { chunks: ['\ufeff{"models":[{"name":"m"}]}'] } })
    expect(await listOllamaModels(server.host, never)).toEqual(['m'])
    server.set({ answer: { chunks: ['{"models":5}'] } })
    await expect(listOllamaModels(server.host, never)).rejects.toMatchObject({ code: 'llm_response_invalid' })
  })

  it('are not asked about at an address that is not that of the API', async () => {
    const llm = await scripted({ answer: refusal(404, '404 page not found') })
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_address_wrong' })
    server.set({ models: [] })
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_model_unknown' })
  })

  it('need no name when there is only one', async () => {
    await scripted({ models: ['only:latest'] })
    expect(await onlyOllamaModel(server.host, never)).toBe('only:latest')
    server.set({ models: ['a', 'b'] })
    await expect(onlyOllamaModel(server.host, never)).rejects.toMatchObject({
      code: 'llm_model_unknown',
      message: expect.stringContaining('has 2: a, b.'),
    })
  })

  it('include a model that is ready', async () => {
    const llm = await scripted()
    await llm.ready(never)
    expect(server.requests.map(({ path }) => path)).toEqual(['/api/tags'])
  })

  it('need not include a model that the server knows', async () => {
    const llm = await scripted({
      answer: ({ path }) => (path === '/api/tags' ? { chunks: ['{"models":[]}'] } : { chunks: ['{}'] }),
    })
    await llm.ready(never)
  })

  it('are named in the error for an unknown model', async () => {
    const llm = await scripted({ models: ['llama:8b', 'qwen:7b'] })
    await expect(llm.ready(never)).rejects.toMatchObject({
      code: 'llm_model_unknown',
      message: expect.stringContaining('llama:8b, qwen:7b'),
      details: { models: ['llama:8b', 'qwen:7b'] },
    })
  })

  it('cannot be listed when the server is unavailable', async () => {
    const llm = await scripted()
    await server.close()
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_unavailable' })
  })
})
