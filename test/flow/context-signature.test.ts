// With a key, a request can't be made in another's name: replies to requests that are unsigned, or signed for something else, make no facts.
import { afterEach, describe, expect, test } from 'vitest'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { extractTopics } from '../../processors/extract-topics.ts'
import { prompt } from '../../processors/prompt.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { deadTopic } from '../../src/broker/topics.ts'
import { createContextSigner, readContextKeys, signatureName } from '../../src/flow/context-signature.ts'
import { inputTopic } from '../../src/flow/ports.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { scope, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const key = 'a key of the tests 1'
const newKey = 'a key of the tests 2'
const chunk = { part: 0, index: 0, offset: 0, length: 4, text: 'mill' }
const repliesOf = (processor: string) => inputTopic('prompt-reply', { space: 'gm', ...scope }, processor)
const inbox = repliesOf('extract-definitions')
const reply = '{"entity":"mill","definition":"a machine"}'

const flows: TestFlow[] = []
afterEach(async () => {
  await Promise.all(flows.splice(0).map((flow) => flow.stop()))
})

async function start(
  contextKey: string | (() => string) | undefined,
  more: Partial<FlowRuntimeOptions> & { cluster?: ReturnType<typeof createMemoryCluster> } = {},
) {
  const llm = scriptedLlm([reply])
  const read = typeof contextKey === 'string' ? () => contextKey : contextKey
  const flow = await startFlow([prompt, extractDefinitions], { llm, contextKey: read, ...more })
  flows.push(flow)
  return { ...flow, llm }
}

const requestsOf = async (flow: TestFlow) =>
  (await flow.all(flow.topic('prompt'))) as Message<'PromptRequest'>[]
const factsOf = async (flow: TestFlow) => flow.all(flow.topic('definitions'))

async function lettersOf(flow: TestFlow, topic: string, count: number) {
  await expect.poll(() => flow.broker.listTopics(deadTopic(topic)), { timeout: 10_000 }).toHaveLength(1)
  const letters = []
  const range = { topic: deadTopic(topic), from: 'earliest', until: 'never' } as const
  for await (const letter of flow.broker.read(range, AbortSignal.timeout(10_000))) {
    letters.push(letter)
    if (letters.length === count) break
  }
  return letters
}

describe('without a key', () => {
  test('nothing is signed, and a request in the name of an extractor is taken', async () => {
    const flow = await start(undefined)
    await flow.send('chunk', chunk)
    await flow.first(flow.topic('definitions'), 1)
    const [request] = await requestsOf(flow)
    expect(request!.payload.context).not.toHaveProperty(signatureName)
    const forged = { promptId: 'extract-definitions', terms: { text: '"x"' }, context: { part: '0' } }
    await flow.send('prompt', forged, { replyTo: inbox, documentId: 'urn:other' })
    expect(await flow.first(flow.topic('definitions'), 2)).toHaveLength(2)
  })
})

describe('with a key', () => {
  test('what extractors ask comes back to them, and clients of the prompt service sign nothing', async () => {
    const flow = await start(key)
    await flow.send('chunk', chunk)
    const [facts] = await flow.first(flow.topic('definitions'), 1)
    expect(facts!.payload).toMatchObject({ facts: [{ entity: 'mill' }] })
    const client = await PromptClient.connect({ broker: flow.broker, lane: 'prompt' })
    const parts = []
    for await (const part of client.ask('extract-definitions', { text: 'x' }, { context: { mine: '1' } }))
      parts.push(part)
    expect(parts).toMatchObject([{ context: { mine: '1' } }])
    await client.close()
  })

  test('the signature changes no id: of the same chunk, with any key or none, come the same requests', async () => {
    const ids = []
    for (const each of [undefined, key, newKey, key]) {
      const flow = await start(each)
      await flow.send('chunk', chunk, { id: 'the chunk' })
      await flow.first(flow.topic('definitions'), 1)
      const [request] = await requestsOf(flow)
      const { [signatureName]: signature, ...rest } = request!.payload.context
      ids.push([request!.id, request!.correlationId, rest])
      expect(signature?.length).toBe(each && 66)
    }
    expect(ids).toEqual(Array(4).fill(ids[0]))
  })

  test.each([
    ['without a signature', undefined],
    ['with a signature of another key', newKey],
  ])('a request in the name of an extractor, %s, makes no facts and no death of a unit', async (_, by) => {
    const flow = await start(key)
    const context = { unit: 'extract-definitions' }
    const payload = { promptId: 'extract-definitions', terms: { text: '"x"' }, streaming: true, context }
    const place = { ...scope, collection: 'default', documentId: 'urn:d', chunkId: 'urn:d/0/0' }
    const signer = createContextSigner(() => by)
    const signed = signer.sign(payload, { ...place, correlationId: 'forged', replyTo: inbox })
    await flow.send('prompt', { ...payload, context: signed }, { id: 'forged', replyTo: inbox })
    const [letter] = await lettersOf(flow, inbox, 1)
    expect(letter!.headers).toMatchObject({
      'dead-code': 'context_unsigned',
      'dead-processor': 'extract-definitions',
      correlationId: 'forged',
    })
    expect(await factsOf(flow)).toEqual([])
    expect(await flow.all(flow.topic('progress'))).toEqual([])
  })

  test('a request that dies in the name of an extractor reports no death of a unit', async () => {
    const flow = await start(key)
    const context = { unit: 'extract-definitions' }
    await flow.send('prompt', { promptId: 'none', terms: {}, context }, { replyTo: inbox })
    const [letter] = await lettersOf(flow, flow.topic('prompt'), 1)
    expect(letter!.headers['dead-code']).toBe('prompt_unknown')
    await lettersOf(flow, inbox, 1)
    expect(await flow.all(flow.topic('progress'))).toEqual([])
  })

  test('a signed context serves its own request only', async () => {
    const cluster = createMemoryCluster()
    const flow = await start(key, { cluster })
    await flow.send('chunk', chunk)
    await flow.first(flow.topic('definitions'), 1)
    const [request] = await requestsOf(flow)
    const { type: __, payload, ...header } = request!
    const calls = flow.llm.requests.length
    // Other terms under the id of the request: refused before the model is asked.
    await flow.send('prompt', { ...payload, terms: { text: '"invented"' } }, header)
    const [other] = await lettersOf(flow, flow.topic('prompt'), 1)
    expect(other!.headers['dead-code']).toBe('context_unsigned')
    expect(flow.llm.requests).toHaveLength(calls)
    // Another id, document, chunk or collection, another entry of the context: refused by the extractor.
    const changes = [
      { id: 'another', correlationId: 'another' },
      { documentId: 'urn:other' },
      { chunkId: 'urn:d/0/1' },
      { collection: 'other' },
    ]
    for (const change of changes) await flow.send('prompt', payload, { ...header, ...change })
    await flow.send('prompt', { ...payload, context: { ...payload.context, index: '7' } }, header)
    const letters = await lettersOf(flow, inbox, 5)
    expect(letters.map(({ headers }) => headers['dead-code'])).toEqual(Array(5).fill('context_unsigned'))
    expect(await factsOf(flow)).toHaveLength(1)
  })

  test('a signed context counts at the response topic that it names, and at no other', async () => {
    const llm = scriptedLlm([reply])
    const flow = await startFlow([prompt, extractDefinitions, extractTopics], { llm, contextKey: () => key })
    flows.push(flow)
    await flow.send('chunk', chunk)
    await flow.first(flow.topic('definitions'), 1)
    const request = (await requestsOf(flow)).find(({ source }) => source === 'extract-definitions')!
    const { type: _, payload, ...header } = request
    await flow.send('prompt', payload, { ...header, replyTo: repliesOf('extract-topics') })
    const [letter] = await lettersOf(flow, repliesOf('extract-topics'), 1)
    expect(letter!.headers['dead-code']).toBe('context_unsigned')
  })
})

describe('a key that changes', () => {
  test('is taken beside the other one, while replicas have either', async () => {
    const [one, other] = [
      createContextSigner(() => `${key},${newKey}`),
      createContextSigner(() => `${newKey},${key}`),
    ]
    const request = { promptId: 'p', terms: {}, context: { unit: 'u' } }
    const place = {
      ...scope,
      collection: 'c',
      documentId: 'd',
      chunkId: 'd/0/0',
      correlationId: 'id',
      replyTo: inbox,
    }
    const replyTo = (signer: typeof one) =>
      ({
        ...place,
        type: 'PromptResponse',
        payload: { context: signer.sign(request, place) },
      }) as unknown as Message<'PromptResponse'>
    for (const signer of [one, other])
      expect([one, other].map((reader) => reader.accepts(replyTo(signer), inbox))).toEqual([true, true])
    expect(createContextSigner(() => newKey).accepts(replyTo(one), inbox)).toBe(false)
    expect(one.sign(request, place)).toEqual(one.sign(request, place))
  })

  test('is read again while the flow runs; a text that is no key changes nothing', async () => {
    let text = key
    const flow = await start(() => text)
    const signedBy = async (documentId: string) => {
      await flow.send('chunk', chunk, { documentId, chunkId: `${documentId}/0/0` })
      await expect
        .poll(async () => (await factsOf(flow)).filter((each) => each.documentId === documentId), {
          timeout: 10_000,
        })
        .toHaveLength(1)
      const request = (await requestsOf(flow)).find((each) => each.documentId === documentId)!
      const accepts = (keys: string) => createContextSigner(() => keys).accepts(request, inbox)
      return { old: accepts(key), new: accepts(newKey) }
    }
    expect(await signedBy('urn:1')).toEqual({ old: true, new: false })
    text = `${newKey},${key}`
    expect(await signedBy('urn:2')).toEqual({ old: false, new: true })
    text = 'short'
    expect(await signedBy('urn:3')).toEqual({ old: false, new: true })
  })

  test('from none to one: `unsigned` takes replies of requests that were sent before', async () => {
    const cluster = createMemoryCluster()
    const before = await startFlow([extractDefinitions], { cluster })
    await before.send('chunk', chunk)
    await before.first(before.topic('prompt'), 1)
    await before.stop()
    const flow = await start(`${key},unsigned`, { cluster })
    expect(await flow.first(flow.topic('definitions'), 1)).toHaveLength(1)
    await flow.send('chunk', chunk, { documentId: 'urn:2' })
    await flow.first(flow.topic('definitions'), 2)
    const signed = (await requestsOf(flow)).map((each) => [
      each.documentId,
      signatureName in each.payload.context,
    ])
    expect(Object.fromEntries(signed)).toEqual({ 'urn:d': false, 'urn:2': true })
  })
})

test('keys are at least 16 characters long, separated by commas', () => {
  expect(readContextKeys(`${key}, ${newKey} ,unsigned`)).toMatchObject({
    keys: [key, newKey],
    takesUnsigned: true,
  })
  for (const text of ['short', `${key},short`, 'unsigned', '', `${key},`])
    expect(() => readContextKeys(text)).toThrow('context-key must hold keys of at least 16 characters')
})
