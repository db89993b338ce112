// OpenArmature's provider on Gemini's API, beyond the published fixtures: against a server that keeps the published rules of the wire.
import { afterEach, describe, expect, it } from 'vitest'
import { createGeminiProvider, type GeminiProviderOptions } from '../../src/complete/gemini/gemini.ts'
import type { CallOptions, ProviderRequest, TokenEvent } from '../../src/complete/provider.ts'
import type { Category } from '../../src/llm/provider-error.ts'
import { chunk, type GeminiScript, type GeminiServer, startGeminiServer } from '../support/gemini-server.ts'
import type { Scripted } from '../support/recording-server.ts'
import { failure, frozen, hi, turned, V, weather } from './harness.ts'

let server: GeminiServer
afterEach(() => server?.close())

async function started(script: GeminiScript | Scripted[], options: Partial<GeminiProviderOptions> = {}) {
  server = await startGeminiServer(Array.isArray(script) ? { answers: script } : script)
  return createGeminiProvider({ baseUrl: server.origin, model: 'test-model', ...options })
}

const whole = (...parts: Record<string, unknown>[]): Scripted => ({ body: chunk(parts, 'STOP') })
const asked = (more: Partial<ProviderRequest> = {}): ProviderRequest => ({ messages: hi, ...more })

describe('a reply', () => {
  const call = { name: 'get_weather', args: { city: 'Ulm' } }

  it('is the same whole and streamed, with its blocks, calls and signatures', async () => {
    const pieces = [
      chunk([{ text: 'Let me ', thought: true }]),
      chunk([{ text: 'look.', thought: true }]),
      chunk([{ text: 'I ' }]),
      chunk([{ text: 'look', thoughtSignature: 's1' }]),
      chunk([{ text: ' it up.' }, { text: '', thoughtSignature: 's2' }]),
      chunk([{ functionCall: call, thoughtSignature: 's3' }], 'STOP', [7, 9]),
    ]
    const all = chunk(
      [
        { text: 'Let me look.', thought: true },
        { text: 'I look', thoughtSignature: 's1' },
        { text: ' it up.', thoughtSignature: 's2' },
        { functionCall: call, thoughtSignature: 's3' },
      ],
      'STOP',
      [7, 9],
    )
    const provider = await started([{ events: pieces }, { body: all }])
    const tokens: TokenEvent[] = []
    const request = asked({ tools: [weather] })
    const streamed = await provider.complete(frozen(request), {
      stream: true,
      onToken: (token) => tokens.push(token),
    })
    const atOnce = await provider.complete(frozen(request))
    expect({ ...streamed, attempts: [] }).toEqual({ ...atOnce, attempts: [] })
    expect(streamed.raw).toEqual(all)
    expect(streamed).toMatchObject({
      finishReason: 'tool_calls',
      usage: { promptTokens: 7, completionTokens: 9, totalTokens: 16 },
      message: {
        content: [
          { type: 'thinking', text: 'Let me look.' },
          { type: 'text', text: 'I look', signature: 's1' },
          { type: 'text', text: ' it up.', signature: 's2' },
        ],
        toolCalls: [{ name: 'get_weather', arguments: { city: 'Ulm' }, signature: 's3' }],
      },
    })
    expect(tokens.map(({ deltaKind, delta }) => `${deltaKind} ${delta}`)).toEqual([
      'reasoning Let me ',
      'reasoning look.',
      'content I ',
      'content look',
      'content  it up.',
    ])
    expect(server.requests.map(({ path }) => path.split(':')[1])).toEqual([
      'streamGenerateContent?alt=sse',
      'generateContent',
    ])
  })

  it('whose calls have no ids gets some, which the results name; the server accepts the round trip', async () => {
    const provider = await started([
      whole({ functionCall: call }, { functionCall: { name: 'get_weather', args: { city: 'Bonn' } } }),
      whole({ text: 'Sunny.' }),
    ])
    const first = await provider.complete(asked({ tools: [weather] }))
    const ids = first.message.toolCalls!.map(({ id }) => id)
    expect(new Set(ids).size).toBe(2)
    const results = ids.map((toolCallId, n) => ({ role: 'tool', toolCallId, content: `sunny ${n}` }) as const)
    const second = await provider.complete(
      asked({ messages: [...hi, first.message, ...results], tools: [weather] }),
    )
    expect(second.message.content).toBe('Sunny.')
    expect(server.bodies()[1]!['contents']).toEqual([
      { role: 'user', parts: [{ text: 'Hi' }] },
      {
        role: 'model',
        parts: ids.map((id, n) => ({
          functionCall: { id, name: 'get_weather', args: { city: ['Ulm', 'Bonn'][n] } },
        })),
      },
      {
        role: 'user',
        parts: ids.map((id, n) => ({
          functionResponse: { id, name: 'get_weather', response: { result: `sunny ${n}` } },
        })),
      },
    ])
  })

  it('has null content when it only calls, an empty text when a filter removed it, and the tokens of the cache', async () => {
    const usageMetadata = {
      promptTokenCount: 9,
      candidatesTokenCount: 0,
      totalTokenCount: 9,
      cachedContentTokenCount: 5,
      thoughtsTokenCount: 4,
    }
    const provider = await started([
      whole({ functionCall: call }),
      { body: { candidates: [{ finishReason: 'SAFETY' }], usageMetadata } },
    ])
    expect((await provider.complete(asked({ tools: [weather] }))).message.content).toBeNull()
    expect(await provider.complete(asked())).toMatchObject({
      message: { content: '' },
      finishReason: 'content_filter',
      usage: { promptTokens: 9, completionTokens: 0, totalTokens: 9, cachedTokens: 5 },
    })
  })

  const misfits: [string, Scripted, Category][] = [
    ['no candidates', { body: { candidates: [] } }, 'provider_invalid_response'],
    ['a page', { body: '<html>Hello</html>' }, 'provider_invalid_response'],
    [
      'bytes that are no UTF-8',
      { headers: { 'content-type': 'application/json' }, body: Buffer.from([0x7b, 0xff, 0x7d]) as never },
      'provider_invalid_response',
    ],
    [
      'a call of a tool that is not there',
      whole({ functionCall: { name: 'other', args: {} } }),
      'provider_invalid_response',
    ],
    [
      'a call with other arguments',
      whole({ functionCall: { name: 'get_weather', args: { town: 1 } } }),
      'provider_invalid_response',
    ],
    [
      'an error with status 200',
      { body: { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } } },
      'provider_unavailable',
    ],
    ['a blocked prompt', { body: { promptFeedback: { blockReason: 'SAFETY' } } }, 'provider_invalid_request'],
  ]
  it.each(misfits)('of %s is an error, whole and streamed', async (_, answer, category) => {
    const provider = await started([
      answer,
      answer.events || typeof answer.body === 'string' || Buffer.isBuffer(answer.body)
        ? answer
        : { events: [answer.body] },
    ])
    for (const options of [{}, { stream: true }] satisfies CallOptions[])
      await failure(provider, asked({ tools: [weather] }), category, options)
  })

  it('that breaks off, or that an event spoils, is an error of a stream', async () => {
    const provider = await started([
      { events: [chunk([{ text: 'a' }])] },
      { events: [chunk([{ text: 'a' }]), '{"candidates'] },
    ])
    await failure(provider, asked(), 'provider_unavailable', { stream: true })
    await failure(provider, asked(), 'provider_invalid_response', { stream: true })
  })
})

describe('a request', () => {
  it('is the same bytes for the same input, whatever the order of its keys', async () => {
    const provider = await started([whole({ text: '{"value":1}' })].concat(whole({ text: '{"value":1}' })))
    const request = {
      messages: [{ role: 'system', content: 'S' }, ...hi],
      responseSchema: V,
      config: {
        temperature: 0.5,
        maxTokens: 9,
        extras: { thinkingConfig: { thinkingBudget: 0, includeThoughts: false }, topK: 3 },
      },
    } as const
    await provider.complete(frozen(request))
    await provider.complete(frozen(turned(request)))
    expect(server.requests[0]!.text).toBe(server.requests[1]!.text)
  })

  it('leaves out what other providers signed, and turns without a part', async () => {
    const provider = await started([whole({ text: 'ok' })])
    await provider.complete(
      asked({
        messages: [
          ...hi,
          {
            role: 'assistant',
            content: [
              { type: 'thinking', text: 'of another', signature: 'x' },
              { type: 'redacted_thinking', data: 'y' },
            ],
          },
          ...hi,
        ],
      }),
    )
    expect(server.bodies()[0]!['contents']).toEqual([
      { role: 'user', parts: [{ text: 'Hi' }] },
      { role: 'user', parts: [{ text: 'Hi' }] },
    ])
  })

  it.each([
    ['https://example.org/a/cat.PNG?size=1', undefined, 'image/png'],
    ['https://example.org/cat', 'image/webp', 'image/webp'],
    ['gs://bucket/cat.jpeg', undefined, 'image/jpeg'],
    ['https://example.org/cat', undefined, undefined],
  ])('says of the image %s what it is', async (url, mediaType, mimeType) => {
    const provider = await started([whole({ text: 'A cat.' })])
    const content = [{ type: 'image', source: { type: 'url', url }, mediaType }] as const
    await provider.complete(asked({ messages: [{ role: 'user', content }] }))
    expect(server.bodies()[0]).toMatchObject({ contents: [{ parts: [{ fileData: { fileUri: url } }] }] })
    expect(JSON.stringify(server.bodies()[0])).toContain(
      mimeType === undefined ? '{"fileUri"' : `"mimeType":"${mimeType}"`,
    )
  })

  it.each([
    [400, 'INVALID_ARGUMENT', 'Unsupported MIME type: image/bmp'],
    [400, 'INVALID_ARGUMENT', 'Unsupported file URI type: https://example.org/cat'],
    [400, 'INVALID_ARGUMENT', 'Cannot fetch content from the provided URL.'],
    [403, 'PERMISSION_DENIED', 'You do not have permission to access the File abc or it may not exist.'],
  ] as const)(
    'whose image is refused with %i %s says so, and the schema is not blamed: %s',
    async (...refused) => {
      const provider = await started({ answers: [refused], rules: [{ reply: '{"value":7}' }] })
      const content = [{ type: 'image', source: { type: 'url', url: 'https://example.org/cat' } }] as const
      const request = asked({ messages: [{ role: 'user', content }], responseSchema: V })
      await failure(provider, request, 'provider_unsupported_content_block')
      expect((await provider.complete(request)).outputMode).toBe('native')
    },
  )

  it('with a field twice is refused before it is sent; an extra of the root goes there', async () => {
    const provider = await started([whole({ text: '{"value":1}' })])
    const config = (extras: Record<string, unknown>) => ({ config: { temperature: 0, extras } })
    for (const extras of [{ temperature: 1 }, { contents: [] }, { a: 1n }])
      await failure(provider, asked(config(extras)), 'provider_invalid_request')
    await failure(
      provider,
      asked({ responseSchema: V, ...config({ responseMimeType: 'text/plain' }) }),
      'provider_invalid_request',
    )
    expect(server.requests).toEqual([])
    const toolConfig = { functionCallingConfig: { mode: 'VALIDATED' } }
    await provider.complete(asked({ tools: [weather], ...config({ toolConfig, topK: 2 }) }))
    expect(server.bodies()[0]).toMatchObject({ toolConfig, generationConfig: { temperature: 0, topK: 2 } })
  })
})

describe('structured output', () => {
  it('of a model that takes no schema is asked for by a directive, and the schema is not tried again', async () => {
    const rules = [{ reply: '{"value":7}' }]
    const provider = await started({ rules, lacks: ['schema'] })
    for (const calls of [2, 3]) {
      const { parsed, outputMode } = await provider.complete(asked({ responseSchema: V }))
      expect([parsed, outputMode, server.bodies().length]).toEqual([{ value: 7 }, 'fallback', calls])
    }
    expect(server.bodies()[1]).toMatchObject({
      systemInstruction: { parts: [{ text: expect.stringContaining('"value"') }] },
    })
    expect(server.bodies()[1]).not.toHaveProperty('generationConfig')
  })
})

it('is ready when its server has the model and accepts the key', async () => {
  await (await started({ models: ['test-model'] })).ready()
  await expect((await started({ models: ['other'] })).ready()).rejects.toMatchObject({
    category: 'provider_invalid_model',
  })
  await expect((await started({ apiKey: 'another' })).ready()).rejects.toMatchObject({
    category: 'provider_authentication',
  })
})
