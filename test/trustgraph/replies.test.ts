// What TrustGraph's clients get from our prompt and text-completion processors, message by message.
import { afterEach, describe, expect, test } from 'vitest'
import { prompt } from '../../processors/prompt.ts'
import { textCompletion } from '../../processors/text-completion.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { GraphmillError } from '../../src/errors.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { catalogueOf } from '../../src/prompt/catalogue/prompt.ts'
import { testPrompt } from '../support/asking.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
import { type Script, scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

const flows: TestFlow[] = []
afterEach(() => Promise.all(flows.splice(0).map((flow) => flow.stop())))

const person = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
const prompts = catalogueOf(
  [
    testPrompt({ id: 'say', responseType: 'text' }),
    testPrompt({ id: 'value', responseType: 'json' }),
    testPrompt({ id: 'list', jsonSchema: person }),
  ].map((each) => ({ prompt: each, aliases: [] })),
)

async function start(llm: Llm, more: Parameters<typeof startFlow>[1] = {}) {
  const flow = await startFlow([prompt, textCompletion], { wire: wireOf(), llm, prompts, ...more })
  flows.push(flow)
  return flow
}

type Body = Readonly<Record<string, unknown>>
const requests = {
  prompt: 'tg.request.prompt.default.default',
  text: 'tg.request.text-completion.default.default',
}
const responses = {
  prompt: 'tg.response.prompt.default.default',
  text: 'tg.response.text-completion.default.default',
}

/** The messages that answer a request, up to the end; the id of each is that of the request. */
async function answer({ broker }: TestFlow, kind: 'prompt' | 'text', request: Body, id = 'call-1') {
  await publishJson(broker, requests[kind], request, { id })
  return repliesTo(broker, kind, id)
}

async function repliesTo(broker: TestFlow['broker'], kind: 'prompt' | 'text', id: string): Promise<Body[]> {
  for (let count = 1; ; count++) {
    const all = (await readJson(broker, responses[kind], count)).filter(({ headers }) => headers['id'] === id)
    if (all.at(-1)?.body['end_of_stream']) return all.map(({ body: { graphmill: _, ...body } }) => body)
  }
}

const ask = (id: string, streaming = false) => ({ id, terms: { text: '"x"' }, streaming })
const tokens = { in_token: expect.any(Number), out_token: expect.any(Number), model: 'scripted-1' }
const whole = { error: null, end_of_stream: true, ...tokens }
const piece = { error: null, object: null, end_of_stream: false, in_token: null, out_token: null }
const end = { ...whole, text: '', object: null }
const names = (count: number) => Array.from({ length: count }, (_, n) => `{"name":"n${n}"}\n`).join('')

describe('a prompt request that is not streamed gets one message', () => {
  test.each<[string, string, Script, Body]>([
    ['text', 'say', ['Hello there'], { text: 'Hello there', object: null }],
    ['an empty text, which their client reads as an object', 'say', [''], { text: '', object: '""' }],
    ['json', 'value', ['So: {"a": {"b": 1}}'], { text: null, object: '{"a":{"b":1}}' }],
    ['jsonl', 'list', [names(2)], { text: null, object: '[{"name":"n0"},{"name":"n1"}]' }],
    ['jsonl without items', 'list', ['[]'], { text: null, object: '[]' }],
    ['jsonl of a model that wrote prose', 'list', ['I see none here.'], { text: null, object: '[]' }],
  ])('%s', async (_, id, script, expected) => {
    const flow = await start(scriptedLlm(script))
    expect(await answer(flow, 'prompt', ask(id))).toEqual([{ ...whole, ...expected }])
  })

  test('with the whole list, also when it is too large for a message of ours', async () => {
    const items = Array.from({ length: 800 }, (_, n) => ({ name: `${n} ${'x'.repeat(1000)}` }))
    const flow = await start(scriptedLlm([{ pieces: items.map((item) => `${JSON.stringify(item)}\n`) }]))
    const [reply, ...more] = await answer(flow, 'prompt', ask('list'))
    expect(JSON.parse(reply!['object'] as string)).toEqual(items)
    expect(more).toEqual([])
  })
})

describe('a streamed prompt request gets text and an end', () => {
  test.each<[string, string, Script, string]>([
    ['text', 'say', ['Hello there'], 'Hello there'],
    ['json', 'value', ['{"a": 1}'], '{"a":1}'],
    ['a line for each item', 'list', [`${names(2)}{"x":1}\n`], '{"name":"n0"}\n{"name":"n1"}\n'],
    ['nothing', 'say', [''], ''],
  ])('%s', async (_, id, script, text) => {
    const flow = await start(scriptedLlm(script))
    const replies = await answer(flow, 'prompt', ask(id, true))
    expect(replies.map((reply) => reply['text']).join('')).toBe(text)
    expect(replies.at(-1)).toEqual(end)
    for (const reply of replies.slice(0, -1)) expect(reply).toMatchObject(piece)
  })

  test('after a failure only once: nothing leaves before the reply is whole', async () => {
    const failure = new GraphmillError('llm_unavailable', 'gone')
    const flow = await start(scriptedLlm([{ text: 'Hello th', error: failure }, 'Hello there']))
    const replies = await answer(flow, 'prompt', ask('say', true))
    expect(replies.map((reply) => reply['text'])).toEqual(['Hello there', ''])
  })
})

test.each<['prompt' | 'text', string]>([
  ['prompt', '{"id": "say", "ter'],
  ['prompt', '{"id": "say", "terms": ["x"]}'],
  ['prompt', ''],
  ['text', '{"prompt": {}}'],
])(
  'a request that cannot be read is answered with an error, besides its dead letter: %s %s',
  async (kind, body) => {
    const flow = await start(scriptedLlm([]))
    const topic = requests[kind]
    await publishJson(flow.broker, topic, body, { id: 'call-1' })
    const [reply, ...more] = await repliesTo(flow.broker, kind, 'call-1')
    expect(reply!['error']).toMatchObject({
      type: 'llm-error',
      message: expect.stringMatching(/^(bytes_undecodable|message_empty): /),
    })
    expect(more).toEqual([])
    await expect.poll(() => flow.broker.hasTopic(`${topic}.dead`)).toBe(true)
  },
)

test('a request of more than 10 MiB is answered with an error', async () => {
  const cluster = createMemoryCluster()
  const maxBytes = 11 * 1024 * 1024
  await cluster.connect().ensureTopics([{ name: requests.prompt, partitions: 1, maxBytes }])
  const flow = await start(scriptedLlm([]), { cluster })
  const text = JSON.stringify('x'.repeat(10 * 1024 * 1024))
  await publishJson(flow.broker, requests.prompt, { id: 'say', terms: { text } }, { id: 'call-1' })
  const [reply] = await repliesTo(flow.broker, 'prompt', 'call-1')
  expect(reply!['error']).toMatchObject({ message: expect.stringMatching(/^message_too_large: /) })
})

test('requests of the interactive lane are answered on its own response topic, in its own words', async () => {
  const flow = await start(scriptedLlm(['Hello there', names(1)]))
  const [request, response] = ['request', 'response'].map((kind) => `tg.${kind}.prompt-rag.default.default`)
  await publishJson(flow.broker, request!, ask('say'), { id: 'call-1' })
  const [said] = await readJson(flow.broker, response!)
  expect(said).toMatchObject({
    headers: { id: 'call-1' },
    body: { text: 'Hello there', end_of_stream: true },
  })
  await publishJson(flow.broker, request!, ask('list', true), { id: 'call-2' })
  const streamed = (await readJson(flow.broker, response!, 3)).slice(1)
  expect(streamed.map(({ headers, body }) => [headers['id'], body['text']])).toEqual([
    ['call-2', names(1)],
    ['call-2', ''],
  ])
  const others = { topic: responses.prompt, from: 'earliest', until: 'end' } as const
  for await (const other of flow.broker.read(others, AbortSignal.timeout(10_000)))
    throw new Error(`a reply on the other lane: ${other.headers['id']}`)
})

test('a streamed request whose process dies while the model writes is answered by another, once', async () => {
  const cluster = createMemoryCluster()
  const asked = Promise.withResolvers<void>()
  const dying = await start(hanging('Half', asked.resolve), { cluster })
  await publishJson(dying.broker, requests.prompt, ask('say', true), { id: 'call-1' })
  await asked.promise
  flows.splice(flows.indexOf(dying), 1)
  await dying.stop()
  const { broker } = await start(scriptedLlm(['Whole']), { cluster })
  const replies = await repliesTo(broker, 'prompt', 'call-1')
  expect(replies.map((reply) => reply['text'])).toEqual(['Whole', ''])
})

describe('a prompt request that fails gets one message', () => {
  const failed = { text: null, object: null, end_of_stream: true }
  const refused = new GraphmillError('llm_request_invalid', 'a bad request')

  test.each([false, true])('with the code and the message of the error, streamed: %s', async (streaming) => {
    const flow = await start(scriptedLlm([{ text: 'Hel', error: refused }]))
    const error = { type: 'llm-error', message: 'llm_request_invalid: a bad request' }
    expect(await answer(flow, 'prompt', ask('say', streaming))).toMatchObject([{ ...failed, error }])
    const unknown = await answer(flow, 'prompt', ask('sya', streaming), 'call-2')
    expect(unknown).toMatchObject([{ error: { message: expect.stringMatching(/^prompt_unknown: .*"sya"/) } }])
  })

  test('when the workspace has no prompts', async () => {
    const flow = await start(scriptedLlm(['x']), { prompts: catalogueOf([]) })
    const error = { type: 'no-configuration', message: expect.stringContaining('say') }
    expect(await answer(flow, 'prompt', ask('say'))).toMatchObject([{ ...failed, error }])
  })

  test('at its deadline, 600 s after it was sent, with what it has waited for', async () => {
    let skew = 599_000
    const failure = new GraphmillError('llm_unavailable', 'gone')
    const llm = scriptedLlm(() => {
      skew = 600_000
      return { error: failure }
    })
    const flow = await start(llm, { clock: { now: () => Date.now() + skew } })
    const message = expect.stringMatching(/^deadline_exceeded: .* llm_unavailable: gone$/)
    const [reply] = await answer(flow, 'prompt', ask('say'))
    expect(reply).toMatchObject({ ...failed, error: { type: 'llm-error', message } })
    expect(llm.requests.length).toBeGreaterThan(0)
  })

  test('at its deadline also while the model writes', async () => {
    const flow = await start(hanging('Hel'), { clock: { now: () => Date.now() + 599_800 } })
    const message = expect.stringMatching(/^deadline_exceeded: /)
    expect(await answer(flow, 'text', { prompt: 'x' })).toMatchObject([{ error: { message } }])
  })

  test('after its deadline, without a call of the model', async () => {
    const llm = scriptedLlm(['x'])
    const flow = await start(llm, { clock: { now: () => Date.now() + 600_000 } })
    const message = expect.stringMatching(/^deadline_exceeded: /)
    expect(await answer(flow, 'prompt', ask('say'))).toMatchObject([{ error: { message } }])
    expect(llm.requests).toEqual([])
  })

  test('when the cost limit has kept all of the reply from coming', async () => {
    const limit = new GraphmillError('cost_limit_reached', 'no more')
    const flow = await start(scriptedLlm([{ error: limit }]))
    const error = { type: 'llm-error', message: 'cost_limit_reached: no more' }
    for (const [n, id] of ['say', 'value', 'list'].entries())
      expect(await answer(flow, 'prompt', ask(id, n === 1), `call-${n}`)).toMatchObject([
        { ...failed, error },
      ])
  })
})

test('what their reply has no field for is in our topics: rejections, truncation, tokens', async () => {
  const flow = await start(scriptedLlm([{ text: `${names(1)}{"x":1}\n{"name":"c`, finish: 'length' }]), {
    limits: { maxCalls: 1 },
  })
  await publishJson(flow.broker, requests.prompt, ask('list'), { id: 'call-1' })
  const [reply] = await readJson(flow.broker, responses.prompt)
  expect(reply!.body).toMatchObject({
    ...{ error: null, object: '[{"name":"n0"}]' },
    graphmill: { truncated: true, incomplete: 'truncated', accepted: 1, rejected: 1 },
  })
  const [rejected] = await flow.first(flow.topic('rejected'), 1)
  expect(rejected!.payload).toMatchObject({ promptId: 'list', items: [{ text: '{"x":1}' }] })
  const [entry] = await flow.first(flow.topic('progress'), 1)
  expect(entry).toMatchObject({
    ...{ correlationId: 'call-1', documentId: '' },
    payload: { kind: 'reply', unit: 'list', last: true, incomplete: 'truncated', model: 'scripted-1' },
  })
})

describe('a request for text', () => {
  const said = { ...whole, models: [] }

  test('is answered in one message, or in text and an end', async () => {
    const flow = await start(scriptedLlm(['Hello there']))
    const request = { system: 's', prompt: 'p' }
    expect(await answer(flow, 'text', request)).toEqual([{ ...said, response: 'Hello there' }])
    const streamed = await answer(flow, 'text', { ...request, streaming: true }, 'call-2')
    expect(streamed.map((reply) => reply['response'])).toEqual(['Hello there', ''])
    expect(streamed.map((reply) => reply['end_of_stream'])).toEqual([false, true])
    expect(streamed.map((reply) => reply['in_token'])).toEqual([null, 10])
  })

  test('that is larger than a part of ours is answered in one message too', async () => {
    const text = 'x'.repeat(400_000)
    const flow = await start(scriptedLlm([{ pieces: [text] }]))
    expect(await answer(flow, 'text', { prompt: 'p' })).toEqual([{ ...said, response: text }])
  })

  test('with a schema gets a value that fits it', async () => {
    const flow = await start(scriptedLlm(['{"x": 1}', '{"name": "Ada"}']))
    const request = { prompt: 'p', response_format: 'json', schema: person }
    expect(await answer(flow, 'text', request)).toMatchObject([{ ...said, response: '{"name":"Ada"}' }])
  })

  test('gets an error without a response', async () => {
    const flow = await start(scriptedLlm([{ error: new GraphmillError('llm_request_invalid', 'no') }]))
    const error = { type: 'llm-error', message: 'llm_request_invalid: no' }
    const expected = [{ error, response: null, end_of_stream: true, models: [] }]
    expect(await answer(flow, 'text', { prompt: 'p', streaming: true })).toMatchObject(expected)
  })

  test('for the models lists those of the server, or the model that answers', async () => {
    const lists = [['a', 'b'], []]
    const llm = { ...scriptedLlm([]), listModels: async () => lists.shift()! }
    const flow = await start(llm)
    const request = { operation: 'list-models' }
    const listed = await answer(flow, 'text', request)
    expect(listed).toMatchObject([{ error: null, response: '', models: [{ id: 'a' }, { id: 'b' }] }])
    expect(await answer(flow, 'text', request, 'call-2')).toMatchObject([{ models: [{ id: 'scripted' }] }])
  })

  test('for something else, or for the models of a server without a list, is not implemented', async () => {
    const flow = await start(scriptedLlm([]))
    for (const operation of ['list-models', 'embed'])
      expect(await answer(flow, 'text', { operation }, operation)).toMatchObject([
        { error: { type: 'not-implemented' }, response: null, models: [] },
      ])
  })
})

/** A model that writes this, and then nothing until its call is aborted. */
function hanging(text: string, onAsked = () => {}): Llm {
  return {
    ...scriptedLlm([]),
    async *stream(_request, signal) {
      yield { type: 'delta', kind: 'content', text }
      onAsked()
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
  }
}
