// Chunks of TrustGraph's chunker in the ledger: nobody says how many there are.
import { expect, onTestFinished, test } from 'vitest'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { ledger } from '../../processors/ledger.ts'
import { prompt } from '../../processors/prompt.ts'
import { viewStatus } from '../../src/cli/status-view.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { startFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'
import { publishJson, wireOf } from '../support/trustgraph.ts'

const cat = '{"entity": "Cat", "definition": "A feline animal"}\n'

test('chunks of TrustGraph are counted once each by their URN, and their document is running and never done by count', async () => {
  const flow = await startFlow([extractDefinitions, prompt, ledger], {
    wire: wireOf(),
    llm: scriptedLlm(() => cat),
  })
  onTestFinished(() => flow.stop())
  const urns = ['urn:chunk:5e0c', 'urn:chunk:5e0c/0/1', 'urn:chunk:77aa/0/1']
  for (const id of [...urns, ...urns]) {
    const metadata = { id, root: 'urn:doc:1', collection: 'research' }
    const chunk = { metadata, chunk: 'A cat is a feline animal.', document_id: id, attributes: {} }
    await publishJson(flow.broker, 'tg.flow.chunk-load.default.default', chunk)
  }
  const states = new Set<string>()
  for await (const entry of flow.broker.read(
    { topic: flow.topic('status'), from: 'earliest', until: 'never' },
    AbortSignal.timeout(20_000),
  )) {
    const status = flow.codec.decode(entry.value, entry.headers) as Message<'Status'>
    states.add(status.payload.state)
    if (status.payload.done < urns.length) continue
    expect(viewStatus(status, new Map() as never, null)).toMatchObject({
      documentId: 'urn:doc:1',
      state: 'running',
      chunks: 3,
      units: { expected: null, done: 3, partial: 0, dead: 0 },
      facts: { definitions: 3 },
    })
    break
  }
  expect(states).toEqual(new Set(['running']))
})
