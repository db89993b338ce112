// The model behind Anthropic's Messages API, against a server that keeps the published rules of the wire.
import { afterEach, describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import {
  type AnthropicOptions,
  anthropicJson,
  createAnthropic,
  onlyAnthropicModel,
} from '../../../src/llm/anthropic/anthropic.ts'
import type { CompletionEvent, CompletionRequest } from '../../../src/llm/llm.ts'
import { ProviderError } from '../../../src/llm/provider-error.ts'
import {
  type AnthropicError,
  type AnthropicRecording,
  type AnthropicScript,
  eventText,
  startAnthropicServer,
} from '../../support/anthropic-server.ts'
import { type Scripted, startRecordingServer } from '../../support/recording-server.ts'

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }
const schema = {
  type: 'object',
  properties: { items: { type: 'array', items: { type: 'string' } } },
  required: ['items'],
  additionalProperties: false,
}
const structured = { ...question, extras: anthropicJson.schema(schema) }

let server: AnthropicRecording
afterEach(() => server?.close())

async function setup(script: AnthropicScript = {}, options: Partial<AnthropicOptions> = {}) {
  server = await startAnthropicServer(script)
  return createAnthropic({ baseUrl: server.origin, model: 'test-model', ...options })
}

async function collect(events: AsyncIterable<CompletionEvent>, got: CompletionEvent[] = []) {
  for await (const event of events) got.push(event)
  const text = (kind: string) =>
    got.map((event) => (event.type === 'delta' && event.kind === kind ? event.text : '')).join('')
  const end = got.at(-1)
  if (end?.type !== 'end') throw new Error('no end')
  return { content: text('content'), reasoning: text('reasoning'), end }
}

async function failure(events: AsyncIterable<CompletionEvent>, got: CompletionEvent[] = []) {
  const thrown = await collect(events, got).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(GraphmillError)
  return thrown as ProviderError
}

/** The events of a reply; `usage` is that of the beginning. */
const start = (usage: object = { input_tokens: 9, output_tokens: 1 }) => ({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm-1',
    content: [],
    stop_reason: null,
    usage,
  },
})
const text = (said: string, index = 0) => ({
  type: 'content_block_delta',
  index,
  delta: { type: 'text_delta', text: said },
})
const stop = (reason: string | null, usage: object = { output_tokens: 2 }) => ({
  type: 'message_delta',
  delta: { stop_reason: reason, stop_sequence: null },
  usage,
})
const over = { type: 'message_stop' }

async function hearing(...events: readonly unknown[]) {
  const llm = await setup({ answers: [{ events }] })
  return collect(llm.stream(question, never))
}

describe('a request', () => {
  it('has the headers, max_tokens and what is set, and nothing else', async () => {
    const llm = await setup({ apiKey: 'sk-ant-test' }, { apiKey: 'sk-ant-test' })
    await collect(llm.stream(question, never))
    expect(server.bodies()).toEqual([
      { model: 'test-model', max_tokens: 16_384, messages: question.messages, stream: true },
    ])
    expect(server.requests[0]!.headers).toMatchObject({
      'x-api-key': 'sk-ant-test',
      'anthropic-version': '2023-06-01',
    })
  })

  it('has the system message in a field of its own, and roles that alternate', async () => {
    const llm = await setup()
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'One' },
      { role: 'assistant', content: '' },
      { role: 'user', content: 'Two' },
      { role: 'assistant', content: '\n' },
      { role: 'user', content: 'Three' },
    ] as const
    const sampling = { temperature: 0.5, topP: 0.9, maxTokens: 50, stop: ['END'] }
    const extras = { top_k: 3, stop_sequences: ['STOP', 'END'] }
    await collect(llm.stream({ messages, sampling, extras }, never))
    expect(server.bodies()[0]).toEqual({
      model: 'test-model',
      max_tokens: 50,
      system: 'Be brief.',
      messages: [{ role: 'user', content: 'One\n\nTwo\n\nThree' }],
      stream: true,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 3,
      stop_sequences: ['END', 'STOP'],
    })
  })

  it.each([{ seed: 1 }, { frequencyPenalty: 0.1 }, { presencePenalty: 0 }])(
    'is not sent with a parameter that the API does not have: %o',
    async (sampling) => {
      const llm = await setup()
      expect(await failure(llm.stream({ ...question, sampling }, never))).toMatchObject({
        code: 'llm_request_invalid',
        message: expect.stringContaining(Object.keys(sampling)[0]!),
      })
      expect(server.requests).toEqual([])
    },
  )

  it('is not sent with an extra that contradicts it', async () => {
    const llm = await setup()
    const { message } = await failure(llm.stream({ ...question, extras: { model: 'other' } }, never))
    expect(message).toContain('model')
    expect(server.requests).toEqual([])
  })

  it('adapts its default limit to the model, and keeps a limit that was asked for', async () => {
    const llm = await setup({ mostTokens: 4096 })
    for (let n = 0; n < 2; n++) await collect(llm.stream(question, never))
    expect(server.bodies().map((body) => body['max_tokens'])).toEqual([16_384, 4096, 4096])
    const asked = { ...question, sampling: { maxTokens: 5000 } }
    expect(await failure(llm.stream(asked, never))).toMatchObject({
      code: 'llm_request_invalid',
      message: expect.stringContaining('5000 > 4096'),
    })
  })

  it('leaves out a parameter that the model refuses, from then on', async () => {
    const llm = await setup({ lacks: ['temperature'] })
    for (let n = 0; n < 2; n++)
      await collect(llm.stream({ ...question, sampling: { temperature: 0 } }, never))
    expect(server.bodies().map((body) => body['temperature'])).toEqual([0, undefined, undefined])
  })

  it('is refused as it stands when nothing can be left out', async () => {
    const llm = await setup()
    const error = await failure(llm.stream({ ...question, extras: { response_format: {} } }, never))
    expect(error).toMatchObject({ code: 'llm_request_invalid', details: { type: 'invalid_request_error' } })
    expect(server.bodies()).toHaveLength(1)
  })
})

describe('a schema', () => {
  it('is sent as output_config.format', async () => {
    const llm = await setup({ rules: [{ reply: '{"items":["a"]}' }] })
    const { content, end } = await collect(llm.stream(structured, never))
    expect(content).toBe('{"items":["a"]}')
    expect(end.finishReason).toBe('stop')
    expect(server.bodies()[0]!['output_config']).toEqual({ format: { type: 'json_schema', schema } })
  })

  it('is the input of a tool when the model has no format, and its deltas are the content', async () => {
    const llm = await setup({ lacks: ['format'], rules: [{ reply: '{"items":["a","b"]}' }] })
    const got: CompletionEvent[] = []
    const { content, end } = await collect(llm.stream(structured, never), got)
    expect(content).toBe('{"items":["a","b"]}')
    expect(end.finishReason).toBe('stop')
    await collect(llm.stream(structured, never))
    const [refused, ...others] = server.bodies()
    expect(refused).toHaveProperty('output_config')
    for (const body of others) {
      expect(body).not.toHaveProperty('output_config')
      expect(body).toMatchObject({
        tools: [{ input_schema: schema, eager_input_streaming: true }],
        tool_choice: { type: 'tool' },
      })
    }
    expect(others).toHaveLength(2)
  })

  it('is asked for without eager streaming where that is not known', async () => {
    const llm = await setup({ lacks: ['format', 'eager'], rules: [{ reply: '{"items":[]}' }] })
    expect((await collect(llm.stream(structured, never))).content).toBe('{"items":[]}')
    expect(server.bodies()).toHaveLength(3)
  })

  it('is refused when the model thinks and has no format, since thinking excludes a forced tool', async () => {
    const llm = await setup({ lacks: ['format'] })
    const thinking = { type: 'enabled', budget_tokens: 2000 }
    const extras = { ...structured.extras, thinking }
    const error = await failure(llm.stream({ ...question, extras }, never))
    expect(error.message).toContain('does not support output format')
    expect(server.bodies()).toHaveLength(1)
  })

  it('that the server does not take is a refusal of that schema, not of the format', async () => {
    const llm = await setup()
    const loose = {
      type: 'object',
      properties: { n: { type: 'integer', minimum: 1 } },
      additionalProperties: false,
    }
    const error = await failure(llm.stream({ ...question, extras: anthropicJson.schema(loose) }, never))
    expect(error.message).toContain('minimum')
    await collect(llm.stream(structured, never))
    expect(server.bodies().map((body) => 'output_config' in body)).toEqual([true, true])
  })

  it('may be that of any object: JSON mode is the input of a tool too', async () => {
    const llm = await setup({ rules: [{ reply: '{"any":"thing"}' }] })
    const extras = anthropicJson.translate({ type: 'json_object' })
    const { content, end } = await collect(llm.stream({ ...question, extras }, never))
    expect([content, end.finishReason]).toEqual(['{"any":"thing"}', 'stop'])
    const wrapped = { type: 'json_schema', json_schema: { name: 'x', schema } }
    expect(anthropicJson.translate(wrapped)).toEqual(structured.extras)
  })

  it('is relied on when the server says that the model keeps to one', async () => {
    expect(await (await setup()).constrains!(never)).toBe(true)
    await server.close()
    expect(await (await setup({ lacks: ['format'] })).constrains!(never)).toBe(false)
    await server.close()
    const llm = await setup()
    await server.close()
    expect(await llm.constrains!(never)).toBe(false)
  })
})

describe('a reply', () => {
  it('keeps thoughts apart, and counts what a cache served as prompt', async () => {
    const { content, reasoning, end } = await hearing(
      start({
        input_tokens: 5,
        cache_creation_input_tokens: 20,
        cache_read_input_tokens: 100,
        output_tokens: 1,
      }),
      { type: 'ping' },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'thinking', thinking: '', signature: '' },
      },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm.' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'c2ln' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: 'A ' } },
      text('machine.', 1),
      stop('end_turn', { output_tokens: 12 }),
      over,
    )
    expect({ content, reasoning }).toEqual({ content: 'A machine.', reasoning: 'Hm.' })
    expect(end).toMatchObject({
      finishReason: 'stop',
      model: 'm-1',
      usage: { promptTokens: 125, completionTokens: 12, totalTokens: 137 },
      raw: { type: 'message_delta' },
    })
  })

  it.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'length'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['tool_use', 'tool_calls'],
    ['refusal', 'content_filter'],
    ['some_new_reason', 'error'],
  ])('ends with %s as %s', async (said, expected) => {
    expect((await hearing(start(), text('x'), stop(said), over)).end.finishReason).toBe(expected)
  })

  it('ignores unknown events, unknown deltas and the input of tools that it did not ask for', async () => {
    const { content } = await hearing(
      start(),
      { type: 'some_new_event', text: 'no', delta: { text: 'no' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'citations_delta', citation: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"a":' } },
      text('yes'),
      stop('end_turn'),
      over,
    )
    expect(content).toBe('yes')
  })

  it('is complete after its stop reason, even if the connection breaks then', async () => {
    const events = [start(), text('whole'), stop('end_turn')]
    const llm = await setup({ answers: [{ body: events.map(eventText).join(''), cut: true }] })
    expect(await collect(llm.stream(question, never))).toMatchObject({
      content: 'whole',
      end: { finishReason: 'stop' },
    })
  })

  it.each([
    ['ends without a stop reason', { events: [start(), text('half')] }],
    ['is cut', { body: [start(), text('half')].map(eventText).join(''), cut: true }],
  ] satisfies [string, Scripted][])(
    'that %s is unavailable, after the deltas that came',
    async (_, answer) => {
      const llm = await setup({ answers: [answer] })
      const got: CompletionEvent[] = []
      expect(await failure(llm.stream(question, never), got)).toMatchObject({ code: 'llm_unavailable' })
      expect(got).toMatchObject([{ kind: 'content', text: 'half' }])
    },
  )

  it.each([
    ['has an event that is no JSON', { events: [start(), 'nonsense'] }, /Anthropic/],
    ['has an event that is no object', { events: ['[1]'] }, /Anthropic/],
    ['is an event stream of another API', { events: [{ choices: [] }, '[DONE]'] }, /Anthropic/],
    ['is JSON of another form', { body: { choices: [] } }, /choices/],
  ] satisfies [string, Scripted, RegExp][])('that %s is not taken for an answer', async (_, answer, said) => {
    const llm = await setup({ answers: [answer] })
    const error = await failure(llm.stream(question, never))
    expect(error.code).toBe('llm_response_invalid')
    expect(error.message).toMatch(said)
  })

  it('that is a web page means a wrong address', async () => {
    const llm = await setup({ answers: [{ body: '<html><body>Welcome</body></html>' }] })
    const error = await failure(llm.stream(question, never))
    expect(error).toMatchObject({ code: 'llm_address_wrong', message: expect.stringContaining('Welcome') })
    await using page = await startRecordingServer([{ body: '<html><body>Welcome</body></html>' }])
    const listing = onlyAnthropicModel({ baseUrl: page.origin }, never)
    const thrown = await listing.catch((refused: unknown) => refused as ProviderError)
    expect(thrown).toMatchObject({ code: 'llm_address_wrong' })
    // That a page is no JSON says nothing more.
    expect((thrown as ProviderError).cause).toBeUndefined()
  })

  it('is refused when an event does not end within 16 MiB', async () => {
    const llm = await setup({ answers: [{ events: [start(), text('x'.repeat(17 * 1024 * 1024))] }] })
    expect(await failure(llm.stream(question, never))).toMatchObject({ code: 'llm_response_invalid' })
  })

  it('may come as one JSON body', async () => {
    const content = [
      { type: 'thinking', thinking: 'Hm.', signature: 's' },
      { type: 'text', text: 'Whole.' },
    ]
    const body = {
      type: 'message',
      model: 'm-2',
      content,
      stop_reason: 'max_tokens',
      usage: { input_tokens: 1 },
    }
    const llm = await setup({ answers: [{ body }] })
    expect(await collect(llm.stream(question, never))).toMatchObject({
      content: 'Whole.',
      reasoning: 'Hm.',
      end: { finishReason: 'length', model: 'm-2', usage: { promptTokens: 1, completionTokens: null } },
    })
  })

  it('that reaches its limit ends with length', async () => {
    const llm = await setup({ rules: [{ reply: 'a reply that is longer' }] })
    const { content, end } = await collect(llm.stream({ ...question, sampling: { maxTokens: 2 } }, never))
    expect([content, end.finishReason]).toEqual(['a reply ', 'length'])
  })
})

describe('a refusal', () => {
  it.each([
    [[401, 'authentication_error', 'invalid x-api-key'], 'llm_authentication', 'provider_authentication'],
    [[402, 'billing_error', 'billing issue'], 'llm_quota_exhausted', 'provider_authentication'],
    [
      [400, 'invalid_request_error', 'Your credit balance is too low.'],
      'llm_quota_exhausted',
      'provider_authentication',
    ],
    [
      [
        400,
        'invalid_request_error',
        'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
      ],
      'llm_quota_exhausted',
      'provider_authentication',
    ],
    [[403, 'permission_error', 'no'], 'llm_authentication', 'provider_authentication'],
    [[404, 'not_found_error', 'model: claude-none'], 'llm_model_unknown', 'provider_invalid_model'],
    [[404, 'not_found_error', 'Not Found'], 'llm_address_wrong', 'provider_invalid_request'],
    [[413, 'request_too_large', 'too large'], 'llm_request_invalid', 'provider_invalid_request'],
    [
      [400, 'invalid_request_error', 'prompt is too long: 200100 tokens > 200000 maximum'],
      'context_overflow',
      'provider_invalid_request',
    ],
    [
      [
        400,
        'invalid_request_error',
        'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
      ],
      'context_overflow',
      'provider_invalid_request',
    ],
    [
      [429, 'rate_limit_error', 'slow down', { 'retry-after': '7' }],
      'llm_rate_limited',
      'provider_rate_limit',
      7000,
    ],
    [[500, 'api_error', 'internal'], 'llm_unavailable', 'provider_unavailable'],
    [[504, 'timeout_error', 'timed out'], 'llm_unavailable', 'provider_unavailable'],
    [[529, 'overloaded_error', 'Overloaded'], 'llm_rate_limited', 'provider_unavailable'],
  ] as [AnthropicError, string, string, number?][])(
    '%j is %s (%s)',
    async (answer, code, category, retryAfterMs) => {
      const llm = await setup({ answers: [answer] })
      const error = await failure(llm.stream(question, never))
      expect(error).toBeInstanceOf(ProviderError)
      expect(error).toMatchObject({
        code,
        category,
        circuit: llm.circuit,
        details: { status: answer[0], type: answer[1] },
      })
      expect(error.retryAfterMs).toBe(retryAfterMs)
      expect(error.message).toContain(answer[2])
    },
  )

  it.each([
    ['overloaded_error', 'llm_rate_limited', 'provider_unavailable'],
    ['rate_limit_error', 'llm_rate_limited', 'provider_rate_limit'],
    ['api_error', 'llm_unavailable', 'provider_unavailable'],
    ['authentication_error', 'llm_authentication', 'provider_authentication'],
    ['invalid_request_error', 'llm_request_invalid', 'provider_invalid_request'],
  ])('inside the stream: %s is %s', async (type, code, category) => {
    const error = { type: 'error', error: { type, message: 'It broke.' } }
    const llm = await setup({ answers: [{ events: [start(), text('half'), error] }] })
    const got: CompletionEvent[] = []
    expect(await failure(llm.stream(question, never), got)).toMatchObject({
      code,
      category,
      message: expect.stringContaining('It broke.'),
    })
    expect(got).toMatchObject([{ text: 'half' }])
  })

  it('without a readable body has the code of its status', async () => {
    const llm = await setup({ answers: [{ status: 529, body: '<html>busy</html>' }] })
    expect(await failure(llm.stream(question, never))).toMatchObject({ code: 'llm_rate_limited' })
  })
})

describe('the models of a server', () => {
  it('need not be named when there is one', async () => {
    server = await startAnthropicServer({ models: ['claude-one'] })
    expect(await onlyAnthropicModel({ baseUrl: server.origin }, never)).toBe('claude-one')
  })

  it('are named when one must be chosen', async () => {
    server = await startAnthropicServer({ models: ['claude-one', 'claude-two'] })
    await expect(onlyAnthropicModel({ baseUrl: server.origin }, never)).rejects.toMatchObject({
      code: 'llm_model_unknown',
      message: expect.stringMatching(/claude-one, claude-two/),
    })
  })

  it('need not be listed by a gateway', async () => {
    const llm = await setup({}, { baseUrl: undefined })
    expect(llm.destination).toBe('https://api.anthropic.com')
    const gateway = createAnthropic({ baseUrl: `${server.origin}/gateway/`, model: 'm' })
    expect(gateway.destination).toBe(`${server.origin}/gateway`)
    await gateway.ready(never)
    await expect(collect(gateway.stream(question, never))).rejects.toMatchObject({
      code: 'llm_address_wrong',
    })
  })

  it('are not ready with a wrong key', async () => {
    const llm = await setup({ apiKey: 'right' }, { apiKey: 'wrong-key' })
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_authentication' })
  })

  it('are not looked for at an invalid address', () => {
    expect(() => createAnthropic({ baseUrl: 'ftp://x', model: 'm' })).toThrow(/http/)
  })
})
