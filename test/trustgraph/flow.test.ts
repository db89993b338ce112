// A flow of ours on TrustGraph's topics: what its processes write comes to our processors, and what ours write is theirs.
import { afterEach, describe, expect, test } from 'vitest'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import type { FlowRuntimeOptions } from '../../src/flow/run.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
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
})
