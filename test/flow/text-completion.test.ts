import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { textCompletion } from '../../processors/text-completion.ts'
import { deadTopic, topicName, topicSpec } from '../../src/broker/topics.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import type { TextCompletionRequestInit, TextCompletionResponse } from '../../src/messages/generated.ts'
import { createMetrics, type FlowMetrics } from '../../src/observe/metrics.ts'
import { scope, startFlow, type TestFlow } from '../support/flow.ts'
import type { LlmScript } from '../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { startOllamaServer } from '../support/ollama-server.ts'

const replyTo = topicName({
  space: 'gm',
  class: 'response',
  role: 'text-completion',
  receiver: 'somebody',
  ...scope,
})

let flow: TestFlow | undefined
let server: LlmServer | undefined
afterEach(async () => {
  await flow?.stop()
  await server?.close()
  flow = server = undefined
})

async function start(script: LlmScript, metrics?: FlowMetrics) {
  server = await startLlmServer(script)
  flow = await startFlow([textCompletion], {
    ...(metrics && { metrics }),
    llm: createOpenAi({ baseUrl: server.url, apiKey: 'k', model: 'm' }),
  })
  await flow.broker.ensureTopics([topicSpec(replyTo)])
  return { server, flow }
}

const ask = ({ send }: TestFlow, request: TextCompletionRequestInit, more = {}) =>
  send('text-completion', request, { replyTo, ...more })

/** The reply parts of the next reply, up to the last. */
async function partsOf({ broker, codec }: TestFlow): Promise<TextCompletionResponse[]> {
  const parts: TextCompletionResponse[] = []
  const range = { topic: replyTo, from: 'earliest', until: 'never' } as const
  for await (const { value, headers } of broker.read(range, AbortSignal.timeout(20_000))) {
    const part = codec.decode(value, headers).payload as TextCompletionResponse
    parts.push(part)
    if (part.endOfStream) break
  }
  return parts
}

const text = (parts: readonly TextCompletionResponse[]) => parts.map(({ response }) => response).join('')

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
}

describe('a request for text', () => {
  test('with another operation is answered with an error, and the model is not asked', async () => {
    const { server, flow } = await start({ rules: [{ reply: 'A mill grinds.' }] })
    await ask(flow, { operation: 'embed', prompt: '', context: { n: '1' } })
    const parts = await partsOf(flow)
    expect(parts).toMatchObject([{ error: { type: 'not-implemented' }, context: { n: '1' }, models: [] }])
    expect(server.requests).toHaveLength(0)
  })

  test('for the models is answered with those that the server lists', async () => {
    const { flow } = await start({})
    await ask(flow, { operation: 'list-models', prompt: '', context: { n: '1' } })
    const [{ models, ...part }] = (await partsOf(flow)) as [TextCompletionResponse]
    expect(part).toMatchObject({ response: '', error: null, context: { n: '1' }, endOfStream: true })
    expect(models.map((model) => (JSON.parse(model) as { id: string }).id)).toEqual(['test-model'])
  })

  test('is answered whole, with finish reason, usage, model and its context', async () => {
    const { server, flow } = await start({ rules: [{ reply: 'A mill grinds.' }] })
    const id = await ask(flow, { system: 'Be brief.', prompt: 'What does a mill do?', context: { n: '1' } })
    const [message] = await flow.first(replyTo, 1)
    expect(message).toMatchObject({
      type: 'TextCompletionResponse',
      source: 'text-completion',
      correlationId: id,
      causationId: id,
      payload: {
        seq: 0,
        response: 'A mill grinds.',
        endOfStream: true,
        finishReason: 'stop',
        model: 'm',
        error: null,
        context: { n: '1' },
      },
    })
    const { run, usage } = message!.payload as TextCompletionResponse
    expect(run.id).not.toBe('')
    expect(usage!.totalTokens).toBe(usage!.promptTokens! + usage!.completionTokens!)
    expect(server.requests[0]!.body!.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'What does a mill do?' },
    ])
  })

  test('with a context over 4 KiB is answered with an error that does not repeat it', async () => {
    const { server, flow } = await start({})
    await ask(flow, { prompt: 'Hello', context: { n: 'x'.repeat(650_000) } })
    expect(await partsOf(flow)).toMatchObject([{ error: { type: 'context_too_large' }, context: {} }])
    expect(server.requests).toEqual([])
  })

  test('has the temperature of the flow, if that has one', async () => {
    server = await startLlmServer({})
    const llm = createOpenAi({ baseUrl: server.url, apiKey: 'k', model: 'm' })
    flow = await startFlow([textCompletion], { llm: { ...llm, sampling: { temperature: 0.3 } } })
    await flow.broker.ensureTopics([topicSpec(replyTo)])
    await ask(flow, { prompt: 'Hello' })
    await partsOf(flow)
    expect(server.requests[0]!.body).toMatchObject({ temperature: 0.3 })
  })

  test('has no system message if there is none', async () => {
    const { server, flow } = await start({})
    await ask(flow, { prompt: 'Hello' })
    await partsOf(flow)
    expect(server.requests[0]!.body!.messages).toEqual([{ role: 'user', content: 'Hello' }])
  })

  test('is answered while the model writes when it asks for that', async () => {
    const { flow, server } = await start({
      rules: [{ reply: { pieces: ['one ', 'two ', 'three'], tokensPerSecond: 5 } }],
    })
    await ask(flow, { prompt: 'Count', streaming: true })
    const [first] = await flow.first(replyTo, 1)
    expect(first!.payload).toMatchObject({ seq: 0, response: 'one ', endOfStream: false, finishReason: null })
    expect(server.counts.completed).toBe(0)
    const parts = await partsOf(flow)
    expect(text(parts)).toBe('one two three')
    expect(parts.map(({ seq }) => seq)).toEqual(parts.map((_, index) => index))
    expect(new Set(parts.map(({ run }) => run.id)).size).toBe(1)
    expect(parts.at(-1)).toMatchObject({ finishReason: 'stop', model: 'm' })
    expect(parts.slice(0, -1).every(({ usage }) => usage === null)).toBe(true)
  })

  test('reports length for a reply that was cut off', async () => {
    const { flow } = await start({ rules: [{ reply: { text: 'A long reply.', truncateAfter: 1 } }] })
    await ask(flow, { prompt: 'Go on', streaming: true })
    const parts = await partsOf(flow)
    expect(text(parts)).toBe('A lo')
    expect(parts.at(-1)!.finishReason).toBe('length')
  })

  test.each([true, false])(
    'is split when the reply does not fit one message, streaming %s',
    async (streaming) => {
      const long = '😀"\n'.repeat(100_000)
      const { flow } = await start({ rules: [{ reply: { pieces: [`x${long}`] } }] })
      await ask(flow, { prompt: 'Go on', streaming })
      const parts = await partsOf(flow)
      expect(parts.length).toBeGreaterThan(1)
      expect(text(parts)).toBe(`x${long}`)
    },
  )

  test('passes a response format on to the server, and returns the reply unchanged', async () => {
    const { server, flow } = await start({ rules: [{ reply: '{"a": 1}\n' }] })
    await ask(flow, { prompt: 'An object', responseFormat: '{"type":"json_object"}' })
    expect(text(await partsOf(flow))).toBe('{"a": 1}\n')
    expect(server.requests[0]!.body).toMatchObject({ response_format: { type: 'json_object' } })
  })

  test.each([
    [{ type: 'json_object' }, 'json'],
    [{ type: 'json_schema', json_schema: { name: 'person', strict: true, schema: person } }, person],
    [{ type: 'text' }, undefined],
  ])('tells Ollama of a response format in its own words: %j', async (responseFormat, format) => {
    const ollama = await startOllamaServer({ text: '{}' })
    onTestFinished(() => ollama.close())
    const llm = createOllama({ host: ollama.host, model: 'test-model' })
    flow = await startFlow([textCompletion], { llm })
    await flow.broker.ensureTopics([topicSpec(replyTo)])
    await ask(flow, { prompt: 'An object', responseFormat: JSON.stringify(responseFormat) })
    expect(text(await partsOf(flow))).toBe('{}')
    const { body } = ollama.requests.find(({ path }) => path === '/api/chat')!
    expect(body!['format']).toEqual(format)
    expect(body).not.toHaveProperty('response_format')
  })
})

describe('a request with a schema', () => {
  test('is answered with checked JSON, in one reply part', async () => {
    const { server, flow } = await start({
      rules: [{ reply: { text: '{"name": "Ada",\n "age": 36}', tokensPerSecond: 50 } }],
    })
    await ask(flow, { prompt: 'A person', schema: JSON.stringify(person), streaming: true })
    const parts = await partsOf(flow)
    expect(parts).toHaveLength(1)
    expect(parts[0]).toMatchObject({ response: '{"name":"Ada","age":36}', finishReason: 'stop', model: 'm' })
    expect(server.requests[0]!.body).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { strict: true, schema: person } },
    })
  })

  test('reasks once after an invalid reply, and counts the tokens of both', async () => {
    const { server, flow } = await start({ rules: [{ reply: ['{"name": 1}', '{"name":"Ada","age":36}'] }] })
    await ask(flow, { prompt: 'A person', schema: JSON.stringify(person) })
    const [part] = await partsOf(flow)
    expect(part!.response).toBe('{"name":"Ada","age":36}')
    expect(server.counts.calls).toBe(2)
    expect(part!.usage!.completionTokens).toBeGreaterThan(8)
  })

  test('reports the output mode in its reply and in the metrics', async () => {
    const metrics = createMetrics()
    const { flow } = await start({ rules: [{ reply: '{"name":"Ada","age":36}' }] }, metrics)
    await ask(flow, { prompt: 'A person', schema: JSON.stringify(person) })
    expect((await partsOf(flow))[0]!.outputMode).toBe('native')
    await expect
      .poll(() => metrics.registry.metrics())
      .toContain('graphmill_output_mode_total{prompt="",model="m",mode="native"} 1')
  })

  test('keeps the caller’s response format beside it', async () => {
    const { server, flow } = await start({ rules: [{ reply: '{"name":"Ada","age":36}' }] })
    const responseFormat = '{"type":"json_object"}'
    await ask(flow, { prompt: 'A person', schema: JSON.stringify(person), responseFormat })
    expect(text(await partsOf(flow))).toBe('{"name":"Ada","age":36}')
    expect(server.requests[0]!.body).toMatchObject({ response_format: { type: 'json_object' } })
  })

  test('accepts any JSON for an empty schema', async () => {
    const { flow } = await start({ rules: [{ reply: '```json\n[1]\n```' }] })
    await ask(flow, { prompt: 'JSON', schema: '{}' })
    expect(text(await partsOf(flow))).toBe('[1]')
  })
})

describe('a request that cannot be answered', () => {
  test.each([
    ['a reply that never fits', { schema: JSON.stringify(person) }, 'reply_schema_failed', 2],
    ['a schema that is not JSON', { schema: '{' }, 'schema_invalid', 0],
    ['a schema that is none', { schema: '{"type":"nonsense"}' }, 'schema_invalid', 0],
    ['a schema that is no object', { schema: '[]' }, 'schema_invalid', 0],
    ['a response format that is not JSON', { responseFormat: 'json' }, 'message_invalid', 0],
    ['a response format that is no object', { responseFormat: '"json_object"' }, 'message_invalid', 0],
  ])('gets the error as its reply, and a dead letter: %s', async (_, request, code, calls) => {
    const { server, flow } = await start({ rules: [{ reply: '{"name": 1}' }] })
    await ask(flow, { prompt: 'A person', context: { n: '1' }, ...request })
    const [part] = await partsOf(flow)
    expect(part).toMatchObject({
      endOfStream: true,
      response: '',
      error: { type: code },
      context: { n: '1' },
    })
    expect(server.counts.calls).toBe(calls)
    const dead = deadTopic(flow.topic('text-completion'))
    await expect.poll(async () => (await flow.broker.listTopics(dead)).length).toBe(1)
    expect(await flow.first(dead, 1)).toMatchObject([{ payload: { prompt: 'A person' } }])
  })

  test('is not sent to the model when no client could get the reply', async () => {
    const { server, flow } = await start({})
    await ask(flow, { prompt: 'Hello' }, { replyTo: null })
    const dead = deadTopic(flow.topic('text-completion'))
    await expect.poll(async () => (await flow.broker.listTopics(dead)).length).toBe(1)
    expect(server.counts.calls).toBe(0)
  })

  test('waits for an unavailable server', async () => {
    const { server, flow } = await start({
      refuse: { kind: 'server-error', first: 1 },
      rules: [{ reply: 'Back.' }],
    })
    await ask(flow, { prompt: 'Hello' })
    expect(text(await partsOf(flow))).toBe('Back.')
    expect(server.counts.calls).toBe(2)
  })
})
