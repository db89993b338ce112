// A flow of ours on TrustGraph's topics: what its processes write comes to our processors, and what ours write is theirs.
import { afterEach, describe, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { replayOne } from '../../src/cli/replay.ts'
import { PromptClient } from '../../src/flow/prompt-client.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { trustGraphBroker } from '../../src/trustgraph/broker.ts'
import { trustGraphCodec } from '../../src/trustgraph/wire-codec.ts'
import { refusing, scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, readJson, wireOf } from '../support/trustgraph.ts'

const flows: TestFlow[] = []
afterEach(() => Promise.all(flows.splice(0).map((flow) => flow.stop())))

async function start(processors: FlowRuntimeOptions['processors'], more: Partial<FlowRuntimeOptions> = {}) {
  const flow = await startFlow(processors, { wire: wireOf(), ...more })
  flows.push(flow)
  return flow
}

const chunk = {
  metadata: { id: 'urn:chunk:1', root: 'urn:doc:1', collection: 'research' },
  chunk: 'A cat is a feline animal.',
  document_id: 'urn:chunk:1',
  attributes: {},
}
async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

const cat = '{"entity": "Cat", "definition": "A feline animal"}\n'

describe('a flow on TrustGraph’s wire', () => {
  test('answers a prompt request of TrustGraph on its response topic, with the id of the request', async () => {
    const { broker } = await start([prompt], { llm: scriptedLlm([cat]) })
    const request = { id: 'extract-definitions', terms: { text: '"A cat."' }, streaming: false }
    await publishJson(broker, 'tg.request.prompt.default.default', request, { id: 'call-1' })
    const [reply] = await readJson(broker, 'tg.response.prompt.default.default')
    expect(reply!.headers['id']).toBe('call-1')
    expect(JSON.parse(reply!.body['object'] as string)).toMatchObject([{ entity: 'Cat' }])
  })

  test('extracts from chunks of TrustGraph, and writes triples and contexts as its stores read them', async () => {
    const { broker } = await start([extractDefinitions, prompt, emitTriples], { llm: scriptedLlm([cat]) })
    await publishJson(broker, 'tg.flow.chunk-load.default.default', chunk)
    const [triples] = await readJson(broker, 'tg.flow.triples-store.default.default')
    expect(triples!.body).toMatchObject({ metadata: chunk.metadata })
    const [contexts] = await readJson(broker, 'tg.flow.entity-contexts-load.default.default')
    for (const context of contexts!.body['entities'] as object[])
      expect(context).toMatchObject({ chunk_id: 'urn:chunk:1' })
  })

  test('reads the replies of TrustGraph’s prompt service to its own requests, and skips those of other clients', async () => {
    const { broker } = await start([extractDefinitions, emitTriples])
    await publishJson(broker, 'tg.flow.chunk-load.default.default', chunk)
    const [request] = await readJson(broker, 'tg.request.prompt.default.default')
    expect(request!.body).toMatchObject({ id: 'extract-definitions', streaming: false })
    const answer = (entity: string) => ({
      ...{ error: null, text: null, object: JSON.stringify([{ entity, definition: 'd' }]) },
      ...{ end_of_stream: true, in_token: 1, out_token: 1, model: 'm' },
    })
    const replies = 'tg.response.prompt.default.default'
    const id = request!.headers['id']!
    await publishJson(broker, replies, answer('Dog'), { id: 'another-client' })
    await publishJson(broker, replies, answer('Cow'), {
      id: id.replace('.extract-definitions.', '.extract-topics.'),
    })
    await publishJson(broker, replies, answer('Cat'), { id })
    const [triples] = await readJson(broker, 'tg.flow.triples-store.default.default')
    expect(triples!.body['metadata']).toEqual(chunk.metadata)
    expect(JSON.stringify(triples!.body)).toContain('/e/cat')
    expect(JSON.stringify(triples!.body)).not.toMatch(/\/e\/(dog|cow)/)
    const group = 'gm.extract-definitions.prompt.default.default'
    await expect.poll(async () => (await broker.lag(group, replies)).total).toBe(0)
  })

  test('keeps ids, causes and traces between its own processors, and repeats get the same ids', async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
    const headers = { 'gm-id': 'chunk-message', 'gm-source': 'chunk-text', traceparent }
    const { broker } = await start([extractDefinitions])
    await publishJson(broker, 'tg.flow.chunk-load.default.default', chunk, headers)
    await publishJson(broker, 'tg.flow.chunk-load.default.default', chunk, headers)
    const [one, other] = await readJson(broker, 'tg.request.prompt.default.default', 2)
    expect(one!.headers).toMatchObject({
      'gm-causation': 'chunk-message',
      'gm-source': 'extract-definitions',
    })
    expect(one!.headers['traceparent']).toContain('a'.repeat(32))
    expect([other!.headers['id'], other!.headers['gm-id']]).toEqual([
      one!.headers['id'],
      one!.headers['gm-id'],
    ])
  })

  test('cuts its own documents as on our own wire: parts, places and titles stay', async () => {
    const { broker } = await start([chunkText], {
      flows: [{ ...scope, settings: { ...settings, chunkSize: 20, chunkOverlap: 0 } }],
    })
    const own = { title: 'notes.md', part: 3, offset: 1000, start: 1000 }
    const metadata = { id: 'urn:doc:1', root: 'urn:doc:1', collection: 'c' }
    await publishJson(broker, 'tg.flow.text-document-load.default.default', {
      ...{ metadata, text: 'A cat is a feline. A dog is a canine.', document_id: '' },
      graphmill: own,
    })
    const [first, second] = await readJson(broker, 'tg.flow.chunk-load.default.default', 2)
    expect(first!.body).toMatchObject({ document_id: 'urn:doc:1/3/0', graphmill: { part: 3, offset: 1000 } })
    expect(second!.body).toMatchObject({ document_id: 'urn:doc:1/3/1', graphmill: { part: 3, index: 1 } })
  })

  test('goes on with a flow of TrustGraph that was stopped and started: what came meanwhile is not lost', async () => {
    const cluster = createMemoryCluster()
    const wire = wireOf()
    const first = await startFlow([extractDefinitions], { cluster, wire })
    flows.push(first)
    const topics = (await first.broker.listTopics('tg.')).map(({ name }) => name)
    await first.broker.deleteTopics(topics)
    await expect(first.runtime.done).rejects.toMatchObject({ code: 'topic_missing' })
    await first.runtime.stop(0)
    await first.broker.ensureTopics(topics.map((name) => ({ name, partitions: 1 })))
    await publishJson(first.broker, 'tg.flow.chunk-load.default.default', chunk)
    const second = await startFlow([extractDefinitions], { cluster, wire })
    flows.push(second)
    const [request] = await readJson(second.broker, 'tg.request.prompt.default.default')
    expect(request!.body).toMatchObject({ id: 'extract-definitions' })
  })

  test('is asked by a prompt client of ours, on the topics of TrustGraph', async () => {
    const { broker } = await start([prompt], { llm: scriptedLlm([cat, cat]) })
    for (const lane of ['prompt', 'prompt-live'] as const) {
      const client = await PromptClient.connect({ broker, wire: wireOf(), lane })
      const parts = await allOf(client.ask('extract-definitions', { text: 'A cat.' }))
      await client.close()
      const items = parts.flatMap(({ object }) => (object === null ? [] : (JSON.parse(object) as unknown[])))
      expect(items).toMatchObject([{ entity: 'Cat' }])
    }
    const names = (await broker.listTopics('')).map(({ name }) => name)
    expect(names).toContain('tg.response.prompt.default.default')
    expect(names.filter((name) => name.startsWith('gm.response.'))).toEqual([])
  })

  test('a dead chunk is replayed on its topic, and its document hears of both', async () => {
    const flow = await start([refusing()])
    const wired = trustGraphBroker(flow.broker, wireOf())
    const codec = trustGraphCodec(flow.codec, wireOf())
    await publishJson(flow.broker, 'tg.flow.chunk-load.default.default', chunk)
    const progress = { topic: flow.topic('progress'), from: 'earliest', until: 'never' } as const
    const kinds: string[] = []
    const { signal } = new AbortController()
    for await (const { value, headers } of wired.read(progress, signal)) {
      const message = flow.codec.decode(value, headers) as Message<'Progress'>
      expect(message.documentId).toBe('urn:doc:1')
      kinds.push(message.payload.kind)
      if (kinds.length === 1) {
        const topic = 'gm.flow.chunk.default.default.dead'
        await expect.poll(async () => (await wired.listTopics(topic)).length).toBe(1)
        const [letter] = await allOf(wired.read({ topic, from: 'earliest', until: 'end' }, signal))
        const message = codec.decode(letter!.value, letter!.headers, letter)
        const at = { broker: wired, codec, signal, onRefused: () => expect.unreachable() }
        expect(await replayOne(at, topic, message.id)).toBe(true)
      }
      if (kinds.length === 3) break
    }
    expect(kinds.sort()).toEqual(['dead', 'dead', 'replayed'])
    const chunks = await readJson(flow.broker, 'tg.flow.chunk-load.default.default', 2)
    expect(chunks[1]!.body).toEqual(chunk)
  })
})
