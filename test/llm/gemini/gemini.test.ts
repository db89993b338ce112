// The model of Gemini's API, against a server that keeps the published rules of its wire.
import { afterEach, describe, expect, it } from 'vitest'
import { type ErrorCode, GraphmillError } from '../../../src/errors.ts'
import { geminiSchema } from '../../../src/llm/gemini/format.ts'
import {
  createGemini,
  type GeminiOptions,
  geminiJson,
  listGeminiModels,
  onlyGeminiModel,
} from '../../../src/llm/gemini/gemini.ts'
import type { CompletionEvent, CompletionRequest, JsonSchema } from '../../../src/llm/llm.ts'
import { isOutputRefusal } from '../../../src/llm/structured-output/schema-refusal.ts'
import {
  chunk,
  type GeminiScript,
  type GeminiServer,
  type GoogleError,
  startGeminiServer,
} from '../../support/gemini-server.ts'
import type { Scripted } from '../../support/recording-server.ts'

const never = new AbortController().signal
const question: CompletionRequest = { messages: [{ role: 'user', content: 'What is a mill?' }] }

let server: GeminiServer
afterEach(() => server?.close())

async function started(script: GeminiScript = {}, options: Partial<GeminiOptions> = {}) {
  server = await startGeminiServer(script)
  return createGemini({ baseUrl: server.origin, model: 'test-model', apiKey: 'key-12345678', ...options })
}

const says = (...events: readonly unknown[]): GeminiScript => ({ answers: [{ events }] })

async function collect(events: AsyncIterable<CompletionEvent>) {
  const got: CompletionEvent[] = []
  for await (const event of events) got.push(event)
  const text = (kind: string) =>
    got.map((event) => (event.type === 'delta' && event.kind === kind ? event.text : '')).join('')
  const end = got.at(-1)
  if (end?.type !== 'end') throw new Error('no end')
  return { content: text('content'), reasoning: text('reasoning'), end }
}

async function failure(events: AsyncIterable<CompletionEvent>): Promise<GraphmillError> {
  const thrown = await collect(events).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(GraphmillError)
  return thrown as GraphmillError
}

describe('a request', () => {
  it('has the key in a header and the model in the path; roles, system text and sampling as Google names them', async () => {
    const llm = await started({ apiKey: 'key-12345678' })
    await collect(
      llm.stream(
        {
          messages: [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: 'One?' },
            { role: 'assistant', content: 'Yes.' },
            { role: 'user', content: 'Two?' },
          ],
          sampling: {
            temperature: 0,
            maxTokens: 100,
            topP: 0.9,
            seed: 7,
            frequencyPenalty: 0.5,
            presencePenalty: 0.25,
            stop: ['END'],
          },
        },
        never,
      ),
    )
    const [{ path, json }] = server.requests as [(typeof server.requests)[number]]
    expect(path).toBe('/v1beta/models/test-model:streamGenerateContent?alt=sse')
    expect(json).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ text: 'One?' }] },
        { role: 'model', parts: [{ text: 'Yes.' }] },
        { role: 'user', parts: [{ text: 'Two?' }] },
      ],
      generationConfig: {
        temperature: 0,
        maxOutputTokens: 100,
        topP: 0.9,
        seed: 7,
        frequencyPenalty: 0.5,
        presencePenalty: 0.25,
        stopSequences: ['END'],
      },
    })
  })

  it('has nothing that is not set', async () => {
    await collect((await started()).stream(question, never))
    expect(server.bodies()).toEqual([{ contents: [{ role: 'user', parts: [{ text: 'What is a mill?' }] }] }])
  })

  it('has no part without text, such as an earlier reply that was empty', async () => {
    const llm = await started()
    const messages = [
      { role: 'system', content: '' },
      { role: 'user', content: 'One?' },
      { role: 'assistant', content: '' },
      { role: 'user', content: 'Two?' },
    ] as const
    await collect(llm.stream({ messages }, never))
    expect(server.bodies()).toEqual([
      {
        contents: [
          { role: 'user', parts: [{ text: 'One?' }] },
          { role: 'user', parts: [{ text: 'Two?' }] },
        ],
      },
    ])
  })

  it('has extra fields in generationConfig, apart from those of the root, and merges stop sequences', async () => {
    const llm = await started()
    const extras = {
      topK: 4,
      thinkingConfig: { thinkingBudget: 0 },
      stopSequences: ['B', 'A'],
      safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }],
    }
    await collect(llm.stream({ ...question, sampling: { stop: ['A'] }, extras }, never))
    expect(server.bodies()[0]).toMatchObject({
      safetySettings: extras.safetySettings,
      generationConfig: { topK: 4, thinkingConfig: { thinkingBudget: 0 }, stopSequences: ['A', 'B'] },
    })
  })

  it('is not sent when an extra field contradicts it', async () => {
    const llm = await started()
    for (const extras of [{ temperature: 1 }, { contents: [] }]) {
      const error = await failure(llm.stream({ ...question, sampling: { temperature: 0 }, extras }, never))
      expect(error.code).toBe('llm_request_invalid')
    }
    expect(server.requests).toEqual([])
  })

  it.each([
    ['gemini-2.5-flash', '/v1beta/models/gemini-2.5-flash:'],
    ['models/gemini-2.5-flash', '/v1beta/models/gemini-2.5-flash:'],
    ['tunedModels/mine', '/v1beta/tunedModels/mine:'],
    ['a model?', '/v1beta/models/a%20model%3F:'],
  ])('names the model %s in its path', async (model, path) => {
    const llm = await started({}, { model })
    await collect(llm.stream(question, never)).catch(() => undefined)
    expect(server.requests[0]!.path.startsWith(path)).toBe(true)
  })

  it('goes to the version of the API that the address names', async () => {
    server = await startGeminiServer()
    const llm = createGemini({ baseUrl: `${server.origin}/v1alpha/`, model: 'm' })
    await failure(llm.stream(question, never))
    expect(llm.destination).toBe(`${server.origin}/v1alpha`)
    expect(server.requests[0]!.path).toMatch(/^\/v1alpha\/models\/m:/)
    expect(createGemini({ model: 'm' }).destination).toBe('https://generativelanguage.googleapis.com/v1beta')
  })

  it.each(['nonsense', 'ftp://example.org', 'https://user:pw@example.org'])(
    'needs an address, not %s',
    (baseUrl) => {
      expect(() => createGemini({ baseUrl, model: 'm' })).toThrow(
        expect.objectContaining({ code: 'configuration_invalid' }),
      )
    },
  )
})

describe('a reply', () => {
  it('comes as deltas with thoughts apart, then one end; thoughts are paid for as written', async () => {
    const last = {
      ...chunk([{ text: '42.', thoughtSignature: 'c2ln' }], 'STOP'),
      usageMetadata: {
        promptTokenCount: 9,
        candidatesTokenCount: 3,
        thoughtsTokenCount: 5,
        totalTokenCount: 17,
      },
      modelVersion: 'gemini-9',
    }
    const llm = await started(
      says(chunk([{ text: 'Hm.', thought: true }]), chunk([{ text: 'It is ' }]), last),
    )
    const { content, reasoning, end } = await collect(llm.stream(question, never))
    expect({ content, reasoning }).toEqual({ content: 'It is 42.', reasoning: 'Hm.' })
    expect(end).toEqual({
      type: 'end',
      finishReason: 'stop',
      usage: { promptTokens: 9, completionTokens: 8, totalTokens: 17 },
      model: 'gemini-9',
      raw: last,
    })
  })

  it.each([
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['MALFORMED_FUNCTION_CALL', 'error'],
    ['OTHER', 'error'],
    ['A_NEW_REASON', 'error'],
  ])('that ended with %s ends with %s', async (said, expected) => {
    const llm = await started(says(chunk([{ text: 'x' }], said)))
    expect((await collect(llm.stream(question, never))).end.finishReason).toBe(expected)
  })

  it('that a filter removed has no content, and says so', async () => {
    const llm = await started(says({ candidates: [{ finishReason: 'SAFETY', safetyRatings: [] }] }))
    const { content, end } = await collect(llm.stream(question, never))
    expect([content, end.finishReason]).toEqual(['', 'content_filter'])
  })

  it('is complete only with its body: some models give a finish reason with every event', async () => {
    const early = [chunk([{ text: 'one ' }], 'STOP'), chunk([{ text: 'two' }], 'STOP')]
    expect((await collect((await started(says(...early))).stream(question, never))).content).toBe('one two')
    await server.close()
    const cut = await started({ answers: [{ events: early.slice(0, 1), cut: true }] })
    expect((await failure(cut.stream(question, never))).code).toBe('llm_unavailable')
  })

  it.each<[string, Scripted]>([
    ['one JSON body', { body: chunk([{ text: 'Whole.' }], 'STOP') }],
    ['a list of chunks', { body: [chunk([{ text: 'Wh' }]), chunk([{ text: 'ole.' }], 'STOP')] }],
    [
      'events with unknown fields and types, and [DONE]',
      {
        events: [
          { other: 1 },
          {
            ...chunk([{ text: 'Whole.' }, { executableCode: { code: 'x' } }, { text: 7 }, 'odd' as never]),
            more: { x: [] },
          },
          { candidates: [{ finishReason: 'STOP', content: null }], usageMetadata: 'many' },
          '[DONE]',
        ],
      },
    ],
  ])('is taken from %s', async (_, answer) => {
    const llm = await started({ answers: [answer] })
    const { content, end } = await collect(llm.stream(question, never))
    expect([content, end.finishReason]).toEqual(['Whole.', 'stop'])
  })

  it.each([
    ['nothing', undefined, [null, null, null]],
    ['no total', { promptTokenCount: 100, candidatesTokenCount: 50 }, [100, 50, 150]],
    ['only thoughts', { promptTokenCount: 10, thoughtsTokenCount: 50, totalTokenCount: 60 }, [10, 50, 60]],
    [
      'malformed counters',
      { promptTokenCount: 'abc', candidatesTokenCount: -5, totalTokenCount: true },
      [null, null, null],
    ],
  ])('reads a usage of %s', async (_, usageMetadata, [promptTokens, completionTokens, totalTokens]) => {
    const llm = await started(says({ ...chunk([{ text: 'x' }], 'STOP'), usageMetadata }))
    const { end } = await collect(llm.stream(question, never))
    expect(end.usage).toEqual({ promptTokens, completionTokens, totalTokens })
  })
})

describe('JSON', () => {
  const schema = {
    type: 'object',
    properties: { items: { type: 'array', items: { type: 'string' } } },
    required: ['items'],
    additionalProperties: false,
  } as const
  const asked = { ...question, extras: geminiJson.schema(schema) }
  const rules = [{ reply: '"a"\n"b"' }]
  const form = { responseMimeType: 'application/json', responseJsonSchema: schema }

  it('is asked for by schema, by MIME type alone, and as a caller of OpenAI writes it', async () => {
    const llm = await started({ rules })
    expect((await collect(llm.stream(asked, never))).content).toBe('{"items":["a","b"]}')
    expect(server.bodies()[0]!['generationConfig']).toEqual(form)
    expect(geminiJson.translate({ type: 'json_object' })).toEqual({ responseMimeType: 'application/json' })
    expect(geminiJson.translate({ type: 'json_schema', json_schema: { name: 'x', schema } })).toEqual(form)
    expect(geminiJson.translate({ type: 'text' })).toEqual({})
  })

  it('of a model that takes no schema is the arguments of a function, from then on', async () => {
    const llm = await started({ rules, lacks: ['schema'] })
    for (const _ of [1, 2]) {
      const { content, end } = await collect(llm.stream(asked, never))
      expect([content, end.finishReason]).toEqual(['{"items":["a","b"]}', 'stop'])
    }
    const bodies = server.bodies()
    expect(bodies).toHaveLength(3)
    expect(bodies[1]).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'What is a mill?' }] }],
      tools: [
        {
          functionDeclarations: [
            { name: 'write_reply', description: 'Writes the whole reply.', parametersJsonSchema: schema },
          ],
        },
      ],
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['write_reply'] } },
    })
    expect(bodies[2]).toEqual(bodies[1])
  })

  it('of a model that takes neither schema nor functions is refused as a form, so that it is asked for in words', async () => {
    const llm = await started({ rules, lacks: ['schema', 'functions', 'instruction'] })
    const messages = [{ role: 'system', content: 'Be brief.' }, ...question.messages] as const
    expect(isOutputRefusal(await failure(llm.stream({ ...asked, messages }, never)))).toBe(true)
    await collect(llm.stream({ messages }, never))
    expect(server.bodies().at(-1)).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Be brief.' }, { text: 'What is a mill?' }] }],
    })
  })

  it('has only the keywords that the server takes', () => {
    const given: JsonSchema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      title: 'T',
      type: 'object',
      properties: {
        kind: { const: 'a' },
        flag: { const: true },
        when: { type: 'string', format: 'date-time', minLength: 1, pattern: 'x' },
        mail: { type: 'string', format: 'email' },
        level: { enum: ['low', 'high'] },
        odd: { enum: ['low', null] },
        next: { $ref: '#/definitions/Node', description: 'beside a reference' },
        any: true,
        const: { type: 'string' },
      },
      required: ['kind'],
      additionalProperties: { type: 'number', multipleOf: 2 },
      not: { required: ['x'] },
      allOf: [{ required: ['kind'] }],
      definitions: {
        Node: {
          oneOf: [{ type: 'null' }, { type: 'array', items: { $ref: '#/$defs/B' }, uniqueItems: true }],
        },
      },
      $defs: { B: { type: 'string', maxLength: 3 } },
    }
    expect(geminiSchema(given)).toEqual({
      title: 'T',
      type: 'object',
      properties: {
        kind: { enum: ['a'] },
        flag: {},
        when: { type: 'string', format: 'date-time' },
        mail: { type: 'string' },
        level: { enum: ['low', 'high'] },
        odd: {},
        next: { $ref: '#/$defs/Node' },
        any: {},
        const: { type: 'string' },
      },
      required: ['kind'],
      additionalProperties: { type: 'number' },
      $defs: {
        Node: { oneOf: [{ type: 'null' }, { type: 'array', items: { $ref: '#/$defs/B' } }] },
        B: { type: 'string' },
      },
    })
  })
})

describe('a failure', () => {
  const info = (delay: string) => [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: delay }]
  const quota = (id: string) => [
    { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ quotaId: id }] },
  ]
  const cases: [string, GoogleError, ErrorCode, string][] = [
    [
      'a wrong key',
      [
        400,
        'INVALID_ARGUMENT',
        'API key not valid. Please pass a valid API key.',
        [{ reason: 'API_KEY_INVALID' }],
      ],
      'llm_authentication',
      'provider_authentication',
    ],
    [
      'an expired key',
      [400, 'INVALID_ARGUMENT', 'API key expired. Please renew the API key.'],
      'llm_authentication',
      'provider_authentication',
    ],
    [
      'no key',
      [403, 'PERMISSION_DENIED', 'Method doesn’t allow unregistered callers.'],
      'llm_authentication',
      'provider_authentication',
    ],
    [
      '401',
      [401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.'],
      'llm_authentication',
      'provider_authentication',
    ],
    [
      'a country without service',
      [400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.'],
      'llm_authentication',
      'provider_authentication',
    ],
    [
      'an unknown model',
      [404, 'NOT_FOUND', 'models/x is not found for API version v1beta.'],
      'llm_model_unknown',
      'provider_invalid_model',
    ],
    [
      '400',
      [400, 'INVALID_ARGUMENT', 'Request contains an invalid argument.'],
      'llm_request_invalid',
      'provider_invalid_request',
    ],
    [
      'a prompt longer than the context',
      [
        400,
        'INVALID_ARGUMENT',
        'The input token count (134123) exceeds the maximum number of tokens allowed (131072).',
      ],
      'context_overflow',
      'provider_invalid_request',
    ],
    [
      '429',
      [
        429,
        'RESOURCE_EXHAUSTED',
        'You exceeded your current quota.',
        [...quota('GenerateRequestsPerMinutePerProjectPerModel'), ...info('47.4s')],
      ],
      'llm_rate_limited',
      'provider_rate_limit',
    ],
    [
      'the quota of a day',
      [
        429,
        'RESOURCE_EXHAUSTED',
        'You exceeded your current quota.',
        [...quota('GenerateRequestsPerDayPerProjectPerModel-FreeTier'), ...info('47s')],
      ],
      'llm_quota_exhausted',
      'provider_rate_limit',
    ],
    [
      'a prepaid account without credit',
      [429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted.'],
      'llm_quota_exhausted',
      'provider_rate_limit',
    ],
    ['500', [500, 'INTERNAL', 'An internal error has occurred.'], 'llm_unavailable', 'provider_unavailable'],
    [
      'an overloaded model',
      [503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.'],
      'llm_unavailable',
      'provider_unavailable',
    ],
    ['504', [504, 'DEADLINE_EXCEEDED', 'The request timed out.'], 'llm_unavailable', 'provider_unavailable'],
  ]

  it.each(cases)('%s has its own code and category', async (_, answer, code, category) => {
    const llm = await started({ answers: [answer] })
    const error = await failure(llm.stream(question, never))
    expect({ code: error.code, category: error.details['category'] }).toEqual({ code, category })
    expect(error.message).toContain(answer[2])
    expect(error.circuit).toBe(llm.circuit)
    expect(server.requests).toHaveLength(1)
  })

  it('has the wait that the server asks for', async () => {
    const llm = await started({ answers: [[429, 'RESOURCE_EXHAUSTED', 'Later.', info('47.4s')]] })
    expect((await failure(llm.stream(question, never))).retryAfterMs).toBe(47_400)
  })

  it('is a blocked prompt, with the reason, when there is no candidate', async () => {
    const llm = await started(
      says({ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata: { promptTokenCount: 4 } }),
    )
    const error = await failure(llm.stream(question, never))
    expect(error).toMatchObject({
      code: 'llm_prompt_blocked',
      retry: 'never',
      details: { category: 'provider_invalid_request', blockReason: 'PROHIBITED_CONTENT' },
    })
    expect(error.message).toContain('a filter blocked it (PROHIBITED_CONTENT)')
  })

  it.each<[string, Scripted, ErrorCode]>([
    ['a page with status 200', { body: '<!doctype html><title>Welcome</title>' }, 'llm_address_wrong'],
    ['an empty body', { body: '' }, 'llm_unavailable'],
    ['an empty object', { body: {} }, 'llm_response_invalid'],
    ['JSON that is no reply', { body: [1] }, 'llm_response_invalid'],
    [
      'an event that is no JSON',
      { events: [chunk([{ text: 'abc' }]), '{"candidates": [{'] },
      'llm_response_invalid',
    ],
    ['an event that is no object', { events: ['7'] }, 'llm_response_invalid'],
    ['events without a candidate', { events: [{ usageMetadata: {} }] }, 'llm_response_invalid'],
    ['a stream that just ends', { events: [chunk([{ text: 'abc' }])] }, 'llm_unavailable'],
    ['a connection cut in mid-reply', { events: [chunk([{ text: 'abc' }])], cut: true }, 'llm_unavailable'],
    [
      'an overload in mid-reply',
      {
        events: [
          chunk([{ text: 'abc' }]),
          { error: { code: 503, status: 'UNAVAILABLE', message: 'overloaded' } },
        ],
      },
      'llm_unavailable',
    ],
    [
      'a limit in mid-reply',
      {
        events: [
          chunk([{ text: 'abc' }]),
          { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'later' } },
        ],
      },
      'llm_rate_limited',
    ],
    ['an event of 20 MB', { events: [{ x: 'y'.repeat(20_000_000) }] }, 'llm_response_invalid'],
  ])('of %s has its own code', async (_, answer, code) => {
    const llm = await started({ answers: [answer] })
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of llm.stream(question, never)) if (event.type === 'delta') seen.push(event.text)
    })()
    await expect(reading).rejects.toMatchObject({ code })
    expect(seen.join('')).toBe(JSON.stringify(answer.events ?? '').includes('"abc"') ? 'abc' : '')
  })

  it('never shows the key, even if the server repeats it', async () => {
    const apiKey = 'AIza-abcdef-123456'
    const llm = await started({ answers: [[400, 'INVALID_ARGUMENT', `bad key ${apiKey}`]] }, { apiKey })
    const error = await failure(llm.stream(question, never))
    expect(error.message).toContain('[secret]')
    expect(JSON.stringify([error.message, error.details, `${error.cause}`])).not.toContain(apiKey)
  })

  it('of an address without this API says that the address is wrong', async () => {
    server = await startGeminiServer()
    const llm = createGemini({ baseUrl: `${server.origin}/elsewhere`, model: 'test-model' })
    expect((await failure(llm.stream(question, never))).code).toBe('llm_address_wrong')
  })
})

describe('the models of a server', () => {
  const at = () => ({ baseUrl: server.origin, apiKey: 'k-12345678' })

  it('are those that generate text', async () => {
    await started({ models: ['gemini-a', 'gemini-b'] })
    expect(await listGeminiModels(at(), never)).toEqual(['gemini-a', 'gemini-b'])
    await expect(onlyGeminiModel(at(), never)).rejects.toMatchObject({
      code: 'llm_model_unknown',
      message: expect.stringContaining('gemini-a, gemini-b'),
    })
  })

  it('are one that need not be named', async () => {
    await started({ models: ['gemini-a'] })
    expect(await onlyGeminiModel(at(), never)).toBe('gemini-a')
  })

  it('are checked with the key before a call', async () => {
    const llm = await started({ apiKey: 'another' })
    await expect(llm.ready(never)).rejects.toMatchObject({ code: 'llm_authentication' })
    expect(server.bodies()).toEqual([])
  })
})
