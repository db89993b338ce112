// The prompt processor on a broker: what it answers, what it rejects, and what a redelivered request finds in the cache.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { prompt } from '../../processors/prompt.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic, topicSpec } from '../../src/broker/topics.ts'
import { GraphmillError } from '../../src/errors.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import { openCache } from '../../src/llm/cache/reply-cache.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { testPrompt } from '../support/asking.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

let dir: string
const flows: TestFlow[] = []
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'graphmill-cache-'))
})
afterEach(async () => {
  await Promise.all(flows.splice(0).map((flow) => flow.stop()))
  await rm(dir, { recursive: true, force: true })
})

const replyTo = 'gm.response.prompt.extract-definitions.default.default'
type Reply = Message<'PromptResponse'>

async function start(llm: Llm, more: Parameters<typeof startFlow>[1] = {}): Promise<TestFlow> {
  const flow = await startFlow([prompt], { llm, ...more })
  flows.push(flow)
  await flow.broker.ensureTopics([topicSpec(replyTo)])
  return flow
}

const request = (text: string, streaming = true) => ({
  promptId: 'extract-definitions',
  terms: { text: JSON.stringify(text) },
  streaming,
  context: { unit: 'extract-definitions', part: '0' },
})
const line = (n: number) => `{"entity":"e${n}","definition":"d${n}"}\n`
const lines = (count: number) => Array.from({ length: count }, (_, n) => line(n)).join('')

/** The parts of a reply up to its last one. */
async function replyOf(flow: TestFlow, correlationId: string): Promise<Reply[]> {
  const parts: Reply[] = []
  for await (const entry of flow.broker.read(
    { topic: replyTo, from: 'earliest', until: 'never' },
    AbortSignal.timeout(20_000),
  )) {
    const message = flow.codec.decode(entry.value, entry.headers) as Reply
    if (message.correlationId !== correlationId) continue
    parts.push(message)
    if (message.payload.endOfStream) break
  }
  return parts
}

describe('a prompt request', () => {
  it('is answered in parts that echo its context, with totals and tokens in the last', async () => {
    const flow = await start(scriptedLlm([lines(3)]))
    const id = await flow.send('prompt', request('a text'), { replyTo })
    const parts = await replyOf(flow, id)
    expect(parts.map(({ payload }) => payload.seq)).toEqual(parts.map((_, seq) => seq))
    for (const { payload } of parts)
      expect(payload.context).toEqual({ unit: 'extract-definitions', part: '0' })
    const items = parts.flatMap(({ payload }) => JSON.parse(payload.object!) as unknown[])
    expect(items).toHaveLength(3)
    expect(new Set(parts.map(({ payload }) => payload.run.id)).size).toBe(1)
    expect(parts.at(-1)!.payload).toMatchObject({
      accepted: 3,
      rejected: 0,
      finishReason: 'stop',
      truncated: false,
      incomplete: null,
      cause: null,
      model: 'scripted-1',
      usage: { promptTokens: 10, spent: [{ reason: 'first', calls: 1, model: 'scripted-1' }] },
    })
  })

  it('publishes what stayed rejected before the last part', async () => {
    const flow = await start(scriptedLlm([`${line(1)}{"entity": 5}\n{"entity": oh no}\n`, '']))
    const id = await flow.send('prompt', request('a text'), { replyTo })
    const parts = await replyOf(flow, id)
    expect(parts.at(-1)!.payload).toMatchObject({
      accepted: 1,
      rejected: 2,
      rejections: { schema: 1, invalid_json: 1 },
    })
    const rejected = (await flow.all(flow.topic('rejected'))) as Message<'Rejected'>[]
    expect(rejected.map(({ payload }) => payload.items.map(({ reason }) => reason))).toEqual([
      ['schema', 'invalid_json'],
    ])
    expect(rejected[0]!.payload).toMatchObject({
      promptId: 'extract-definitions',
      run: parts[0]!.payload.run,
    })
  })

  it('is answered with the error, and dead, when it fails for good', async () => {
    const error = new GraphmillError('llm_request_invalid', 'No.')
    const flow = await start(scriptedLlm([{ text: '', error }]))
    const dead = deadTopic(flow.topic('prompt'))
    await flow.broker.ensureTopics([topicSpec(dead)])
    const id = await flow.send('prompt', request('a text'), { replyTo })
    const [part] = await replyOf(flow, id)
    expect(part!.payload).toMatchObject({
      endOfStream: true,
      error: { type: 'llm_request_invalid', message: 'No.' },
      context: { unit: 'extract-definitions' },
    })
    expect(await flow.first(dead, 1)).toHaveLength(1)
  })

  it('says why a reply stayed cut off', async () => {
    const error = new GraphmillError('context_overflow', 'Too long.')
    const flow = await start(
      scriptedLlm([
        { text: lines(2), finish: 'length' },
        { text: '', error },
      ]),
    )
    const id = await flow.send('prompt', request('a text'), { replyTo })
    expect((await replyOf(flow, id)).at(-1)!.payload).toMatchObject({
      accepted: 2,
      truncated: true,
      incomplete: 'truncated',
      cause: { type: 'context_overflow', message: 'Too long.' },
    })
  })
})

describe('a run that fails', () => {
  const usage = (promptTokens: number, completionTokens: number) => ({
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
  })
  const spentOn = async (flow: TestFlow) => {
    const entries = (await flow.all(flow.topic('progress'))) as Message<'Progress'>[]
    return entries.filter(({ payload }) => payload.kind === 'spent')
  }
  const cut = { text: line(1), cutAt: 9, usage: usage(100, 3) }
  const prompts = async () => {
    const catalogue = await loadCatalogue()
    const jsonSchema = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
    const json = testPrompt({ id: 'extract-definitions', responseType: 'json', jsonSchema })
    return { json: { ...catalogue, get: () => json }, jsonl: catalogue }
  }

  it.each([
    ['item_too_long', 'jsonl', [cut, { ...cut, usage: usage(100, 6) }], ['first', 'longer']],
    [
      'reasoning_too_long',
      'jsonl',
      [{ reasoning: 'hm', text: '', finish: 'length', usage: usage(100, 9) }],
      ['first', 'longer'],
    ],
    ['reply_schema_failed', 'json', [{ text: '{"n": "x"}', usage: usage(50, 7) }], ['first', 'reask']],
    [
      'reasoning_too_long',
      'json',
      [{ reasoning: 'hm', text: '', finish: 'length', usage: usage(50, 9) }],
      ['first'],
    ],
  ] as const)(
    'reports on progress what it has spent: %s of a %s prompt',
    async (code, kind, script, reasons) => {
      const llm = scriptedLlm(script)
      const flow = await start(llm, { prompts: (await prompts())[kind] })
      const id = await flow.send('prompt', request('a text'), { replyTo })
      const [part] = await replyOf(flow, id)
      expect(part!.payload.error?.type).toBe(code)
      const [entry, ...more] = await spentOn(flow)
      expect(more).toEqual([])
      expect(entry).toMatchObject({ documentId: 'urn:d', chunkId: 'urn:d/0/0' })
      expect(entry!.payload).toMatchObject({ unit: 'extract-definitions', run: {} })
      const each = script.length === 1 ? [script[0], script[0]] : script
      expect(entry!.payload.usage!.spent).toEqual(
        reasons.map((reason, place) => ({
          reason,
          model: 'scripted-1',
          calls: 1,
          promptTokens: each[place]!.usage.promptTokens,
          completionTokens: each[place]!.usage.completionTokens,
        })),
      )
    },
  )

  it('reports it for every attempt, so that all is counted once', async () => {
    const away = new GraphmillError('llm_unavailable', 'away')
    const llm = scriptedLlm([
      { text: lines(2), finish: 'length', usage: usage(100, 20) },
      { text: line(2).slice(0, 9), error: away },
      { text: line(2), usage: usage(130, 10) },
    ])
    const flow = await start(llm, { replies: openCache({ dir }) })
    const id = await flow.send('prompt', request('a text'), { replyTo })
    const parts = await replyOf(flow, id)
    const reported = [...(await spentOn(flow)).map(({ payload }) => payload), parts.at(-1)!.payload]
    expect(llm.requests).toHaveLength(3)
    expect(reported.map(({ usage: said }) => said!.spent)).toMatchObject([
      [
        { reason: 'first', calls: 1, promptTokens: 100, completionTokens: 20 },
        // What an interrupted call has used is unknown.
        { reason: 'continuation', calls: 1, promptTokens: null, completionTokens: null },
      ],
      [
        { reason: 'cached', calls: 1 },
        { reason: 'continuation', calls: 1, promptTokens: 130, completionTokens: 10 },
      ],
    ])
  })

  it('reports nothing when nothing was spent', async () => {
    const error = new GraphmillError('llm_request_invalid', 'No.')
    const flow = await start(scriptedLlm([{ text: '', error }]))
    const id = await flow.send('prompt', request('a text'), { replyTo })
    await replyOf(flow, id)
    expect(await spentOn(flow)).toEqual([])
  })
})

describe('a redelivered request with a warm cache', () => {
  /** A process of its own: nothing but the folder and the topics is shared with another. */
  const process = (llm: Llm, more: Partial<FlowRuntimeOptions> = {}) =>
    start(llm, { replies: openCache({ dir }), cluster: createMemoryCluster(), ...more })

  it.each([true, false])('asks no model, and gives the same messages; streamed: %s', async (streaming) => {
    const first = await process(scriptedLlm([lines(200)]))
    const id = await first.send('prompt', request('a text', streaming), { replyTo, id: 'the-request' })
    const before = await replyOf(first, id)
    const asked = scriptedLlm([])
    const second = await process(asked)
    await second.send('prompt', request('a text', streaming), { replyTo, id: 'the-request' })
    const after = await replyOf(second, id)
    expect(asked.requests).toHaveLength(0)
    expect(after.map((message) => message.id)).toEqual(before.map((message) => message.id))
    const reported = (messages: readonly Reply[]) =>
      messages.map(({ payload: { usage: _, ...rest } }) => rest)
    expect(reported(after)).toEqual(reported(before))
    expect(after.at(-1)!.payload.usage?.spent).toMatchObject([{ reason: 'cached', calls: 1 }])
  })
})

describe('a process that dies in mid-work', () => {
  let server: LlmServer
  afterEach(() => server.close())

  it('repeats only the calls that were in flight', async () => {
    const texts = Array.from({ length: 12 }, (_, n) => `text ${n}`)
    const slow = Promise.withResolvers<void>()
    server = await startLlmServer({
      rules: [
        {
          match: /text (8|9|10|11)\b/,
          times: 4,
          reply: () => slow.promise.then(() => ({ text: lines(3) })),
        },
        { reply: { text: lines(3) } },
      ],
    })
    const llm = createOpenAi({ baseUrl: server.url, model: 'test-model' })
    const dying = await start(llm, { replies: openCache({ dir }) })
    for (const [n, text] of texts.entries())
      await dying.send('prompt', request(text), { replyTo, id: `request-${n}` })
    const answered = texts.slice(0, 8).map((_, n) => replyOf(dying, `request-${n}`))
    const before = await Promise.all(answered)
    await server.until(({ calls }) => calls === 12)
    // As if killed: nothing was acked that the next process knows of, only the folder is left.
    await dying.runtime.stop(0)
    slow.resolve()
    const next = await start(llm, { replies: openCache({ dir }), cluster: createMemoryCluster() })
    for (const [n, text] of texts.entries())
      await next.send('prompt', request(text), { replyTo, id: `request-${n}` })
    const after = await Promise.all(texts.map((_, n) => replyOf(next, `request-${n}`)))
    expect(server.counts.calls).toBe(12 + 4)
    expect(after.slice(0, 8).map((parts) => parts.map(({ id }) => id))).toEqual(
      before.map((parts) => parts.map(({ id }) => id)),
    )
  })
})
