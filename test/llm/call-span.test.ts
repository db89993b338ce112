import { SpanStatusCode, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { capped, type SpanSettings, traced } from '../../src/llm/call-span.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../../src/llm/llm.ts'
import { providerError } from '../../src/llm/provider-error.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { startGraphmill } from '../support/processes.ts'

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const signal = new AbortController().signal

describe('a value that is capped', () => {
  test.each([
    ['a'.repeat(1000), 256],
    ['é'.repeat(1000), 256],
    ['é'.repeat(1000), 257],
    [`a${'日'.repeat(1000)}`, 258],
    ['😀'.repeat(1000), 259],
    ['ab😀'.repeat(100_000), 65_536],
  ])('has at most that many bytes, and no broken character', (text, most) => {
    const [, begin, total] = /^(.*)…\[truncated, (\d+) bytes total\]$/.exec(capped(text, most))!
    expect(Buffer.byteLength(capped(text, most))).toBeLessThanOrEqual(most)
    expect(Buffer.byteLength(capped(text, most))).toBeGreaterThan(most - 4)
    expect(text.startsWith(begin!)).toBe(true)
    expect(Number(total)).toBe(Buffer.byteLength(text))
  })

  test('is whole when it fits', () => {
    expect(capped('é'.repeat(128), 256)).toBe('é'.repeat(128))
    expect(capped(`${'é'.repeat(128)}a`, 256)).toContain('257 bytes')
    expect(Buffer.byteLength(capped('x'.repeat(70_000)))).toBe(65_536)
  })
})

describe('a call of the flow', () => {
  const exporter = new InMemorySpanExporter()
  beforeAll(() => {
    trace.setGlobalTracerProvider(
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
    )
  })
  beforeEach(() => exporter.reset())
  afterAll(() => trace.disable())

  const end: CompletionEvent = {
    type: 'end',
    finishReason: 'stop',
    usage: { promptTokens: 3, completionTokens: 2, totalTokens: 5 },
    model: 'm-2',
    raw: { id: 'r-1' },
  }
  const said = (text: string): CompletionEvent => ({ type: 'delta', kind: 'content', text })
  const asked: CompletionRequest[] = []

  function modelOf(events: () => Iterable<CompletionEvent>, settings: SpanSettings = {}): Llm {
    const llm: Llm = {
      provider: 'ollama',
      model: 'm',
      destination: 'here',
      circuit: 'c',
      async *stream(request) {
        asked.push(request)
        yield* events()
      },
      ready: async () => {},
    }
    return traced(llm, settings)
  }

  async function ask(llm: Llm): Promise<CompletionEvent[]> {
    const request = {
      messages: [{ role: 'user', content: 'Hi' }],
      sampling: { temperature: 0.5 },
      traceparent,
    } as const
    const events: CompletionEvent[] = []
    for await (const event of llm.stream(request, signal)) events.push(event)
    return events
  }

  test('is a span under its cause, and the model gets the request without it', async () => {
    const events = [said('Hel'), said('lo'), end]
    expect(await ask(modelOf(() => events))).toEqual(events)
    expect(asked.at(-1)).toEqual({
      messages: [{ role: 'user', content: 'Hi' }],
      sampling: { temperature: 0.5 },
    })
    const [span] = exporter.getFinishedSpans()
    expect(span!.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
    expect(span!.attributes).toEqual({
      'openarmature.llm.model': 'm',
      'openarmature.llm.attempt_index': 0,
      'openarmature.llm.finish_reason': 'stop',
      'openarmature.llm.usage.prompt_tokens': 3,
      'openarmature.llm.usage.completion_tokens': 2,
      'openarmature.llm.usage.total_tokens': 5,
      'gen_ai.system': 'ollama',
      'gen_ai.request.model': 'm',
      'gen_ai.request.temperature': 0.5,
      'gen_ai.response.model': 'm-2',
      'gen_ai.response.id': 'r-1',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 3,
      'gen_ai.usage.output_tokens': 2,
    })
  })

  test('has the id of a reply that Gemini gives another name', async () => {
    await ask(modelOf(() => [{ ...end, raw: { responseId: 'r-2' } }]))
    expect(exporter.getFinishedSpans()[0]!.attributes['gen_ai.response.id']).toBe('r-2')
  })

  test('records the reply without thoughts on demand, and counts all of a long one', async () => {
    const thought: CompletionEvent = { type: 'delta', kind: 'reasoning', text: 'Hm.' }
    await ask(modelOf(() => [thought, said('Hel'), said('lo'), end], { payload: true }))
    await ask(
      modelOf(() => [...Array.from({ length: 100 }, () => said('éé')), end], {
        payload: true,
        maxBytes: 256,
      }),
    )
    const [short, long] = exporter.getFinishedSpans().map(({ attributes }) => attributes)
    expect(short).toMatchObject({
      'openarmature.llm.input.messages': '[{"content":"Hi","role":"user"}]',
      'openarmature.llm.output.content': 'Hello',
    })
    expect(long!['openarmature.llm.output.content']).toMatch(/^é+…\[truncated, 400 bytes total\]$/)
  })

  test('ends with the category of its failure', async () => {
    const llm = modelOf(function* () {
      yield said('x')
      throw providerError('llm_rate_limited', 'slow down')
    })
    await expect(ask(llm)).rejects.toThrow('slow down')
    expect(exporter.getFinishedSpans()).toMatchObject([
      {
        status: { code: SpanStatusCode.ERROR, message: 'provider_rate_limit' },
        attributes: { 'openarmature.error.category': 'provider_rate_limit' },
      },
    ])
  })

  test('ends when its reader leaves early', async () => {
    for await (const _ of modelOf(() => [said('x'), said('y'), end]).stream({ messages: [] }, signal)) break
    expect(exporter.getFinishedSpans()).toMatchObject([{ status: { code: SpanStatusCode.UNSET } }])
  })
})

describe('graphmill extract', () => {
  test.each([false, true])(
    'makes a span of each call under that of the prompt (payload: %s)',
    async (payload) => {
      await using llm = await startLlmServer()
      const receiver = await startOtlpReceiver()
      try {
        const child = startGraphmill(['extract', 'examples/the-first-railways.md', '--limit', '1'], {
          OPENAI_BASE_URL: llm.url,
          GRAPHMILL_MODEL: 'test-model',
          GRAPHMILL_NO_CACHE: 'true',
          ...(payload && { GRAPHMILL_TRACE_PAYLOAD: 'true' }),
          ...receiver.environment('extract'),
        })
        expect(await child.ended, child.stderr()).toEqual({ code: 0, signal: null })
        const calls = receiver.spans.filter(({ name }) => name === 'openarmature.llm.complete')
        expect(calls.length).toBeGreaterThan(0)
        for (const { parentSpanId, attributes, kind } of calls) {
          const parent = receiver.spans.find(({ spanId }) => spanId === parentSpanId)
          expect(parent?.name).toMatch(/^prompt prompt/)
          expect(kind).toBe(3)
          expect(attributes).toMatchObject({
            'gen_ai.system': 'openai',
            'openarmature.llm.model': 'test-model',
          })
          expect('openarmature.llm.input.messages' in attributes).toBe(payload)
          expect('openarmature.llm.output.content' in attributes).toBe(payload)
        }
      } finally {
        await receiver.close()
      }
    },
  )
})
