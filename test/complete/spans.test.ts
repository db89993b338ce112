// The span of each attempt of `complete`, in an exporter in memory: OpenArmature's attributes and those of `gen_ai`.
import { SpanStatusCode, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Message } from '../../src/complete/provider.ts'
import { keepSecret } from '../../src/redact.ts'
import { calling, completion, counted, failure, hi, P, setup, weather } from './harness.ts'

const exporter = new InMemorySpanExporter()
beforeAll(() => {
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
  )
})
beforeEach(() => exporter.reset())
afterAll(() => trace.disable())

const spans = () => exporter.getFinishedSpans()
const attributes = () => spans()[0]!.attributes
const payload = { trace: { payload: true } }

describe('the span of an attempt', () => {
  it('has models, parameters, tokens and the finish reason, and nothing of what was said', async () => {
    const reply = completion('Hello.', {}, { model: 'test-model-2', ...counted(5, 1, 6) })
    await using test = await setup(reply)
    const config = {
      temperature: 0,
      maxTokens: 9,
      topP: 0.5,
      seed: 7,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      stopSequences: ['END', 'STOP'],
      extras: { top_k: 4 },
    }
    await test.provider.complete({ messages: hi, config })
    expect(spans().map(({ name, kind, status }) => [name, kind, status.code])).toEqual([
      ['openarmature.llm.complete', 2, SpanStatusCode.OK],
    ])
    expect(attributes()).toEqual({
      'openarmature.llm.model': 'test-model',
      'openarmature.llm.attempt_index': 0,
      'openarmature.llm.finish_reason': 'stop',
      'openarmature.llm.usage.prompt_tokens': 5,
      'openarmature.llm.usage.completion_tokens': 1,
      'openarmature.llm.usage.total_tokens': 6,
      'gen_ai.system': 'openai',
      'gen_ai.request.model': 'test-model',
      'gen_ai.request.temperature': 0,
      'gen_ai.request.max_tokens': 9,
      'gen_ai.request.top_p': 0.5,
      'gen_ai.request.seed': 7,
      'gen_ai.request.frequency_penalty': 0.1,
      'gen_ai.request.presence_penalty': 0.2,
      'gen_ai.request.stop_sequences': ['END', 'STOP'],
      'gen_ai.response.model': 'test-model-2',
      'gen_ai.response.id': 'cc-1',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 5,
      'gen_ai.usage.output_tokens': 1,
    })
  })

  it('leaves out what was not reported, and keeps a reported 0 of the cache', async () => {
    const usage = { prompt_tokens: 'abc', completion_tokens: 2, prompt_tokens_details: { cached_tokens: 0 } }
    await using test = await setup(completion('x', {}, { id: null, model: undefined, usage }))
    await test.provider.complete({ messages: hi })
    const names = Object.keys(attributes())
    expect(names).not.toContain('gen_ai.usage.input_tokens')
    expect(names).not.toContain('openarmature.llm.usage.prompt_tokens')
    expect(names).not.toContain('openarmature.llm.usage.total_tokens')
    expect(names).not.toContain('gen_ai.response.id')
    expect(names).not.toContain('gen_ai.response.model')
    expect(attributes()).toMatchObject({
      'openarmature.llm.cache_read.input_tokens': 0,
      'gen_ai.usage.output_tokens': 2,
    })
  })

  it('names the tools that the model calls, and their arguments only with the payload', async () => {
    const reply = calling([
      ['c1', '{"city":"Rome"}'],
      ['c2', '{"city":"Oslo"}'],
    ])
    await using test = await setup(reply)
    await test.provider.complete({ messages: hi, tools: [weather] })
    await test.provider.complete({ messages: hi, tools: [weather] }, payload)
    const [plain, full] = spans().map((span) => span.attributes)
    expect(plain).toMatchObject({
      'openarmature.llm.output.tool_calls.count': 2,
      'openarmature.llm.output.tool_calls.names': ['get_weather', 'get_weather'],
      'openarmature.llm.output.tool_calls.ids': ['c1', 'c2'],
    })
    expect(JSON.stringify(plain)).not.toContain('Rome')
    expect(JSON.parse(String(full!['openarmature.llm.output.tool_calls']))).toEqual([
      { id: 'c1', name: 'get_weather', arguments: { city: 'Rome' } },
      { id: 'c2', name: 'get_weather', arguments: { city: 'Oslo' } },
    ])
    expect(full).not.toHaveProperty(['openarmature.llm.output.content'])
  })

  it('records messages, reply and extra fields on demand, and never the bytes of an image', async () => {
    await using test = await setup(completion('A mill.'))
    const bytes = 'iVBORw0KGgoAAAANSUhEUg=='
    const messages: Message[] = [
      { role: 'system', content: 'Look.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          {
            type: 'image',
            mediaType: 'image/png',
            detail: 'low',
            source: { type: 'inline', base64Data: bytes },
          },
          { type: 'image', source: { type: 'url', url: 'https://example.invalid/i.png' } },
        ],
      },
      {
        role: 'assistant',
        toolCalls: [{ id: 'c1', name: 'zoom', arguments: { b: 1, a: 2 }, signature: 'sig' }],
      },
      { role: 'tool', toolCallId: 'c1', content: 'done' },
    ]
    await test.provider.complete({ messages, config: { extras: { z: 1, a: [2] } } }, payload)
    const text = String(attributes()['openarmature.llm.input.messages'])
    expect(text).not.toContain(bytes)
    expect(text).not.toContain('sig')
    expect(text).toBe(
      JSON.stringify([
        { content: 'Look.', role: 'system' },
        {
          content: [
            { text: 'What is it?', type: 'text' },
            {
              detail: 'low',
              media_type: 'image/png',
              source: { byte_count: bytes.length, type: 'inline_redacted' },
              type: 'image',
            },
            { source: { type: 'url', url: 'https://example.invalid/i.png' }, type: 'image' },
          ],
          role: 'user',
        },
        {
          content: null,
          role: 'assistant',
          tool_calls: [{ arguments: { a: 2, b: 1 }, id: 'c1', name: 'zoom' }],
        },
        { content: 'done', role: 'tool', tool_call_id: 'c1' },
      ]),
    )
    expect(attributes()).toMatchObject({
      'openarmature.llm.output.content': 'A mill.',
      'openarmature.llm.request.extras': '{"a":[2],"z":1}',
    })
  })

  it('caps what it records', async () => {
    await using test = await setup(completion('é'.repeat(1000)))
    const options = { trace: { payload: true, maxBytes: 300 } }
    await test.provider.complete({ messages: [{ role: 'user', content: 'x'.repeat(500) }] }, options)
    const { 'openarmature.llm.input.messages': input, 'openarmature.llm.output.content': output } =
      attributes()
    expect(Buffer.byteLength(String(input))).toBe(300)
    expect(input).toMatch(/^\[\{"content":"x+…\[truncated, 530 bytes total\]$/)
    expect(Buffer.byteLength(String(output))).toBeLessThanOrEqual(300)
    expect(output).toMatch(/^é+…\[truncated, 2000 bytes total\]$/)
  })

  it('shows no secret, in what was said or beside it', async () => {
    keepSecret('sk-in-a-call-0123456789', 'test')
    await using test = await setup(
      completion('it is sk-in-a-call-0123456789', {}, { id: 'sk-in-a-call-0123456789' }),
    )
    const content = `${'x'.repeat(180)} sk-in-a-call-0123456789 ${'x'.repeat(90)}`
    const options = { trace: { payload: true, maxBytes: 256 } }
    await test.provider.complete({ messages: [{ role: 'user', content }] }, options)
    expect(JSON.stringify(attributes())).not.toContain('sk-in')
    expect(attributes()['openarmature.llm.output.content']).toBe('it is [secret]')
  })

  it.each([255, 0, Number.NaN, 300.5])('cannot record at most %s bytes', async (maxBytes) => {
    await using test = await setup(completion('no'))
    await failure(test.provider, { messages: hi }, 'provider_invalid_request', { trace: { maxBytes } })
    expect(test.server.requests).toHaveLength(0)
  })

  it('leaves out the attributes of gen_ai on demand, and names another system', async () => {
    await using test = await setup(completion('x'), { system: 'vllm' })
    await test.provider.complete({ messages: hi, config: { temperature: 1 } }, { trace: { genAi: false } })
    await test.provider.complete({ messages: hi })
    const [without, full] = spans().map((span) => span.attributes)
    expect(Object.keys(without!).filter((name) => name.startsWith('gen_ai'))).toEqual([])
    expect(without).toMatchObject({ 'openarmature.llm.model': 'test-model' })
    expect(full).toMatchObject({ 'gen_ai.system': 'vllm' })
  })

  it('says why it failed, and what an invalid reply was', async () => {
    const cut = completion('{"name":"Al', { finish_reason: 'length' }, counted(20, 16, 36))
    await using test = await setup(cut)
    const request = { messages: hi, responseSchema: P }
    await failure(test.provider, request, 'structured_output_invalid')
    await failure(test.provider, request, 'structured_output_invalid', payload)
    for (const { status, events, attributes } of spans()) {
      expect(status).toEqual({ code: SpanStatusCode.ERROR, message: 'structured_output_invalid' })
      expect(events.map(({ name }) => name)).toEqual(['exception'])
      expect(attributes).toMatchObject({
        'openarmature.error.category': 'structured_output_invalid',
        'openarmature.llm.finish_reason': 'length',
        'openarmature.llm.usage.completion_tokens': 16,
      })
    }
    const contents = spans().map((span) => span.attributes['openarmature.llm.output.content'])
    expect(contents).toEqual([undefined, '{"name":"Al'])
  })

  it('is one of several when the call is tried again, each with its messages', async () => {
    const down = { status: 503, body: { error: { message: 'down' } } }
    await using test = await setup([completion('{}'), down, completion('{"name":"A","age":1}')])
    const retry = { maxAttempts: 3, backoff: () => 0, reask: () => 'Again.' }
    await test.provider.complete({ messages: hi, responseSchema: P }, { ...payload, retry })
    const told = spans().map(({ attributes: all }) => [
      all['openarmature.llm.attempt_index'],
      all['openarmature.llm.retry_reason'],
      all['openarmature.error.category'],
      (JSON.parse(String(all['openarmature.llm.input.messages'])) as unknown[]).length,
    ])
    expect(told).toEqual([
      [0, undefined, 'structured_output_invalid', 1],
      [1, 'reask', 'provider_unavailable', 3],
      [2, 'transient', undefined, 3],
    ])
  })

  it('does not exist for a request that is not sent', async () => {
    await using test = await setup(completion('no'))
    await failure(test.provider, { messages: [] }, 'provider_invalid_request')
    expect(spans()).toEqual([])
  })
})
