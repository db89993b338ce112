// OpenArmature's published fixtures 059, 060 and 068-071: a streamed reply is the same as a whole one; counts as reported.
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { TokenEvent } from '../../src/complete/provider.ts'
import { calling, chunk, completion, counted, failure, hi, P, setup, usageChunk, weather } from './harness.ts'

const hello = [
  chunk({ role: 'assistant', content: 'Hello' }),
  chunk({ content: ', ' }),
  chunk({ content: 'world.' }, 'stop'),
  usageChunk(7, 3, 10),
  '[DONE]',
]

describe('a streamed value that repeats itself without end', () => {
  const phrase = 'a mill of '.repeat(100)

  it('is stopped, and neither asked about nor tried again', async () => {
    let closed: Promise<unknown> | undefined
    await using test = await setup({
      by(response) {
        closed = once(response, 'close')
        response.setHeader('content-type', 'text/event-stream')
        const write = (content: string) => response.write(`data: ${JSON.stringify(chunk({ content }))}\n\n`)
        write('{"name":"')
        for (let count = 0; count < 40; count++) write(phrase)
      },
    })
    const seen: TokenEvent[] = []
    const retry = { maxAttempts: 3, backoff: () => 0, reask: () => 'Again.' }
    const thrown = await failure(
      test.provider,
      { messages: hi, responseSchema: P },
      'structured_output_invalid',
      { stream: true, onToken: (event) => void seen.push(event), retry },
    )
    expect(thrown).toMatchObject({ code: 'repetition', finishReason: 'length' })
    expect(seen.length).toBeLessThan(36)
    expect(test.server.requests).toHaveLength(1)
    // The server never ends it.
    await closed
  })

  it('is not stopped without a schema', async () => {
    const events = [
      ...Array.from({ length: 40 }, () => chunk({ content: phrase })),
      chunk({}, 'stop'),
      '[DONE]',
    ]
    await using test = await setup({ events })
    const { message } = await test.provider.complete({ messages: hi }, { stream: true })
    expect(message.content).toHaveLength(40 * phrase.length)
  })
})

describe('059 streaming', () => {
  it('a: puts content together, and asks for usage', async () => {
    await using test = await setup({ events: hello })
    const seen: TokenEvent[] = []
    const response = await test.provider.complete(
      { messages: hi },
      { stream: true, onToken: (event) => void seen.push(event) },
    )
    expect(test.wire()[0]).toEqual({
      model: 'test-model',
      messages: hi,
      stream: true,
      stream_options: { include_usage: true },
    })
    expect(response).toMatchObject({
      message: { role: 'assistant', content: 'Hello, world.' },
      finishReason: 'stop',
      usage: { promptTokens: 7, completionTokens: 3, totalTokens: 10 },
      raw: { choices: [{}], usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 } },
    })
    expect(response.message).not.toHaveProperty('toolCalls')
    expect(seen.map(({ deltaKind, delta, chunkIndex }) => [deltaKind, delta, chunkIndex])).toEqual([
      ['content', 'Hello', 0],
      ['content', ', ', 1],
      ['content', 'world.', 2],
    ])
    expect(new Set(seen.map(({ callId }) => callId)).size).toBe(1)
  })

  it('a: gives the pieces as they arrive', async () => {
    let release = () => {}
    await using test = await setup({
      by: (response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.write(`data: ${JSON.stringify(chunk({ content: 'one' }))}\n\n`)
        release = () =>
          response.end(`data: ${JSON.stringify(chunk({ content: 'two' }, 'stop'))}\n\ndata: [DONE]\n\n`)
      },
    })
    const seen: string[] = []
    const response = await test.provider.complete(
      { messages: hi },
      {
        stream: true,
        onToken: ({ delta }) => {
          seen.push(delta)
          if (delta === 'one') release()
        },
      },
    )
    expect(seen).toEqual(['one', 'two'])
    expect(response.message.content).toBe('onetwo')
  })

  it('b: puts tool calls together', async () => {
    const part = (index: number, fields: object, called: object) => ({
      tool_calls: [{ index, ...fields, function: called }],
    })
    await using test = await setup({
      events: [
        chunk({
          role: 'assistant',
          content: null,
          ...part(0, { id: 'call_s9', type: 'function' }, { name: 'get_weather', arguments: '' }),
        }),
        chunk(part(0, {}, { arguments: '{"city":' })),
        chunk(
          part(
            1,
            { id: 'call_s10', type: 'function' },
            { name: 'get_weather', arguments: '{"city":"Rome"}' },
          ),
        ),
        chunk(part(0, {}, { arguments: ' "Paris"}' })),
        chunk({}, 'tool_calls'),
        usageChunk(12, 8, 20),
        '[DONE]',
      ],
    })
    const response = await test.provider.complete({ messages: hi, tools: [weather] }, { stream: true })
    expect(response.finishReason).toBe('tool_calls')
    expect(response.message).toEqual({
      role: 'assistant',
      content: null,
      toolCalls: [
        { id: 'call_s9', name: 'get_weather', arguments: { city: 'Paris' } },
        { id: 'call_s10', name: 'get_weather', arguments: { city: 'Rome' } },
      ],
    })
  })

  it('b: distinguishes calls by their ids when a server does not number them', async () => {
    const call = (id: string, city: string) => ({
      tool_calls: [{ index: 0, id, function: { name: 'get_weather', arguments: `{"city":"${city}"}` } }],
    })
    await using test = await setup({
      events: [chunk(call('a', 'Paris')), chunk(call('b', 'Rome'), 'tool_calls'), '[DONE]'],
    })
    const response = await test.provider.complete({ messages: hi, tools: [weather] }, { stream: true })
    expect(response.message.toolCalls?.map((each) => [each.id, each.arguments])).toEqual([
      ['a', { city: 'Paris' }],
      ['b', { city: 'Rome' }],
    ])
  })

  it.each(['reasoning_content', 'reasoning'])('c: keeps thoughts apart, from %s', async (name) => {
    await using test = await setup([
      {
        events: [
          chunk({ role: 'assistant', [name]: 'Let me ' }),
          chunk({ [name]: 'think.' }),
          chunk({ content: 'It is 42.' }, 'stop'),
          usageChunk(10, 6, 16),
          '[DONE]',
        ],
      },
      completion('It is 42.', { message: { [name]: 'Let me think.' } }, counted(10, 6, 16)),
    ])
    const kinds: string[] = []
    const streamed = await test.provider.complete(
      { messages: hi },
      { stream: true, onToken: ({ deltaKind }) => void kinds.push(deltaKind) },
    )
    expect(streamed.message.content).toEqual([
      { type: 'thinking', text: 'Let me think.' },
      { type: 'text', text: 'It is 42.' },
    ])
    expect(kinds).toEqual(['reasoning', 'reasoning', 'content'])
    const { raw: _, ...whole } = await test.provider.complete({ messages: hi })
    expect(streamed).toMatchObject(whole)
  })

  it('is the same as a whole reply, parsed value included', async () => {
    const content = '{"name":"Alice","age":30}'
    const usage = counted(7, 3, 10)
    await using test = await setup([
      {
        events: [
          chunk({ content: content.slice(0, 9) }),
          chunk({ content: content.slice(9) }, 'stop'),
          usageChunk(7, 3, 10),
          '[DONE]',
        ],
      },
      completion(content, {}, usage),
    ])
    const request = { messages: hi, responseSchema: P }
    const { raw: streamedRaw, ...streamed } = await test.provider.complete(request, { stream: true })
    const { raw, ...whole } = await test.provider.complete(request)
    expect(streamed).toEqual(whole)
    expect(streamedRaw['usage']).toEqual(raw['usage'])
  })

  it('takes a whole reply from a server that ignores the flag', async () => {
    await using test = await setup(completion('Hi.'))
    const response = await test.provider.complete({ messages: hi }, { stream: true })
    expect(response.message.content).toBe('Hi.')
    expect(response.raw).toMatchObject({ id: 'cc-1', usage: { total_tokens: 6 } })
  })

  it('starts the count of pieces again in the next attempt, under another id', async () => {
    await using test = await setup([{ events: hello.slice(0, 2) }, { events: hello }])
    const seen: TokenEvent[] = []
    const response = await test.provider.complete(
      { messages: hi },
      { stream: true, onToken: (event) => void seen.push(event), retry: { backoff: () => 0 } },
    )
    expect(response.message.content).toBe('Hello, world.')
    expect(seen.map(({ chunkIndex }) => chunkIndex)).toEqual([0, 1, 0, 1, 2])
    expect(new Set(seen.map(({ callId }) => callId)).size).toBe(2)
  })

  it('gives no token after an abort, and throws its reason', async () => {
    await using test = await setup({ events: hello })
    const stopped = new AbortController()
    const reason = new Error('enough')
    let tokens = 0
    const onToken = () => {
      tokens++
      stopped.abort(reason)
    }
    const options = { stream: true, onToken, signal: stopped.signal }
    await expect(test.provider.complete({ messages: hi }, options)).rejects.toBe(reason)
    expect(tokens).toBe(1)
  })

  it('is a failure when it breaks off, and when it holds an error', async () => {
    await using test = await setup([
      { events: hello.slice(0, 2) },
      { events: [hello[0], { error: { message: 'boom' } }] },
    ])
    await failure(test.provider, { messages: hi }, 'provider_unavailable', { stream: true })
    await failure(test.provider, { messages: hi }, 'provider_unavailable', { stream: true })
  })
})

describe('060 a server that cannot stream', () => {
  it('is not asked to, and serves whole replies', async () => {
    await using test = await setup(completion('x'), { streaming: false })
    let tokens = 0
    const options = { stream: true, onToken: () => void tokens++ }
    await failure(test.provider, { messages: hi }, 'provider_invalid_request', options)
    expect({ tokens, calls: test.server.requests.length }).toEqual({ tokens: 0, calls: 0 })
    expect((await test.provider.complete({ messages: hi })).message.content).toBe('x')
  })
})

describe('068-071 malformed counts', () => {
  const nothing = { promptTokens: null, completionTokens: null, totalTokens: null }
  it.each([
    ['068 one', ['abc', 50, 150], { promptTokens: null, completionTokens: 50, totalTokens: 150 }],
    ['069 all', ['abc', -5, true], nothing],
    ['fractions', [1.5, 2, 3], { promptTokens: null, completionTokens: 2, totalTokens: 3 }],
    [
      'a total that is not reported, with both addends',
      [2, 3, undefined],
      { promptTokens: 2, completionTokens: 3, totalTokens: 5 },
    ],
    [
      '070 a total that is not reported, with one',
      ['abc', 7, undefined],
      { promptTokens: null, completionTokens: 7, totalTokens: null },
    ],
  ] as const)('%s', async (_, [prompt, written, total], expected) => {
    await using test = await setup(completion('x', {}, counted(prompt, written, total)))
    const response = await test.provider.complete({ messages: hi })
    expect(response.usage).toEqual(expected)
    expect(response.raw['usage']).toEqual(JSON.parse(JSON.stringify(counted(prompt, written, total).usage)))
  })

  it('071 in the last chunk of a stream, verbatim in raw', async () => {
    await using test = await setup({ events: [...hello.slice(0, 3), usageChunk('abc', 3, 10), '[DONE]'] })
    const response = await test.provider.complete({ messages: hi }, { stream: true })
    expect(response.usage).toEqual({ promptTokens: null, completionTokens: 3, totalTokens: 10 })
    expect(response.raw['usage']).toEqual({ prompt_tokens: 'abc', completion_tokens: 3, total_tokens: 10 })
  })

  it('does not hide the message', async () => {
    await using test = await setup(calling([['c', '{"city":"x"}']], { finish_reason: 'stop' }))
    const response = await test.provider.complete({ messages: hi, tools: [weather], responseSchema: P })
    expect(response).toMatchObject({ finishReason: 'stop', parsed: undefined })
  })
})
