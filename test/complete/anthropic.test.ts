// `complete` on Anthropic's Messages API, where OpenArmature's fixtures (openarmature.test.ts) say nothing: streams, the ways to
// structured output, thoughts of others, and broken replies. The server keeps the published rules of the wire.
import { afterEach, describe, expect, it } from 'vitest'
import {
  type AnthropicProviderOptions,
  createAnthropicProvider,
} from '../../src/complete/anthropic/anthropic.ts'
import { complete } from '../../src/complete/complete.ts'
import type { AssistantMessage, Message, Response, TokenEvent } from '../../src/complete/provider.ts'
import { StructuredOutputInvalid } from '../../src/llm/structured-output/invalid-error.ts'
import {
  type AnthropicRecording,
  type AnthropicScript,
  startAnthropicServer,
} from '../support/anthropic-server.ts'
import { failure, frozen, hi, V, weather } from './harness.ts'

let server: AnthropicRecording
afterEach(() => server.close())

async function setup(script: AnthropicScript = {}, options: Partial<AnthropicProviderOptions> = {}) {
  server = await startAnthropicServer(script)
  return createAnthropicProvider({ baseUrl: server.origin, model: 'test-model', ...options })
}

const config = { maxTokens: 100 }
const asked = frozen({ messages: hi, config })
const structured = frozen({ ...asked, responseSchema: V })

/** A message as the server sends it. */
const message = (content: readonly object[], stop = 'end_turn', root: object = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'test-model',
  content,
  stop_reason: stop,
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 4 },
  ...root,
})

const blocks = [
  { type: 'thinking', thinking: 'Where? In SF.', signature: 'sig-1' },
  { type: 'redacted_thinking', data: 'opaque' },
  { type: 'text', text: 'Let me look.' },
  { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'SF' } },
]

/** The events of the same message, each block in two deltas. */
function streamOf(content: readonly Record<string, unknown>[], stop: string) {
  const halves = (text: string) => [text.slice(0, 5), text.slice(5)]
  const bodies = content.flatMap((block, index) => {
    const start = (content_block: object) => ({ type: 'content_block_start', index, content_block })
    const delta = (given: object) => ({ type: 'content_block_delta', index, delta: given })
    const { type } = block
    const inner =
      type === 'text'
        ? [
            start({ type, text: '' }),
            ...halves(String(block['text'])).map((text) => delta({ type: 'text_delta', text })),
          ]
        : type === 'thinking'
          ? [
              start({ type, thinking: '', signature: '' }),
              ...halves(String(block['thinking'])).map((thinking) =>
                delta({ type: 'thinking_delta', thinking }),
              ),
              delta({ type: 'signature_delta', signature: block['signature'] }),
            ]
          : type === 'tool_use'
            ? [
                start({ ...block, input: {} }),
                delta({ type: 'input_json_delta', partial_json: '' }),
                ...halves(JSON.stringify(block['input'])).map((partial_json) =>
                  delta({ type: 'input_json_delta', partial_json }),
                ),
              ]
            : [start(block)]
    return [...inner, { type: 'content_block_stop', index }, { type: 'ping' }]
  })
  return [
    {
      type: 'message_start',
      message: { ...message([], stop), stop_reason: null, usage: { input_tokens: 9, output_tokens: 1 } },
    },
    ...bodies,
    { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null }, usage: { output_tokens: 4 } },
    { type: 'message_stop' },
  ]
}

describe('a reply', () => {
  const expected = {
    message: {
      role: 'assistant',
      content: [
        { type: 'thinking', text: 'Where? In SF.', signature: 'sig-1' },
        { type: 'redacted_thinking', data: 'opaque' },
        { type: 'text', text: 'Let me look.' },
      ],
      toolCalls: [{ id: 'toolu_1', name: 'get_weather', arguments: { city: 'SF' } }],
    },
    finishReason: 'tool_calls',
    usage: { promptTokens: 9, completionTokens: 4, totalTokens: 13 },
    model: 'test-model',
    raw: message(blocks, 'tool_use'),
  }
  const request = { ...asked, tools: [weather] }

  it('has thoughts, text and tool calls, whole or streamed, and goes back as it came', async () => {
    const provider = await setup({
      answers: [{ body: message(blocks, 'tool_use') }, { events: streamOf(blocks, 'tool_use') }],
    })
    const tokens: TokenEvent[] = []
    const whole = await provider.complete(request)
    const streamed = await provider.complete(request, {
      stream: true,
      onToken: (token) => tokens.push(token),
    })
    expect(whole).toMatchObject(expected)
    expect(streamed).toEqual(whole)
    const said = (kind: string) =>
      tokens.filter(({ deltaKind }) => deltaKind === kind).map(({ delta }) => delta)
    expect(said('reasoning')).toEqual(['Where', '? In SF.'])
    expect(said('content')).toEqual(['Let m', 'e look.'])
    expect(tokens.map(({ chunkIndex }) => chunkIndex)).toEqual([0, 1, 2, 3])
    const messages: Message[] = [
      ...hi,
      whole.message,
      { role: 'tool', toolCallId: 'toolu_1', content: '72F' },
    ]
    await provider.complete(frozen({ ...request, messages }))
    expect(server.bodies()[2]!['messages']).toEqual([
      hi[0],
      { role: 'assistant', content: blocks },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '72F' }] },
    ])
  })

  it.each([
    ['no list', { content: 'text' }, /no content/],
    ['something that is not a block', { content: ['x'] }, /not a block/],
    ['a call of an unknown tool', { content: [{ ...blocks[3], name: 'other' }] }, /other/],
    ['arguments that fail their schema', { content: [{ ...blocks[3], input: { city: 1 } }] }, /city/],
    ['arguments that are no object', { content: [{ ...blocks[3], input: 'SF' }] }, /not a JSON object/],
  ])('with %s is a provider_invalid_response', async (_, root, said) => {
    const provider = await setup({ answers: [{ body: message([], 'tool_use', root) }] })
    const error = await failure(provider, request, 'provider_invalid_response')
    expect(error.message).toMatch(said)
  })

  it('whose tool input breaks off in a stream is a provider_invalid_response', async () => {
    const events = streamOf(blocks, 'tool_use').filter(
      (event) => !JSON.stringify(event).includes(JSON.stringify('y":"SF"}').slice(1, -1)),
    )
    const provider = await setup({ answers: [{ events }] })
    await failure(provider, request, 'provider_invalid_response', { stream: true })
  })

  it('keeps blocks that the contract does not know in raw only', async () => {
    const content = [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'text', text: 'Found.' },
    ]
    const provider = await setup({ answers: [{ body: message(content) }] })
    const reply = await provider.complete(asked)
    expect(reply.message).toEqual({ role: 'assistant', content: 'Found.' })
    expect(reply.raw).toEqual(message(content))
  })

  it('that comes whole although a stream was asked for is read all the same', async () => {
    const provider = await setup({ answers: [{ body: message(blocks, 'tool_use') }] })
    expect(await provider.complete(request, { stream: true })).toMatchObject(expected)
  })
})

describe('a request', () => {
  it('leaves out thoughts of other providers, and messages that they leave empty', async () => {
    const provider = await setup()
    const other: AssistantMessage = {
      role: 'assistant',
      content: [
        { type: 'thinking', text: 'unsigned' },
        { type: 'text', text: 'Seen.', signature: 'of-another' },
      ],
      toolCalls: [{ id: 'c1', name: 'get_weather', arguments: null, signature: 'of-another' }],
    }
    const messages: Message[] = [...hi, other, { role: 'tool', toolCallId: 'c1', content: '' }]
    await provider.complete(frozen({ ...asked, tools: [weather], messages }))
    expect(server.bodies()[0]!['messages']).toEqual([
      hi[0],
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Seen.' },
          { type: 'tool_use', id: 'c1', name: 'get_weather', input: {} },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: '' }] },
    ])
  })

  it('has the results of several calls in one message', async () => {
    const provider = await setup()
    const call = (id: string) => ({ id, name: 'get_weather', arguments: { city: id } })
    const result = (id: string) => ({ role: 'tool', toolCallId: id, content: id }) as const
    const messages: Message[] = [
      ...hi,
      { role: 'assistant', toolCalls: [call('a'), call('b')] },
      result('a'),
      result('b'),
    ]
    await provider.complete(frozen({ ...asked, tools: [weather], messages }))
    const [, , results] = server.bodies()[0]!['messages'] as { content: object[] }[]
    expect(results!.content).toMatchObject([{ tool_use_id: 'a' }, { tool_use_id: 'b' }])
  })

  it('has the effort of the extras beside the format, and no other format', async () => {
    const provider = await setup({ rules: [{ reply: '{"value":1}' }] })
    const extras = { output_config: { effort: 'low' } }
    await provider.complete({ ...structured, config: { ...config, extras } })
    expect(server.bodies()[0]!['output_config']).toEqual({
      effort: 'low',
      format: { type: 'json_schema', schema: V },
    })
    for (const own of [{ format: { type: 'json_schema', schema: {} } }, 'x']) {
      const wrong = { ...structured, config: { ...config, extras: { output_config: own } } }
      await failure(provider, wrong, 'provider_invalid_request')
    }
    await provider.complete({ ...asked, config: { ...config, extras } })
    expect(server.bodies().map((body) => body['output_config'])).toMatchObject([{}, { effort: 'low' }])
  })

  it.each([
    [{ max_tokens: 5 }, /max_tokens/],
    [{ model: 'other' }, /model/],
    [{ system: 'Other.' }, /system/],
  ])('is refused when the extra %o contradicts it', async (extras, said) => {
    const provider = await setup()
    const messages: Message[] = [{ role: 'system', content: 'Own.' }, ...hi]
    const error = await failure(
      provider,
      { messages, config: { ...config, extras } },
      'provider_invalid_request',
    )
    expect(error.message).toMatch(said)
    expect(server.requests).toEqual([])
  })

  it('streams only when it is asked to', async () => {
    const provider = await setup()
    await provider.complete(asked)
    await provider.complete(asked, { stream: true })
    expect(server.bodies().map(({ stream }) => stream)).toEqual([undefined, true])
  })
})

describe('structured output', () => {
  it('is native, until the model refuses that: then it is the input of a tool, from then on', async () => {
    const provider = await setup({ lacks: ['format'], rules: [{ reply: '{"value":42}' }] })
    const first = await complete(provider, structured)
    const second = await complete(provider, structured)
    for (const reply of [first, second]) {
      expect(reply).toMatchObject({
        parsed: { value: 42 },
        outputMode: 'fallback',
        finishReason: 'stop',
        message: { content: '{"value":42}' },
        raw: { stop_reason: 'tool_use' },
      })
      expect(reply.message).not.toHaveProperty('toolCalls')
    }
    expect(
      server.bodies().map((body) => Object.keys(body).filter((name) => /^(out|tool_)/.test(name))),
    ).toEqual([['output_config'], ['tool_choice'], ['tool_choice']])
  })

  it('by a tool streams the input as content, to the same value', async () => {
    const provider = await setup({ rules: [{ reply: '{"value":42}' }] }, { native: false })
    const tokens: string[] = []
    const reply = await complete(provider, structured, {
      stream: true,
      onToken: ({ delta }) => tokens.push(delta),
    })
    expect(tokens.join('')).toBe('{"value":42}')
    expect(tokens.length).toBeGreaterThan(1)
    expect(reply).toMatchObject({ parsed: { value: 42 }, finishReason: 'stop' })
    expect(reply.raw).toMatchObject({ content: [{ type: 'tool_use', input: { value: 42 } }] })
  })

  it.each([
    ['has tools of its own', { tools: [weather] }],
    [
      'lets the model think',
      { config: { maxTokens: 3000, extras: { thinking: { type: 'enabled', budget_tokens: 1024 } } } },
    ],
  ])('is asked for by a directive when the request %s', async (_, more) => {
    const provider = await setup({ rules: [{ reply: '{"value":7}' }] }, { native: false })
    const reply = await provider.complete(frozen({ ...structured, ...more }))
    expect(reply).toMatchObject({ parsed: { value: 7 }, outputMode: 'fallback' })
    const [body] = server.bodies()
    expect(body!['system']).toMatch(/JSON Schema/)
    expect(body).not.toHaveProperty('tool_choice')
  })

  it('that is refused only for its schema is native for others', async () => {
    const provider = await setup({ rules: [{ reply: '{"value":1}' }] })
    const limited = { ...V, properties: { value: { type: 'integer', minimum: 0 } } }
    const modes: (string | undefined)[] = []
    for (const responseSchema of [limited, limited, V]) {
      const reply: Response = await provider.complete({ ...asked, responseSchema })
      modes.push(reply.outputMode)
    }
    expect(modes).toEqual(['fallback', 'fallback', 'native'])
    expect(server.bodies().map((body) => 'output_config' in body)).toEqual([true, false, false, true])
  })

  it.each([
    ['refusal', 'content_filter', ''],
    ['max_tokens', 'length', '{"val'],
  ])(
    'that ended with %s is invalid, with the reason and what was written',
    async (stop, finishReason, text) => {
      const content = text === '' ? [] : [{ type: 'text', text }]
      const provider = await setup({ answers: [{ body: message(content, stop) }] })
      const error = await failure(provider, structured, 'structured_output_invalid')
      expect(error).toBeInstanceOf(StructuredOutputInvalid)
      expect(error).toMatchObject({ finishReason, outputContent: text })
    },
  )

  it.each([
    ['empty', []],
    ['blank', [{ type: 'text', text: '\n' }]],
    ['blank after a thought', [blocks[1]!, { type: 'text', text: '\n' }]],
  ])('is asked for again after a reply that is %s, in roles that alternate', async (_, content) => {
    const provider = await setup({ answers: [{ body: message(content) }], rules: [{ reply: '{"value":3}' }] })
    const retry = { reask: () => 'That was empty.', backoff: () => 0 }
    expect((await provider.complete(structured, { retry })).parsed).toEqual({ value: 3 })
    expect(server.bodies()[1]!['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'text', text: 'That was empty.' },
        ],
      },
    ])
  })
})

describe('a failure', () => {
  it.each([false, true])('of the whole server is tried again (stream: %s)', async (stream) => {
    const provider = await setup({
      answers: [[529, 'overloaded_error', 'Overloaded']],
      rules: [{ reply: 'Yes.' }],
    })
    const reply = await provider.complete(asked, { stream, retry: { backoff: () => 0 } })
    expect(reply.message.content).toBe('Yes.')
    expect(reply.attempts).toMatchObject([{ error: { category: 'provider_unavailable' } }, {}])
  })

  it('inside a stream has the category of its type', async () => {
    const provider = await setup({ rules: [{ reply: { text: 'half of it', refuse: 'stream-error' } }] })
    const error = await failure(provider, asked, 'provider_unavailable', { stream: true })
    expect(error.message).toContain('Overloaded')
  })

  it('with Retry-After has its seconds', async () => {
    const provider = await setup({ answers: [[429, 'rate_limit_error', 'slow', { 'retry-after': '12' }]] })
    expect((await failure(provider, asked, 'provider_rate_limit')).retryAfter).toBe(12)
  })

  it('in the body of a 200 is a failure too', async () => {
    const body = { type: 'error', error: { type: 'api_error', message: 'broken' } }
    const provider = await setup({ answers: [{ body }] })
    await failure(provider, asked, 'provider_unavailable')
  })

  it('to send UTF-8 is an error that quotes the answer', async () => {
    const body = Buffer.from([...Buffer.from('{"content":"'), 0xff, ...Buffer.from('"}')])
    const provider = await setup({ answers: [{ by: (response) => response.end(body) }] })
    expect((await failure(provider, asked, 'provider_invalid_response')).message).toContain('not UTF-8')
  })

  it('by an abort throws its reason, and ends the request', async () => {
    const provider = await setup({ rules: [{ reply: { text: 'word '.repeat(500), tokensPerSecond: 50 } }] })
    const stopping = new AbortController()
    const reason = new Error('enough')
    const onToken = () => stopping.abort(reason)
    await expect(provider.complete(asked, { stream: true, onToken, signal: stopping.signal })).rejects.toBe(
      reason,
    )
    await server.cancelled
  })
})
