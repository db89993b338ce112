// Our prompt processor asks the text-completion service of its flow: TrustGraph's, played by the test, or ours.
import { afterEach, describe, expect, test } from 'vitest'
import { prompt } from '../../processors/prompt.ts'
import { textCompletion } from '../../processors/text-completion.ts'
import type { Broker } from '../../src/broker/broker.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import type { AskService } from '../../src/llm/llm.ts'
import { createTextService } from '../../src/llm/text-service/text-service.ts'
import { unknownUsage } from '../../src/llm/usage.ts'
import type { PromptResponse } from '../../src/messages/generated.ts'
import { receiverOf } from '../../src/trustgraph/request-id.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

const flows: TestFlow[] = []
afterEach(() => Promise.all(flows.splice(0).map((flow) => flow.stop())))

const llm = createTextService({ model: 'text-completion', timeoutMs: 20_000 })
const requests = 'tg.request.text-completion.default.default'
const responses = 'tg.response.text-completion.default.default'
const cat = '{"entity":"Cat","definition":"A feline animal"}\n'

async function start(processors: FlowRuntimeOptions['processors'], more: Parameters<typeof startFlow>[1]) {
  const flow = await startFlow(processors, more)
  flows.push(flow)
  await flow.broker.ensureTopics([requests, responses].map((name) => ({ name, partitions: 1 })))
  return flow
}

const ask = (broker: Broker, id = 'call-1', promptId = 'extract-definitions') =>
  publishJson(
    broker,
    'tg.request.prompt.default.default',
    { id: promptId, terms: { text: '"A cat."' }, streaming: false },
    { id },
  )

const answer = (broker: Broker, id: string, fields: object, headers = {}) =>
  publishJson(
    broker,
    responses,
    {
      ...{ error: null, response: null, in_token: null, out_token: null, model: null },
      ...{ end_of_stream: true, models: [], ...fields },
    },
    { id, ...headers },
  )

describe('TrustGraph’s text-completion service', () => {
  test('is asked for whole replies, and its first answer counts', async () => {
    const { broker } = await start([prompt], { wire: wireOf(), llm })
    await ask(broker)
    const [request] = await readJson(broker, requests)
    expect(request!.body).toMatchObject({
      ...{ operation: 'completion', streaming: false, response_format: null, schema: null },
      prompt: expect.stringContaining('A cat.'),
    })
    const id = request!.headers['id']!
    expect(receiverOf(id)).toMatch(/^prompt-[0-9a-f]{12}$/)
    await answer(broker, 'of-another-client', { response: '{"entity":"Dog","definition":"x"}' })
    // An array of so many parts would take minutes.
    const headers = { 'gm-seq': '4294967290' }
    await answer(broker, id, { response: cat, in_token: 3, out_token: 4, model: 'theirs' }, headers)
    await answer(broker, id, { response: '{"entity":"Dog","definition":"x"}' })
    const [reply] = await readJson(broker, 'tg.response.prompt.default.default')
    expect(reply!.body).toMatchObject({
      object: `[${cat.trim()}]`,
      in_token: 3,
      out_token: 4,
      model: 'theirs',
    })
  })

  test('is asked again after an error that passes, and not after a refusal', async () => {
    const { broker } = await start([prompt], { wire: wireOf(), llm })
    await ask(broker)
    const [first] = await readJson(broker, requests)
    const error = { type: 'llm-error', message: 'LLM returned no response' }
    await answer(broker, first!.headers['id']!, { error })
    const [, again] = await readJson(broker, requests, 2)
    const refusal = { type: 'llm-error', message: 'Error code: 400 - bad request of a kind' }
    await answer(broker, again!.headers['id']!, { error: refusal })
    const [reply] = await readJson(broker, 'tg.response.prompt.default.default')
    const message = expect.stringMatching(/^llm_request_invalid: .*Error code: 400 - bad request of a kind/)
    expect(reply!.body).toMatchObject({ error: { type: 'llm-error', message } })
  })

  test('sees in one message what it has answered before', async () => {
    const asked: object[] = []
    const messages = [
      { role: 'system', content: 'Be exact.' },
      { role: 'user', content: 'List.' },
      { role: 'assistant', content: '{"a":1}' },
      { role: 'user', content: 'Go on.' },
    ] as const
    const service: AskService = async (request) => {
      asked.push(request)
      return { text: '', usage: unknownUsage, model: undefined }
    }
    const events = llm.stream({ messages, service }, new AbortController().signal)
    for await (const event of events) expect(event).toMatchObject({ type: 'end', model: 'text-completion' })
    const prompt = 'List.\n\nYou have answered:\n\n{"a":1}\n\nGo on.'
    expect(asked).toEqual([{ system: 'Be exact.', prompt, timeoutMs: 20_000 }])
  })

  test('that does not answer is unavailable', async () => {
    const silent = createTextService({ model: 'm', timeoutMs: 100 })
    const { broker } = await start([prompt], { wire: wireOf(), llm: silent })
    await ask(broker)
    const [one, other] = await readJson(broker, requests, 2)
    expect(one!.headers['id']).not.toBe(other!.headers['id'])
  })
})

test('our own service answers over our topics, also in parts, and its topic of replies is removed', async () => {
  const cluster = createMemoryCluster()
  const long = Array.from(
    { length: 400 },
    (_, n) => `${JSON.stringify({ entity: `e${n}`, definition: 'x'.repeat(1000) })}\n`,
  )
  await start([textCompletion], { cluster, llm: scriptedLlm([{ pieces: long }]) })
  const flow = await start([prompt], { cluster, llm })
  const replyTo = 'gm.response.prompt.client.default.default'
  await flow.broker.ensureTopics([topicSpec(replyTo)])
  await flow.send('prompt', { promptId: 'extract-definitions', terms: { text: '"x"' } }, { replyTo })
  let items = 0
  for (let count = 1; ; count++) {
    const part = (await flow.first(replyTo, count)).at(-1)!.payload as PromptResponse
    items += (JSON.parse(part.object!) as unknown[]).length
    if (part.endOfStream) break
  }
  expect(items).toBe(400)
  await flow.stop()
  flows.splice(flows.indexOf(flow), 1)
  const topics = await flows[0]!.broker.listTopics('gm.response.text-completion.')
  expect(topics).toEqual([])
})

test('a text-completion processor does not ask itself', async () => {
  await expect(startFlow([prompt, textCompletion], { llm })).rejects.toMatchObject({
    code: 'configuration_invalid',
  })
})

test('outside of a flow there is no service', async () => {
  const stream = llm.stream({ messages: [{ role: 'user', content: 'x' }] }, new AbortController().signal)
  await expect(stream[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'llm_not_configured' })
})
