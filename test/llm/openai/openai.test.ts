// The OpenAI-compatible model, against a real HTTP server.
import { getEventListeners, once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type ErrorCode, GraphmillError } from '../../../src/errors.ts'
import type { CompletionEvent, CompletionRequest } from '../../../src/llm/llm.ts'
import { createOpenAi, listModels, type OpenAiOptions, onlyModel } from '../../../src/llm/openai/openai.ts'
import type { LlmScript, Refusal } from '../../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../../support/llm-server.ts'

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }

let server: LlmServer
let plain: Server | undefined
afterEach(async () => {
  await server?.close()
  plain?.closeAllConnections()
  plain?.close()
  plain = undefined
})

async function scripted(script: LlmScript, options: Partial<OpenAiOptions> = {}) {
  server = await startLlmServer(script)
  return createOpenAi({ baseUrl: server.url, model: 'test-model', ...options })
}

/** A server that answers every request with the same bytes. */
async function answering(listener: RequestListener, options: Partial<OpenAiOptions> = {}) {
  plain = createServer(listener).listen(0, '127.0.0.1')
  await once(plain, 'listening')
  const { port } = plain.address() as AddressInfo
  return createOpenAi({ baseUrl: `http://127.0.0.1:${port}/v1`, model: 'test-model', ...options })
}

function streaming(...events: readonly unknown[]): RequestListener {
  const lines = events.map(
    (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
  )
  return (_, response) => response.setHeader('content-type', 'text/event-stream').end(lines.join(''))
}

const delta = (fields: object, finish: string | null = null) => ({
  model: 'm-1',
  choices: [{ index: 0, delta: fields, finish_reason: finish }],
})

async function collect(events: AsyncIterable<CompletionEvent>) {
  const got: CompletionEvent[] = []
  for await (const event of events) got.push(event)
  const text = (kind: string) =>
    got.map((event) => (event.type === 'delta' && event.kind === kind ? event.text : '')).join('')
  const end = got.at(-1)
  if (end?.type !== 'end') throw new Error('no end')
  return { content: text('content'), reasoning: text('reasoning'), end, events: got }
}

async function failure(events: AsyncIterable<CompletionEvent>): Promise<GraphmillError> {
  const thrown = await collect(events).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(GraphmillError)
  return thrown as GraphmillError
}

describe('a reply', () => {
  it('comes as deltas, then one end with finish reason, usage and model', async () => {
    const llm = await scripted({ rules: [{ reply: 'A machine.' }] })
    const { content, end, events } = await collect(llm.stream(question, never))
    expect(content).toBe('A machine.')
    expect(events.filter(({ type }) => type === 'end')).toEqual([end])
    expect(end).toMatchObject({
      finishReason: 'stop',
      usage: { promptTokens: 4, completionTokens: 3, totalTokens: 7 },
      model: 'test-model',
    })
    expect(end.raw).toMatchObject({ usage: { prompt_tokens: 4 } })
  })

  it('sends the parameters that are set and nothing else', async () => {
    const llm = await scripted({}, { apiKey: 'sk-test-key' })
    await collect(llm.stream(question, never))
    expect(server.requests[0]!.body).toEqual({
      model: 'test-model',
      messages: question.messages,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(server.requests[0]!.headers.authorization).toBe('Bearer sk-test-key')
  })

  it('sends no key when none is set, even if the environment has one', async () => {
    const llm = await scripted({})
    await collect(llm.stream(question, never))
    expect(server.requests[0]!.headers.authorization).toBeUndefined()
  })

  it('keeps reasoning apart from content', async () => {
    const llm = await scripted({ rules: [{ reply: { reasoning: 'Let me think.', text: 'It is 42.' } }] })
    const { content, reasoning } = await collect(llm.stream(question, never))
    expect({ content, reasoning }).toEqual({ content: 'It is 42.', reasoning: 'Let me think.' })
    const other = await answering(
      streaming(delta({ reasoning: 'Hm.' }), delta({ content: 'Yes' }, 'stop'), '[DONE]'),
    )
    expect(await collect(other.stream(question, never))).toMatchObject({ content: 'Yes', reasoning: 'Hm.' })
  })

  it.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['function_call', 'tool_calls'],
    ['eos_token', 'stop'],
    ['model_length', 'length'],
    ['some_new_reason', 'error'],
  ])('ends with %s as %s', async (said, expected) => {
    const llm = await scripted({ rules: [{ reply: { text: 'x', finish: said } }] })
    expect((await collect(llm.stream(question, never))).end.finishReason).toBe(expected)
  })

  it('reports that it was cut at the output limit', async () => {
    const llm = await scripted({ rules: [{ reply: 'a reply that is longer' }] })
    const { content, end } = await collect(llm.stream({ ...question, sampling: { maxTokens: 2 } }, never))
    expect({ content, reason: end.finishReason }).toEqual({ content: 'a reply ', reason: 'length' })
  })

  it.each([
    ['nothing', false, [null, null, null]],
    ['no total', { prompt_tokens: 100, completion_tokens: 50 }, [100, 50, 150]],
    ['zeros', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, [0, 0, 0]],
    [
      'a malformed counter',
      { prompt_tokens: 'abc', completion_tokens: 50, total_tokens: 150 },
      [null, 50, 150],
    ],
    [
      'only malformed ones',
      { prompt_tokens: 'abc', completion_tokens: -5, total_tokens: true },
      [null, null, null],
    ],
    ['half of it', { completion_tokens: 7 }, [null, 7, null]],
    ['what is no object', 'many', [null, null, null]],
  ])('reads a usage of %s', async (_, usage, [prompt, completion, total]) => {
    const llm = await scripted({ rules: [{ reply: { text: 'x', usage } }] })
    const { end } = await collect(llm.stream(question, never))
    expect(end.usage).toEqual({ promptTokens: prompt, completionTokens: completion, totalTokens: total })
  })

  it('is taken whole from a server that ignores `stream`', async () => {
    const body = { model: 'm-1', choices: [{ message: { content: 'Whole.' }, finish_reason: 'stop' }] }
    const llm = await answering((_, response) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
    )
    const { content, end } = await collect(llm.stream(question, never))
    expect({ content, model: end.model, raw: end.raw }).toEqual({
      content: 'Whole.',
      model: 'm-1',
      raw: body,
    })
  })

  it('is complete with [DONE] alone, or with a finish reason alone', async () => {
    const done = await answering(streaming(delta({ content: 'Hi' }), '[DONE]'))
    expect((await collect(done.stream(question, never))).end.finishReason).toBe('stop')
    plain!.close()
    const finished = await answering(streaming(delta({ content: 'Hi' }), delta({}, 'length')))
    expect((await collect(finished.stream(question, never))).end.finishReason).toBe('length')
  })

  it('survives keep-alive comments, blank lines, CRLF and characters split between packets', async () => {
    const bytes = Buffer.from(
      `: PROCESSING\r\n\r\ndata: ${JSON.stringify(delta({ content: 'naïve 🌾' }))}\r\n\r\n\r\n: ping\r\n\r\ndata: ${JSON.stringify(delta({}, 'stop'))}\r\n\r\ndata: [DONE]\r\n\r\n`,
    )
    const llm = await answering(async (_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      for (const byte of bytes) {
        response.write(Buffer.of(byte))
        await new Promise(setImmediate)
      }
      response.end()
    })
    expect((await collect(llm.stream(question, never))).content).toBe('naïve 🌾')
  })

  it('is complete after its finish reason, even if the connection breaks then', async () => {
    const llm = await answering((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      const text = `data: ${JSON.stringify(delta({ content: 'All' }, 'stop'))}\n\n`
      response.write(text, () => response.destroy())
    })
    expect((await collect(llm.stream(question, never))).content).toBe('All')
  })

  it('of 50 MB streams in bounded memory', async () => {
    const piece = 'x'.repeat(2000)
    const llm = await scripted({ rules: [{ reply: { pieces: [piece], repeat: 25_000 } }] })
    global.gc?.()
    const before = process.memoryUsage().heapUsed
    let characters = 0
    let peak = 0
    for await (const event of llm.stream(question, never)) {
      if (event.type === 'delta') characters += event.text.length
      peak = Math.max(peak, process.memoryUsage().heapUsed - before)
    }
    expect(characters).toBe(50_000_000)
    expect(peak / 1e6).toBeLessThan(200)
  })

  it('leaves the connection open for the next call, when the end of the body comes late', async () => {
    let connections = 0
    let over = Promise.withResolvers<void>()
    const llm = await answering((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.write(`data: ${JSON.stringify(delta({ content: 'x' }, 'stop'))}\n\ndata: [DONE]\n\n`)
      setTimeout(() => response.end(() => over.resolve()), 10)
    })
    plain!.on('connection', () => connections++)
    for (let n = 0; n < 10; n++) {
      over = Promise.withResolvers()
      await collect(llm.stream(question, never))
      await over.promise
    }
    expect(connections).toBeLessThanOrEqual(3)
  })
})

describe('a failure', () => {
  const cases: readonly [string, LlmScript, ErrorCode, string][] = [
    ['a wrong key', { apiKey: 'another' }, 'llm_authentication', 'provider_authentication'],
    ['403', refusing('forbidden'), 'llm_authentication', 'provider_authentication'],
    ['an unknown model', { models: ['other'] }, 'llm_model_unknown', 'provider_invalid_model'],
    ['429', refusing('rate-limit'), 'llm_rate_limited', 'provider_rate_limit'],
    ['an exhausted quota', refusing('quota'), 'llm_quota_exhausted', 'provider_rate_limit'],
    ['500', refusing('server-error'), 'llm_unavailable', 'provider_unavailable'],
    ['a model that is being loaded', refusing('loading'), 'llm_model_loading', 'provider_model_not_loaded'],
    [
      'a prompt longer than the context',
      { contextTokens: 1 },
      'context_overflow',
      'provider_invalid_request',
    ],
    ['400', refusing('invalid'), 'llm_request_invalid', 'provider_invalid_request'],
    ['a connection cut at once', refusing('reset'), 'llm_unavailable', 'provider_unavailable'],
    ['HTML', refusing('html'), 'llm_address_wrong', 'provider_invalid_response'],
    ['events that are no JSON', refusing('malformed'), 'llm_response_invalid', 'provider_invalid_response'],
    ['an error inside the stream', refusing('stream-error'), 'llm_unavailable', 'provider_unavailable'],
    ['a connection cut in mid-reply', refusing('cut'), 'llm_unavailable', 'provider_unavailable'],
    ['a stream that just ends', refusing('eof'), 'llm_unavailable', 'provider_unavailable'],
    ['a server that never answers', refusing('hang'), 'llm_unavailable', 'provider_unavailable'],
    ['a server that falls silent in mid-reply', refusing('stall'), 'llm_unavailable', 'provider_unavailable'],
  ]

  function refusing(kind: Refusal): LlmScript {
    return { refuse: { kind }, rules: [{ reply: 'A reply of some length.' }] }
  }

  it.each(cases)('%s has its own code and category', async (_, script, code, category) => {
    const llm = await scripted(script, { timeoutMs: 150, apiKey: 'sk-this-is-secret' })
    const error = await failure(llm.stream(question, never))
    expect({ code: error.code, category: error.details['category'] }).toEqual({ code, category })
    expect(error.circuit).toBe(llm.circuit)
    expect(JSON.stringify([error.message, error.details, String(error.cause)])).not.toContain('secret')
    expect(server.requests).toHaveLength(1)
  })

  it('passes on the deltas before it', async () => {
    const llm = await scripted({
      rules: [{ reply: { text: 'abcdefghijkl', refuse: 'cut', refuseAfter: 2 } }],
    })
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of llm.stream(question, never)) if (event.type === 'delta') seen.push(event.text)
    })()
    await expect(reading).rejects.toMatchObject({ code: 'llm_unavailable' })
    expect(seen.join('')).toBe('abcdefgh')
  })

  it('has the wait that a server asks for', async () => {
    const llm = await scripted({ refuse: { kind: 'rate-limit' }, retryAfter: 30 })
    expect((await failure(llm.stream(question, never))).retryAfterMs).toBe(30_000)
  })

  it('of an unavailable server differs from the others', async () => {
    const llm = await scripted({})
    await server.away('refuse')
    const error = await failure(llm.stream(question, never))
    expect(error).toMatchObject({ code: 'llm_unavailable' })
    expect(error.message).toContain('ECONNREFUSED')
    expect(error.message).toContain(llm.destination)
  })

  it('shows the first 200 characters of an answer that is no completion', async () => {
    const llm = await answering((_, response) => response.end(`<html>${'y'.repeat(1000)}`))
    const error = await failure(llm.stream(question, never))
    expect(error.details['text']).toBe(`<html>${'y'.repeat(194)}`)
    expect(error.message.length).toBeLessThan(300)
  })

  it.each([
    ['an empty body', '', 'llm_unavailable'],
    ['JSON that is no completion', '{"hello":1}', 'llm_response_invalid'],
    ['an empty list of choices', '{"choices":[]}', 'llm_response_invalid'],
    ['only [DONE]', 'data: [DONE]\n\n', 'llm_response_invalid'],
  ])('of %s with status 200 is no reply', async (_, body, code) => {
    const type = body.startsWith('{') ? 'application/json' : 'text/event-stream'
    const llm = await answering((_request, response) => response.setHeader('content-type', type).end(body))
    expect((await failure(llm.stream(question, never))).code).toBe(code)
  })

  it('never shows the key, even if the server repeats it', async () => {
    const apiKey = 'sk-abcdef-123456'
    const llm = await answering(
      (request, response) =>
        response
          .writeHead(401)
          .end(JSON.stringify({ error: { message: `Bad key ${request.headers.authorization}` } })),
      { apiKey },
    )
    const error = await failure(llm.stream(question, never))
    expect(error.message).toContain('[secret]')
    expect(JSON.stringify([error.message, error.details, `${error.cause}`])).not.toContain(apiKey)
  })

  it('ends a reply with an endless line', async () => {
    const llm = await answering((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      const block = Buffer.alloc(1 << 20, 0x61)
      const write = () => {
        while (!response.destroyed && response.write(block));
        if (!response.destroyed) response.once('drain', write)
      }
      write()
    })
    expect((await failure(llm.stream(question, never))).code).toBe('llm_response_invalid')
  })
})

describe('a parameter that the server does not take', () => {
  it('is left out, or renamed, from then on', async () => {
    const llm = await scripted({
      unsupported: ['max_tokens', 'temperature', 'stream_options'],
      rules: [{ reply: 'ok' }],
    })
    const request = { ...question, sampling: { maxTokens: 100, temperature: 0 } }
    expect((await collect(llm.stream(request, never))).content).toBe('ok')
    expect(server.counts.calls).toBe(4)
    await collect(llm.stream(request, never))
    expect(server.counts.calls).toBe(5)
    expect(server.requests.at(-1)!.body).toEqual({
      model: 'test-model',
      messages: question.messages,
      stream: true,
      max_completion_tokens: 100,
    })
  })

  it('that is needed fails the request', async () => {
    const llm = await scripted({ unsupported: ['response_format'] })
    const request = { ...question, extras: { response_format: { type: 'json_object' } } }
    expect(await failure(llm.stream(request, never))).toMatchObject({
      code: 'llm_request_invalid',
      details: { param: 'response_format' },
    })
    expect(server.counts.calls).toBe(1)
  })
})

describe('an abort', () => {
  it('cancels the call at the server and throws the reason', async () => {
    const llm = await scripted({ rules: [{ reply: { text: 'word '.repeat(500), tokensPerSecond: 100 } }] })
    const stopping = new AbortController()
    const reason = new GraphmillError('deadline_exceeded', 'too late')
    const reading = (async () => {
      for await (const event of llm.stream(question, stopping.signal)) if (event) stopping.abort(reason)
    })()
    await expect(reading).rejects.toBe(reason)
    await server.until(({ cancelled }) => cancelled === 1)
  })

  it('before the first byte cancels the call too', async () => {
    const llm = await scripted({ latencyMs: 60_000 })
    const stopping = new AbortController()
    const reading = collect(llm.stream(question, stopping.signal))
    await server.until(({ concurrent }) => concurrent === 1)
    stopping.abort()
    await expect(reading).rejects.toThrow(/abort/i)
    await server.until(({ cancelled }) => cancelled === 1)
  })

  it('before the call prevents it', async () => {
    const llm = await scripted({})
    await expect(collect(llm.stream(question, AbortSignal.abort()))).rejects.toThrow()
    expect(server.counts.calls).toBe(0)
  })

  it('by a reader that leaves cancels the call at the server', async () => {
    const llm = await scripted({ rules: [{ reply: { text: 'word '.repeat(500), tokensPerSecond: 100 } }] })
    for await (const event of llm.stream(question, never)) if (event) break
    await server.until(({ cancelled }) => cancelled === 1)
  })

  it('leaves no listener on a long-lived signal', async () => {
    const llm = await scripted({})
    const { signal } = new AbortController()
    await collect(llm.stream(question, signal))
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('ready', () => {
  const problem = async (script: LlmScript, options: Partial<OpenAiOptions> = {}) => {
    const llm = await scripted(script, options)
    return llm.ready(never).then(
      () => 'ok',
      (error: GraphmillError) => error.code,
    )
  }

  it('checks whether a call would be accepted, without a call', async () => {
    expect(await problem({ models: ['a', 'test-model'] })).toBe('ok')
    expect(await problem({ models: ['a', 'b'] })).toBe('llm_model_unknown')
    expect(await problem({ apiKey: 'right' }, { apiKey: 'wrong' })).toBe('llm_authentication')
    expect(await problem({ models: ['models/test-model'] })).toBe('ok')
    expect(server.counts.calls).toBe(0)
    const llm = await scripted({})
    await server.away('refuse')
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_unavailable' })
  })

  it('recognises a model that is known but not loaded', async () => {
    const body = { object: 'list', data: [{ id: 'test-model', status: 'not_loaded' }] }
    const llm = await answering((_, response) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(body)),
    )
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_model_loading' })
  })

  it('accepts a server without a list of models, and a gateway that serves more than it lists', async () => {
    const bare = await answering((_, response) => response.writeHead(404).end('no such page'))
    await bare.ready(never)
    plain!.close()
    const gateway = await answering((request, response) => {
      const data = request.url === '/v1/models' ? { data: [{ id: 'other' }] } : { id: 'test-model' }
      response.setHeader('content-type', 'application/json').end(JSON.stringify(data))
    })
    await gateway.ready(never)
  })

  it('has another address when a web page is there instead of the list', async () => {
    const portal = await answering((_, response) => response.end('<!doctype html><title>Chat</title>'))
    const error = await portal.ready(never).catch((thrown: GraphmillError) => thrown)
    expect(error).toMatchObject({
      code: 'llm_address_wrong',
      details: { category: 'provider_invalid_response' },
    })
    await expect(onlyModel({ baseUrl: portal.destination }, never)).rejects.toMatchObject({
      code: 'llm_address_wrong',
    })
  })

  it('may begin its answers with a byte order mark', async () => {
    const llm = await answering((request, response) => {
      if (request.method === 'GET') response.end('\ufeff{"data":[{"id":"test-model"}]}')
      else response.end('\ufeffdata: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n')
    })
    await llm.ready(never)
    expect((await collect(llm.stream(question, never))).content).toBe('a')
  })
})

describe('the model', () => {
  it('need not be named if the server has only one', async () => {
    await scripted({ models: ['the-one'] })
    expect(await onlyModel({ baseUrl: server.url }, never)).toBe('the-one')
    expect(await listModels({ baseUrl: server.url }, never)).toEqual(['the-one'])
  })

  it('must be named if there are several, and they are listed', async () => {
    await scripted({ models: ['a', 'b'] })
    const error = await onlyModel({ baseUrl: server.url }, never).catch((thrown: GraphmillError) => thrown)
    expect(error).toMatchObject({ code: 'llm_model_unknown', details: { models: ['a', 'b'] } })
    expect((error as GraphmillError).message).toContain('a, b')
  })
})

describe('the address', () => {
  it.each(['nonsense', 'ftp://host/v1', 'http://user:pass@host/v1'])('%s is refused', (baseUrl) => {
    expect(() => createOpenAi({ baseUrl, model: 'm' })).toThrow(
      expect.objectContaining({ code: 'configuration_invalid' }),
    )
    expect(() => createOpenAi({ baseUrl, model: 'm' })).not.toThrow(/pass@/)
  })

  it('may end with a slash', async () => {
    server = await startLlmServer({})
    const llm = createOpenAi({ baseUrl: `${server.url}/`, model: 'm' })
    expect((await collect(llm.stream(question, never))).content).toBe('OK')
    expect(llm.destination).toBe(server.url)
  })
})
