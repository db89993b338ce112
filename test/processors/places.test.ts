// Places from a loaded document to its triples, with characters that take two code units.
import { afterEach, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import { loadDocument } from '../../src/flow/load-document.ts'
import { inputGroup, inputTopic } from '../../src/flow/ports.ts'
import type { FlowSettings } from '../../src/flow/processor.ts'
import type { Message } from '../../src/messages/envelope.ts'
import { textSource } from '../support/extraction.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const processors = [chunkText, prompt, extractDefinitions, emitTriples]
/** Two parts, as a part has at most 512 KiB, each full of emoji, and the mill far behind. */
const filler = '😀 東京 🦀.\n\n'.repeat(30_000)
const text = `${filler}The mill 🌾 grinds.`

async function extract(more: Partial<FlowSettings>): Promise<TestFlow> {
  const reply = '{"entity": "mill", "definition": "It grinds."}'
  flow = await startFlow(processors, {
    llm: scriptedLlm(({ messages }) => (messages.at(-1)!.content.includes('The mill') ? reply : '')),
    flows: [
      {
        ...scope,
        settings: { ...settings, chunkSize: 50_000, extractors: ['extract-definitions'], ...more },
      },
    ],
  })
  const { broker, codec, runtime } = flow
  await loadDocument(
    textSource('mill.txt', text),
    {
      broker,
      codec,
      circuits: runtime.circuits,
      clock: { now: () => 0 },
      ids: { next: () => crypto.randomUUID() },
      space: 'gm',
      scope,
      collection: 'default',
      source: 'test',
    },
    new AbortController().signal,
  )
  const place = { space: 'gm', ...scope }
  for (let isBusy = true; isBusy; ) {
    await new Promise(setImmediate)
    const lags = processors.flatMap(({ name, inputs }) =>
      inputs.map((port) => broker.lag(inputGroup(port, place, name), inputTopic(port, place, name))),
    )
    isBusy = (await Promise.all(lags)).some(({ total }) => total > 0)
  }
  return flow
}

test('a fact in the second part of a document stands where the document has it, in code units and in code points', async () => {
  const { all, topic } = await extract({ provenance: 'subgraph' })
  const [definitions] = (await all(topic('definitions'))) as Message<'Definitions'>[]
  const { status, spans } = definitions!.payload.facts[0]!.grounding!
  expect([status, spans[0]!.field]).toEqual(['exact', 'entity'])
  const { offset, length, start, end } = spans[0]!
  expect(text.slice(offset, offset + length)).toBe('mill')
  expect([...text].slice(start!, end!).join('')).toBe('mill')
  expect(start).toBeLessThan(offset)
  const triples = ((await all(topic('triples'))) as Message<'Triples'>[]).flatMap(
    ({ payload }) => payload.triples,
  )
  const textOf = (name: string) =>
    triples.find(({ p }) => p.iri === `http://www.w3.org/ns/oa#${name}`)?.o.value
  expect([textOf('start'), textOf('end'), textOf('exact')]).toEqual([String(start), String(end), 'mill'])
})

test('without provenance there are no triples about places', async () => {
  const { all, topic } = await extract({ provenance: 'none' })
  const triples = ((await all(topic('triples'))) as Message<'Triples'>[]).flatMap(
    ({ payload }) => payload.triples,
  )
  expect(triples).toHaveLength(2)
  expect(triples.every(({ g }) => g === null)).toBe(true)
})
