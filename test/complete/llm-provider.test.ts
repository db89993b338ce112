// `complete` on any model that streams text: the same contract on Ollama's own API as on an OpenAI-compatible server.
import { afterEach, describe, expect, it } from 'vitest'
import { complete } from '../../src/complete/complete.ts'
import { createLlmProvider } from '../../src/complete/llm-provider.ts'
import type { ProviderRequest, TokenEvent } from '../../src/complete/provider.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { responseFormat } from '../../src/llm/openai/response-format.ts'
import { type RecordingServer, type Scripted, startRecordingServer } from '../support/recording-server.ts'
import { chunk, failure, frozen, hi, P, usageChunk, weather } from './harness.ts'

const alice = '{"name":"Alice","age":30}'
let server: RecordingServer
afterEach(() => server.close())

const ollamaSays = (content: string, thinking?: string): Scripted => ({
  lines: [
    ...(thinking ? [{ model: 'm', message: { role: 'assistant', content: '', thinking }, done: false }] : []),
    { model: 'm', message: { role: 'assistant', content }, done: false },
    {
      model: 'm',
      message: { role: 'assistant', content: '' },
      done: true,
      done_reason: 'stop',
      prompt_eval_count: 5,
      eval_count: 3,
    },
  ],
})
const openAiSays = (content: string): Scripted => ({
  events: [chunk({ content }, 'stop'), usageChunk(5, 3, 8), '[DONE]'],
})

async function onOllama(...answers: Scripted[]) {
  server = await startRecordingServer(answers)
  return createLlmProvider(createOllama({ host: server.origin, model: 'm' }))
}

async function onOpenAi(...answers: Scripted[]) {
  server = await startRecordingServer(answers)
  return createLlmProvider(createOpenAi({ baseUrl: server.url, model: 'test-model' }))
}

describe("on Ollama's own API", () => {
  it('gives a checked value, constrained by format', async () => {
    const provider = await onOllama(ollamaSays(alice))
    const config = {
      temperature: 0,
      maxTokens: 9,
      frequencyPenalty: 0.5,
      extras: { options: { min_p: 0.1 } },
    }
    const response = await complete(provider, frozen({ messages: hi, responseSchema: P, config }))
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
    expect(response).toMatchObject({
      message: { role: 'assistant', content: alice },
      outputMode: 'native',
      finishReason: 'stop',
      usage: { promptTokens: 5, completionTokens: 3, totalTokens: 8 },
    })
    expect(server.requests[0]!.json).toMatchObject({
      format: P,
      messages: hi,
      options: { temperature: 0, num_predict: 9, frequency_penalty: 0.5, min_p: 0.1 },
    })
    expect(server.requests[0]!.text).not.toContain('strict')
  })

  it('falls back, remembers it, and reasks', async () => {
    const refusal = { status: 500, body: { error: 'invalid format: expected "json" or a JSON schema' } }
    const provider = await onOllama(refusal, ollamaSays('Sure!'), ollamaSays(alice))
    const retry = { backoff: () => 0, reask: () => 'JSON, please.' }
    const response = await complete(provider, { messages: hi, responseSchema: P }, { retry })
    expect(response).toMatchObject({ outputMode: 'fallback', parsed: { name: 'Alice' } })
    expect(server.requests.map(({ json }) => 'format' in json)).toEqual([true, false, false])
    expect(server.requests[2]!.json['messages']).toMatchObject([
      { role: 'system' },
      ...hi,
      { role: 'assistant', content: 'Sure!' },
      { role: 'user', content: 'JSON, please.' },
    ])
  })

  it('keeps thoughts apart, and gives the pieces of a stream', async () => {
    const provider = await onOllama(ollamaSays('Yes.', 'Hm.'))
    const seen: TokenEvent[] = []
    const onToken = (event: TokenEvent) => void seen.push(event)
    const response = await complete(provider, { messages: hi }, { stream: true, onToken })
    expect(response.message.content).toEqual([
      { type: 'thinking', text: 'Hm.' },
      { type: 'text', text: 'Yes.' },
    ])
    expect(seen.map(({ deltaKind, delta }) => [deltaKind, delta])).toEqual([
      ['reasoning', 'Hm.'],
      ['content', 'Yes.'],
    ])
  })
})

describe('on an OpenAI-compatible server', () => {
  it('gives a checked value, constrained by response_format', async () => {
    const provider = await onOpenAi(openAiSays(alice))
    const response = await complete(provider, {
      messages: hi,
      responseSchema: P,
      config: { presencePenalty: 0.5, extras: { b: 1, a: 2 } },
    })
    expect(response.parsed).toEqual({ name: 'Alice', age: 30 })
    expect(server.requests[0]!.json).toMatchObject({
      response_format: responseFormat(P),
      presence_penalty: 0.5,
      a: 2,
      b: 1,
    })
  })

  it('refuses extras that contradict it', async () => {
    const provider = await onOpenAi(openAiSays(alice))
    const config = { extras: { response_format: { type: 'json_object' } } }
    await failure(provider, { messages: hi, responseSchema: P, config }, 'provider_invalid_request')
    expect(server.requests).toHaveLength(0)
  })
})

describe('tools', () => {
  it.each([
    ['tools', { messages: hi, tools: [weather] }],
    [
      'a tool message',
      {
        messages: [
          ...hi,
          { role: 'assistant', toolCalls: [{ id: 'c', name: 'f', arguments: {} }] },
          { role: 'tool', content: 'x', toolCallId: 'c' },
        ],
      },
    ],
  ])('are refused before anything is sent: %s', async (_, request) => {
    const provider = await onOllama(ollamaSays('x'))
    await failure(provider, request as ProviderRequest, 'provider_invalid_request')
    expect(server.requests).toHaveLength(0)
  })
})

describe('images', () => {
  it('are refused before anything is sent', async () => {
    const provider = await onOllama(ollamaSays('x'))
    const content = [
      { type: 'image', source: { type: 'url', url: 'https://example.invalid/i.png' } },
    ] as const
    const request = { messages: [{ role: 'user', content }] } as const
    await failure(provider, request, 'provider_unsupported_content_block')
    expect(server.requests).toHaveLength(0)
  })
})
