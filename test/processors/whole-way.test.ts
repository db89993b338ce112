// From a document to a store with provenance: every file format, read by n3 and rdflib, and a SPARQL store say the same.
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chunkText } from '../../processors/chunk-text.ts'
import { emitTriples } from '../../processors/emit-triples.ts'
import { extractAgentKg } from '../../processors/extract-agent-kg.ts'
import { prompt } from '../../processors/prompt.ts'
import { storeTriples } from '../../processors/store-triples.ts'
import { inputGroup, inputTopic } from '../../src/flow/ports.ts'
import type { FlowSettings } from '../../src/flow/processor.ts'
import { reify } from '../../src/rdf/reify.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import { openFileStore, type TripleStore } from '../../src/rdf/store.ts'
import type { Triple } from '../../src/rdf/term.ts'
import { keys, readKeys } from '../rdf/quads.ts'
import { brokerSource } from '../support/brokers.ts'
import { scope, settings, startFlow } from '../support/flow.ts'
import { type FusekiServer, startFuseki } from '../support/fuseki-server.ts'
import { installRdflib, readInRdflib } from '../support/rdflib.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const reply = [
  {
    type: 'definition',
    entity: 'Ada "Lovelace"',
    definition: 'A mathematician\nof London, \\u0022 \u0000 مطحنة',
  },
  { type: 'relationship', subject: 'Ada "Lovelace"', predicate: 'knew', object: 'Babbage' },
  { type: 'relationship', subject: 'Babbage', predicate: 'born', object: '1791', 'object-entity': false },
]
const document = {
  title: 'On <engines>',
  uri: 'file:///notes on engines.txt',
  text: `Ada knew Babbage${' and Babbage knew Ada'.repeat(120)}.`,
}
const processors = [chunkText, prompt, extractAgentKg, emitTriples, storeTriples]

/** Sends the document, with an id of its own, through a flow; resolves when all is stored. */
async function runFlow(
  store: TripleStore,
  provenance: NonNullable<FlowSettings['provenance']> = 'subgraph',
): Promise<Triple[]> {
  const stored: Triple[] = []
  const spying: TripleStore = {
    ...store,
    async write(triples, ...rest) {
      await store.write(triples, ...rest)
      stored.push(...triples)
    },
    ...(store.support && {
      support: {
        ...store.support,
        async state(statements, ...rest) {
          await store.support!.state(statements, ...rest)
          stored.push(...statements.flatMap(({ triples }) => triples))
        },
      },
    }),
  }
  let runs = 0
  const flow = await startFlow(processors, {
    llm: scriptedLlm([reply.map((each) => JSON.stringify(each)).join('\n')]),
    store: spying,
    flows: [{ ...scope, settings: { ...settings, extractors: ['extract-agent-kg'], provenance } }],
    clock: { now: () => Date.UTC(2026, 0, 1) },
    ids: { next: () => `run-${runs++}` },
  })
  await flow.send('document', document, {
    id: 'document',
    time: Date.UTC(2026, 0, 1),
    documentId: 'notes on engines',
  })
  const place = { space: 'gm', ...scope }
  for (let isBusy = true; isBusy; ) {
    await new Promise(setImmediate)
    const lags = processors.flatMap(({ name, inputs }) =>
      inputs.map((port) => flow.broker.lag(inputGroup(port, place, name), inputTopic(port, place, name))),
    )
    isBusy = (await Promise.all(lags)).some(({ total }) => total > 0)
  }
  await flow.stop()
  await store.close()
  return stored
}

const nowhere: TripleStore = { write: async () => undefined, close: async () => undefined }

describe('a file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'graphmill-files-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))
  const missing = installRdflib()

  test.each([
    ['nquads', 'N-Quads'],
    ['trig', 'TriG'],
    ['turtle', 'Turtle'],
  ] as const)('of %s holds facts and provenance, as n3 and rdflib read it', async (format, name) => {
    const path = join(folder, format)
    const triples = await runFlow(await openFileStore(path, { format }))
    const expected = keys(reify(triples).map((each) => (format === 'turtle' ? { ...each, g: null } : each)))
    const text = await readFile(path, 'utf8')
    expect(readKeys(text, name)).toEqual(expected)
    if (missing === undefined) expect(readInRdflib(text, format)).toEqual(expected)
    else process.stderr.write(`${missing}: ${format} was read by n3 only\n`)
  })
})

describe('provenance', () => {
  const ofType = (triples: readonly Triple[], type: string) =>
    new Set(
      triples.filter(({ p, o }) => p.iri!.endsWith('#type') && o.iri!.endsWith(type)).map(({ s }) => s.iri),
    )

  test('says what the document is, which pieces of it the chunks are, and what was found in each', async () => {
    const triples = await runFlow(nowhere)
    const about = (end: string) => triples.filter(({ p }) => p.iri!.endsWith(end))
    expect(ofType(triples, '/Document')).toEqual(new Set(['urn:graphmill:document:notes%20on%20engines']))
    const chunks = ofType(triples, '/Chunk')
    expect(chunks.size).toBe(2)
    expect(about('/title').map(({ o }) => o.value)).toEqual(['On <engines>'])
    expect(about('/source').map(({ o }) => o.iri)).toEqual(['file:///notes%20on%20engines.txt'])
    expect(about('/chunkIndex').map(({ o }) => o.value)).toEqual(['0', '1'])
    const lengths = about('/charLength').map(({ o }) => Number(o.value))
    const offsets = about('/charOffset').map(({ o }) => Number(o.value))
    expect(offsets[0]).toBe(0)
    expect(offsets[1]! + lengths[1]!).toBe(document.text.length)
    const subgraphs = ofType(triples, '/Subgraph')
    expect(subgraphs.size).toBe(chunks.size)
    const derived = about('#wasDerivedFrom').filter(({ s }) => subgraphs.has(s.iri))
    expect(new Set(derived.map(({ o }) => o.iri))).toEqual(chunks)
  })

  test('is the same when all is done again', async () => {
    expect(keys(await runFlow(nowhere))).toEqual(keys(await runFlow(nowhere)))
  })

  test('is left out when it is not configured', async () => {
    const triples = await runFlow(nowhere, 'none')
    expect(new Set(triples.map(({ g }) => g))).toEqual(new Set([null]))
    expect(triples.some(({ o }) => o.type === 't')).toBe(false)
  })
})

const source = await brokerSource('Fuseki', ['jars'])

describe.skipIf(source === undefined)('a SPARQL store', () => {
  let fuseki: FusekiServer
  beforeAll(async () => {
    fuseki = await startFuseki()
  }, 180_000)
  afterAll(() => fuseki?.stop())

  test.each([
    ['update', '/update'],
    ['graph-store', '/data'],
  ] as const)('over %s holds the same, once, however often it is stored', async (protocol, path) => {
    await fuseki.clear()
    const open = () => openSparqlStore({ url: fuseki.dataset + path, protocol })
    const triples = await runFlow(open())
    await runFlow(open())
    const stored = readKeys(await fuseki.dump(), 'N-Quads')
    const stated = stored.filter((key) => !key.includes(',"urn:graphmill:support'))
    expect(stated).toEqual(keys(reify(triples)))
    // Each fact has a copy in a graph of what states it.
    expect(stored.length > stated.length).toBe(protocol === 'update')
  })
})
