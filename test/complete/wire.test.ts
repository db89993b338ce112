// OpenArmature's published fixtures 001-008, 029-032 and 043: messages, tools, config and errors of the OpenAI mapping.
import { describe, expect, it } from 'vitest'
import type { ProviderRequest } from '../../src/complete/provider.ts'
import { calling, completion, failure, frozen, hi, setup, weather } from './harness.ts'

describe('001 basic completion', () => {
  it('gives content, finish reason, usage and the whole body', async () => {
    await using test = await setup(
      completion(
        'Hello! How can I help you today?',
        {},
        { usage: { prompt_tokens: 12, completion_tokens: 9, total_tokens: 21 } },
      ),
    )
    const messages = [{ role: 'system', content: 'You are kind.' }, ...hi] as const
    const response = await test.provider.complete(frozen({ messages }))
    expect(response.message).toEqual({ role: 'assistant', content: 'Hello! How can I help you today?' })
    expect(response.finishReason).toBe('stop')
    expect(response.usage).toEqual({ promptTokens: 12, completionTokens: 9, totalTokens: 21 })
    expect(Object.keys(response.raw)).toEqual(['id', 'object', 'created', 'model', 'choices', 'usage'])
    expect(response.parsed).toBeUndefined()
  })
})

describe('002 tool call round trip', () => {
  it('keeps the id of a call verbatim, both ways', async () => {
    const id = 'call_abc123_with_underscores'
    await using test = await setup([calling([[id, '{"city":"Boston"}']]), completion('Sunny.')])
    const first = await test.provider.complete({ messages: hi, tools: [weather] })
    expect(first.finishReason).toBe('tool_calls')
    expect(first.message.toolCalls).toEqual([{ id, name: 'get_weather', arguments: { city: 'Boston' } }])
    expect(first.message.content).toBeNull()
    const messages = [...hi, first.message, { role: 'tool', content: '72F', toolCallId: id } as const]
    await test.provider.complete(frozen({ messages, tools: [weather] }))
    expect(test.wire()[1]!['messages']).toEqual([
      ...hi,
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id, type: 'function', function: { name: 'get_weather', arguments: '{"city":"Boston"}' } },
        ],
      },
      { role: 'tool', content: '72F', tool_call_id: id },
    ])
  })
})

describe('003 message validation', () => {
  const refused: readonly [string, unknown][] = [
    ['a: a late system message', { messages: [...hi, { role: 'system', content: 'x' }, ...hi] }],
    [
      'b: a tool message with an unknown id',
      { messages: [...hi, { role: 'tool', content: '4', toolCallId: 'nope' }] },
    ],
    ['c: duplicate tool names', { messages: hi, tools: [weather, weather] }],
    ['d: an empty user message', { messages: [{ role: 'user', content: '' }] }],
    [
      'e: an empty assistant message without calls',
      { messages: [...hi, { role: 'assistant', content: '' }, ...hi] },
    ],
    ['f: an assistant message at the end', { messages: [...hi, { role: 'assistant', content: 'Yes?' }] }],
    ['no messages', { messages: [] }],
    ['an empty system message', { messages: [{ role: 'system', content: '' }, ...hi] }],
    [
      'a system message of blocks',
      { messages: [{ role: 'system', content: [{ type: 'text', text: 'x' }] }, ...hi] },
    ],
    ['an unknown role', { messages: [{ role: 'developer', content: 'x' }] }],
    ['an empty list of blocks', { messages: [{ role: 'user', content: [] }] }],
    ['an empty text block', { messages: [{ role: 'user', content: [{ type: 'text', text: '' }] }] }],
    ['a thought of the user', { messages: [{ role: 'user', content: [{ type: 'thinking', text: 'x' }] }] }],
    [
      'a tool message whose call comes later',
      {
        messages: [
          ...hi,
          { role: 'tool', content: '4', toolCallId: 'c1' },
          { role: 'assistant', toolCalls: [{ id: 'c1', name: 'f', arguments: {} }] },
          ...hi,
        ],
      },
    ],
    ['tool calls of the user', { messages: [{ role: 'user', content: 'x', toolCalls: [] }] }],
    [
      'a tool without a description',
      { messages: hi, tools: [{ name: 'f', parameters: { type: 'object' } }] },
    ],
    [
      'parameters that are no schema',
      { messages: hi, tools: [{ ...weather, parameters: { type: 'thing' } }] },
    ],
    ['a temperature that is no number', { messages: hi, config: { temperature: Number.NaN } }],
    ['an extra that is no JSON', { messages: hi, config: { extras: { n: 1n } } }],
  ]
  it.each(refused)('refuses %s, and sends nothing', async (_, request) => {
    await using test = await setup(completion('no'))
    await failure(test.provider, request as ProviderRequest, 'provider_invalid_request')
    expect(test.server.requests).toHaveLength(0)
  })

  const images: readonly [string, unknown][] = [
    ['without a source', {}],
    ['with an unknown source', { source: { type: 'file', url: 'a.png' } }],
    ['with an empty address', { source: { type: 'url', url: '' } }],
    ['with two sources', { source: { type: 'url', url: 'x:y', base64Data: 'AA==' } }],
    ['with inline bytes of no type', { source: { type: 'inline', base64Data: 'AA==' } }],
    [
      'with inline bytes that are no image',
      { mediaType: 'text/html', source: { type: 'inline', base64Data: 'AA==' } },
    ],
    [
      'with inline bytes in the wrong field',
      { mediaType: 'image/png', source: { type: 'inline', url: 'x:y' } },
    ],
    ['with a detail that is none', { source: { type: 'url', url: 'x:y' }, detail: 'ultra' }],
  ]
  it.each(images)('refuses an image %s, and sends nothing', async (_, image) => {
    await using test = await setup(completion('no'))
    const content = [{ type: 'image', ...(image as object) }]
    const request = { messages: [{ role: 'user', content }] } as unknown as ProviderRequest
    await failure(test.provider, request, 'provider_invalid_request')
    expect(test.server.requests).toHaveLength(0)
  })

  it.each(['system', 'assistant', 'tool'])('refuses an image of the role %s', async (role) => {
    await using test = await setup(completion('no'))
    const content = [{ type: 'image', source: { type: 'url', url: 'https://example.invalid/i.png' } }]
    const request = { messages: [...hi, { role, content }, ...hi] } as unknown as ProviderRequest
    await failure(test.provider, request, 'provider_invalid_request')
  })
})

describe('010-013 images', () => {
  it('sends addresses and bytes as they are, in order, and detail only when it is set', async () => {
    await using test = await setup(completion('Two.'))
    const content = [
      { type: 'image', source: { type: 'url', url: 'https://example.invalid/1.png' }, detail: 'high' },
      { type: 'text', text: 'and' },
      { type: 'image', mediaType: 'image/png', source: { type: 'inline', base64Data: 'iVBORw0=' } },
    ] as const
    await test.provider.complete(frozen({ messages: [{ role: 'user', content }] }))
    expect(test.wire()[0]!['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'https://example.invalid/1.png', detail: 'high' } },
          { type: 'text', text: 'and' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0=' } },
        ],
      },
    ])
  })

  it('sends a lone image as a block', async () => {
    await using test = await setup(completion('One.'))
    const content = [{ type: 'image', source: { type: 'url', url: 'data:image/png;base64,AA==' } }] as const
    await test.provider.complete({ messages: [{ role: 'user', content }] })
    expect(test.wire()[0]!['messages']).toEqual([
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] },
    ])
  })

  it('reports that a model takes no images', async () => {
    const message = 'This model does not support image inputs.'
    await using test = await setup({ status: 400, body: { error: { message } } })
    const content = [
      { type: 'image', source: { type: 'url', url: 'https://example.invalid/i.png' } },
    ] as const
    const request = { messages: [{ role: 'user', content }] } as const
    const thrown = await failure(test.provider, request, 'provider_unsupported_content_block')
    expect(thrown.message).toContain(message)
  })
})

describe('004 error categories', () => {
  const error = (type: string, code: string | undefined, message: string) => ({
    body: { error: { type, code, message } },
  })
  it.each([
    [
      '401',
      { status: 401, ...error('invalid_request_error', 'invalid_api_key', 'Incorrect API key') },
      'provider_authentication',
    ],
    ['403', { status: 403, ...error('forbidden', undefined, 'No access') }, 'provider_authentication'],
    [
      '404 of a model',
      { status: 404, ...error('invalid_request_error', 'model_not_found', 'No such model') },
      'provider_invalid_model',
    ],
    [
      '503 while loading',
      { status: 503, ...error('model_not_loaded', undefined, "Model 'm' is configured but not loaded") },
      'provider_model_not_loaded',
    ],
    [
      '500',
      { status: 500, ...error('server_error', undefined, 'Internal server error') },
      'provider_unavailable',
    ],
    ['200 without choices', { body: { id: 'x', object: 'chat.completion' } }, 'provider_invalid_response'],
    ['a cut connection', { cut: true }, 'provider_unavailable'],
    [
      '400',
      { status: 400, ...error('invalid_request_error', undefined, 'Bad request') },
      'provider_invalid_request',
    ],
  ] as const)('%s', async (_, answer, category) => {
    await using test = await setup(answer)
    await failure(test.provider, { messages: hi }, category)
    expect(test.server.requests).toHaveLength(1)
  })

  it('429 with its Retry-After', async () => {
    await using test = await setup({
      status: 429,
      headers: { 'retry-after': '30' },
      ...error('rate_limit_error', undefined, 'Rate limit exceeded'),
    })
    const thrown = await failure(test.provider, { messages: hi }, 'provider_rate_limit')
    expect(thrown.retryAfter).toBe(30)
    expect(thrown.retryAfterMs).toBe(30_000)
  })

  it('a refused connection, with its cause', async () => {
    const test = await setup(completion('no'))
    await test.server.close()
    const thrown = await failure(test.provider, { messages: hi }, 'provider_unavailable')
    expect(thrown.cause).toBeDefined()
  })

  it('400 that refuses a content block', async () => {
    await using test = await setup({
      status: 400,
      ...error(
        'invalid_request_error',
        undefined,
        'messages[0].content must be a string, lists are unsupported',
      ),
    })
    const content = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ] as const
    await failure(
      test.provider,
      { messages: [{ role: 'user', content }] },
      'provider_unsupported_content_block',
    )
  })
})

describe('005 wire mapping', () => {
  it('sends text and nothing else', async () => {
    await using test = await setup(completion('Hi.'))
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ] as const
    await test.provider.complete({ messages })
    expect(test.wire()).toEqual([{ model: 'test-model', messages }])
  })

  it('sends arguments as a string of JSON', async () => {
    await using test = await setup(completion('It is 4.'))
    const calculate = {
      name: 'calculate',
      description: 'Evaluate a math expression.',
      parameters: {
        type: 'object',
        properties: { expression: { type: 'string' } },
        required: ['expression'],
      },
    }
    const messages = [
      { role: 'user', content: "What's 2+2?" },
      {
        role: 'assistant',
        content: null,
        toolCalls: [{ id: 'call_xyz', name: 'calculate', arguments: { expression: '2+2' } }],
      },
      { role: 'tool', content: '4', toolCallId: 'call_xyz' },
    ] as const
    await test.provider.complete(frozen({ messages, tools: [calculate] }))
    expect(test.wire()[0]).toEqual({
      model: 'test-model',
      messages: [
        messages[0],
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: 'call_xyz',
              type: 'function',
              function: { name: 'calculate', arguments: '{"expression":"2+2"}' },
            },
          ],
        },
        { role: 'tool', content: '4', tool_call_id: 'call_xyz' },
      ],
      tools: [{ type: 'function', function: calculate }],
    })
  })

  it('sends the config at the root', async () => {
    await using test = await setup(completion('Hello'))
    const config = { temperature: 0.7, maxTokens: 100, topP: 0.95, seed: 42 }
    await test.provider.complete(frozen({ messages: hi, config }))
    expect(test.wire()[0]).toEqual({
      model: 'test-model',
      messages: hi,
      temperature: 0.7,
      max_tokens: 100,
      top_p: 0.95,
      seed: 42,
    })
  })

  it('reads function_call as tool_calls, and keeps logprobs in raw', async () => {
    const logprobs = { tokens: ['{', '}'], token_logprobs: [-0.1, -0.05] }
    await using test = await setup(
      calling([['call_legacy', '{"city":"x"}']], { finish_reason: 'function_call', logprobs }),
    )
    const response = await test.provider.complete({ messages: hi, tools: [weather] })
    expect(response.finishReason).toBe('tool_calls')
    expect(response.message.toolCalls).toHaveLength(1)
    expect(response.raw).toMatchObject({ choices: [{ logprobs }] })
  })

  it('reads a reason that it does not know as error', async () => {
    await using test = await setup(completion('x', { finish_reason: 'abort' }))
    expect((await test.provider.complete({ messages: hi })).finishReason).toBe('error')
  })

  it('sends a list of one text block as its text, and several as they are', async () => {
    await using test = await setup(completion('Hi.'))
    const text = { type: 'text', text: 'one' } as const
    await test.provider.complete(frozen({ messages: [{ role: 'user', content: [text] }] }))
    await test.provider.complete(frozen({ messages: [{ role: 'user', content: [text, text] }] }))
    expect(test.wire().map((body) => body['messages'])).toEqual([
      [{ role: 'user', content: 'one' }],
      [{ role: 'user', content: [text, text] }],
    ])
  })
})

describe('006 usage', () => {
  it('gives the counts, or three nulls when there are none', async () => {
    await using test = await setup([
      completion('x', {}, { usage: { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 } }),
      completion('x', {}, { usage: undefined }),
    ])
    const first = await test.provider.complete({ messages: hi })
    const second = await test.provider.complete({ messages: hi })
    expect(first.usage).toEqual({ promptTokens: 100, completionTokens: 50, totalTokens: 150 })
    expect(second.usage).toEqual({ promptTokens: null, completionTokens: null, totalTokens: null })
  })

  it('distinguishes a reported 0 of cached tokens from none, and a malformed one is null', async () => {
    const usage = (cached_tokens: unknown) => ({
      usage: {
        prompt_tokens: 1,
        completion_tokens: 1,
        total_tokens: 2,
        prompt_tokens_details: { cached_tokens },
      },
    })
    await using test = await setup([
      completion('x', {}, usage(0)),
      completion('x', {}, usage('many')),
      completion('x'),
    ])
    const seen = []
    for (let n = 0; n < 3; n++) seen.push((await test.provider.complete({ messages: hi })).usage)
    expect(seen.map((usage) => usage.cachedTokens)).toEqual([0, null, undefined])
  })
})

describe('007 ready', () => {
  const listing = (...data: object[]) => ({ body: { object: 'list', data } })
  it('is fine with a model that is listed and loaded, and asks for no completion', async () => {
    await using test = await setup(listing({ id: 'test-model', object: 'model', status: 'loaded' }))
    await test.provider.ready()
    expect(test.server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual(['GET /v1/models'])
  })

  it.each([
    [
      'a model that is not loaded',
      listing({ id: 'test-model', status: 'not_loaded' }),
      'provider_model_not_loaded',
    ],
    [
      'a key that is refused',
      { status: 401, body: { error: { message: 'Invalid' } } },
      'provider_authentication',
    ],
    ['a model that is missing', listing({ id: 'gpt-4o-mini' }), 'provider_invalid_model'],
    ['a network that fails', { cut: true }, 'provider_unavailable'],
  ])('raises for %s', async (_, answer, category) => {
    await using test = await setup(answer)
    await expect(test.provider.ready()).rejects.toMatchObject({ category })
  })
})

describe('008 an error with malformed tool calls', () => {
  const calls = [
    ['call_valid_001', '{"city": "Boston"}'],
    ['call_schema_violating_002', '{"city": "Seattle", "extra": "ignored"}'],
    ['call_truncated_003', '{"city": "London", "ext'],
  ] as const
  it('surfaces what could be read, and raises nothing', async () => {
    await using test = await setup(calling(calls, { finish_reason: 'error' }))
    const response = await test.provider.complete({ messages: hi, tools: [weather] })
    expect(response.finishReason).toBe('error')
    expect(response.message.toolCalls?.map((call) => call.arguments)).toEqual([
      { city: 'Boston' },
      { city: 'Seattle', extra: 'ignored' },
      null,
    ])
    expect(response.raw).toMatchObject({
      choices: [{ message: { tool_calls: [{}, {}, { function: { arguments: calls[2][1] } }] } }],
    })
  })

  it.each([calls[1], calls[2]])('is an invalid response without the error: %s', async (id, text) => {
    await using test = await setup(calling([[id, text]]))
    await failure(test.provider, { messages: hi, tools: [weather] }, 'provider_invalid_response')
  })

  it('is an invalid response when the tool is unknown', async () => {
    await using test = await setup(calling([['c1', '{}']]))
    await failure(test.provider, { messages: hi }, 'provider_invalid_response')
  })
})

describe('029-031 tool_choice', () => {
  it('029 sends the mode verbatim, and no key without one', async () => {
    await using test = await setup(completion('x'))
    for (const toolChoice of [undefined, 'auto', 'required', 'none'] as const)
      await test.provider.complete({ messages: hi, tools: [weather], toolChoice })
    expect(test.wire().map((body) => body['tool_choice'])).toEqual([undefined, 'auto', 'required', 'none'])
    expect(test.wire()[0]).not.toHaveProperty('tool_choice')
  })

  it('029 does not enforce none afterwards', async () => {
    await using test = await setup(calling([['c1', '{"city":"x"}']]))
    const response = await test.provider.complete({ messages: hi, tools: [weather], toolChoice: 'none' })
    expect(response.finishReason).toBe('tool_calls')
  })

  it('030 forces a tool by its name', async () => {
    await using test = await setup(calling([['c1', '{"city":"x"}']]))
    await test.provider.complete({
      messages: hi,
      tools: [weather],
      toolChoice: { type: 'tool', name: 'get_weather' },
    })
    expect(test.wire()[0]!['tool_choice']).toEqual({ type: 'function', function: { name: 'get_weather' } })
  })

  it.each([
    ['required without tools', { toolChoice: 'required' }],
    ['a forced tool without tools', { toolChoice: { type: 'tool', name: 'search' } }],
    ['a forced tool that is unknown', { tools: [weather], toolChoice: { type: 'tool', name: 'search' } }],
    ['a mode that is none', { tools: [weather], toolChoice: 'sometimes' }],
  ])('031 refuses %s, and sends nothing', async (_, more) => {
    await using test = await setup(completion('no'))
    await failure(test.provider, { messages: hi, ...more } as ProviderRequest, 'provider_invalid_request')
    expect(test.server.requests).toHaveLength(0)
  })
})

describe('032 runtime config', () => {
  it('sends all seven declared fields, and extras at the root', async () => {
    await using test = await setup(completion('x'))
    await test.provider.complete(
      frozen({
        messages: hi,
        config: {
          temperature: 0.5,
          maxTokens: 64,
          topP: 0.9,
          seed: 7,
          frequencyPenalty: 0.1,
          presencePenalty: 0.2,
          stopSequences: ['END'],
          extras: { repetition_penalty: 1.05 },
        },
      }),
    )
    expect(test.wire()[0]).toEqual({
      model: 'test-model',
      messages: hi,
      temperature: 0.5,
      max_tokens: 64,
      top_p: 0.9,
      seed: 7,
      frequency_penalty: 0.1,
      presence_penalty: 0.2,
      stop: ['END'],
      repetition_penalty: 1.05,
    })
  })

  it('leaves out what is not set, and sends no null', async () => {
    await using test = await setup(completion('x'))
    const config = { temperature: 0, maxTokens: 32, topP: null, seed: undefined, stopSequences: null }
    await test.provider.complete({ messages: hi, config })
    expect(test.wire()[0]).toEqual({ model: 'test-model', messages: hi, temperature: 0, max_tokens: 32 })
  })
})

describe('043 thoughts of another turn', () => {
  it('are not sent back, nor are signatures', async () => {
    await using test = await setup(completion('x'))
    const content = [
      { type: 'thinking', text: 'Hm.', signature: 'sig' },
      { type: 'redacted_thinking', data: 'sealed' },
      { type: 'text', text: 'Yes.', signature: 'sig' },
    ] as const
    await test.provider.complete(frozen({ messages: [...hi, { role: 'assistant', content }, ...hi] }))
    expect(test.wire()[0]!['messages']).toEqual([...hi, { role: 'assistant', content: 'Yes.' }, ...hi])
  })
})
