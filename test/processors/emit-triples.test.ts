import { afterEach, describe, expect, test } from 'vitest'
import { emitTriples } from '../../processors/emit-triples.ts'
import { inputGroup } from '../../src/flow/ports.ts'
import type { FlowSettings } from '../../src/flow/processor.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { EntityContext, Triple } from '../../src/messages/generated.ts'
import { keys } from '../rdf/quads.ts'
import { scope, settings, startFlow, type TestFlow } from '../support/flow.ts'

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const run = { id: '0198c0de-0000-7000-8000-000000000001', startedAt: Date.UTC(2026, 7, 5, 12, 30) }

type FactPort = (typeof emitTriples.inputs)[number]
type Sent = readonly [
  FactPort,
  { readonly facts: readonly object[]; readonly ontology?: string; readonly model?: string },
  string?,
]

interface Emitted {
  readonly messages: readonly Triple[][]
  readonly triples: readonly Triple[]
  readonly contexts: readonly EntityContext[]
  readonly contextMessages: readonly EntityContext[][]
}

/** What comes of messages of facts, in the order in which they were sent. */
async function emit(
  provenance: NonNullable<FlowSettings['provenance']>,
  ...sent: readonly Sent[]
): Promise<Emitted> {
  flow ??= await startFlow([emitTriples], { flows: [{ ...scope, settings: { ...settings, provenance } }] })
  const { broker, topic, all, send } = flow
  for (const [port, payload, source = `extract-${port}`] of sent) {
    await send(port, { run, ...payload }, { source, chunkId: 'urn:d/0/0' })
    const group = inputGroup(port, { space: 'gm', ...scope }, 'emit-triples')
    while ((await broker.lag(group, topic(port))).total > 0) await new Promise(setImmediate)
  }
  const messages = (await all(topic('triples'))).map((each) => [
    ...(each as Message<'Triples'>).payload.triples,
  ])
  const contextMessages = (await all(topic('entity-contexts'))).map((each) => [
    ...(each as Message<'EntityContexts'>).payload.entities,
  ])
  return { messages, triples: messages.flat(), contexts: contextMessages.flat(), contextMessages }
}

const definition = { entity: 'Ada Lovelace', definition: 'A mathematician' }
const knew = { subject: 'Ada Lovelace', predicate: 'knew', object: 'Babbage', objectEntity: true }
const met = { ...knew, subject: 'Byron' }
const born = { subject: 'Ada Lovelace', predicate: 'born', object: '1815', objectEntity: false }
const inSource = ({ g }: Triple) => g === 'urn:graph:source'

describe('with provenance, on topics', () => {
  test.each<[string, Sent[], number, number, number]>([
    ['a definition', [['definitions', { facts: [definition] }]], 2, 13, 2],
    ['a relationship of two entities', [['relationships', { facts: [knew] }]], 4, 13, 0],
    ['a relationship to a literal', [['relationships', { facts: [born] }]], 3, 13, 0],
    ['a topic', [['topics', { facts: [{ topic: 'Mills', definition: 'About mills' }] }]], 2, 13, 0],
    [
      'a definition and a relationship of agent-kg',
      [
        ['definitions', { facts: [definition] }, 'extract-agent-kg'],
        ['relationships', { facts: [met] }, 'extract-agent-kg'],
      ],
      6,
      14,
      2,
    ],
  ])('%s comes to TrustGraph’s triples and contexts', async (_, sent, facts, source, contexts) => {
    const emitted = await emit('subgraph', ...sent)
    const inDefault = emitted.triples.filter((each) => !inSource(each))
    expect(keys(inDefault)).toHaveLength(facts)
    expect(keys(emitted.triples.filter(inSource))).toHaveLength(source)
    expect(inDefault.every(({ g }) => g === null)).toBe(true)
    expect(emitted.contexts).toHaveLength(contexts)
  })

  test('quotes what was stated, names the unit, and starts when the run did', async () => {
    const { triples } = await emit('subgraph', [
      'definitions',
      { facts: [definition], model: 'm1' },
      'extract-agent-kg',
    ])
    const stated = triples.find(({ p }) => p.iri?.endsWith('#definition'))!
    const said = (end: string) =>
      triples.filter((each) => inSource(each) && each.p.iri!.endsWith(end)).map(({ o }) => o)
    expect(said('/contains')).toMatchObject([{ type: 't', triple: stated }])
    expect(said('#startedAtTime')).toMatchObject([{ value: '2026-08-05T12:30:00.000Z' }])
    expect(said('#wasDerivedFrom')).toMatchObject([{ iri: 'urn:d/0/0' }])
    expect(said('#wasAssociatedWith')).toMatchObject([
      { iri: 'https://trustgraph.ai/agent/extract-agent-kg' },
    ])
    expect(said('/llmModel')).toMatchObject([{ value: 'm1' }])
  })

  test('a repeat adds nothing, another part of the run only what it says, another run a subgraph of its own', async () => {
    const { triples: once } = await emit('subgraph', ['definitions', { facts: [definition] }])
    const { triples: twice } = await emit('subgraph', ['definitions', { facts: [definition] }])
    expect(twice.length).toBe(2 * once.length)
    expect(keys(twice)).toEqual(keys(once))
    const part = { entity: 'Byron', definition: 'A poet' }
    const { triples: more } = await emit('subgraph', ['definitions', { facts: [part] }])
    expect(keys(more)).toHaveLength(keys(once).length + 3)
    const { triples: again } = await emit('subgraph', [
      'definitions',
      { facts: [definition], run: { id: 'other', startedAt: 1 } } as Sent[1],
    ])
    // Its agent is the same; its subgraph and its activity are not.
    expect(keys(again)).toHaveLength(keys(more).length + 11)
  })

  test('ontology facts name their ontologies, and everything that they say is quoted', async () => {
    const facts = [{ entity: 'Albion Mills', typeIri: 'http://o.org/Mill' }]
    const { triples } = await emit('subgraph', [
      'ontology-entities',
      { facts, ontology: 'http://o.org/ mills' },
      'extract-ontology',
    ])
    const said = (end: string) =>
      triples.filter(({ p }) => p.iri!.endsWith(end)).map(({ o }) => o.iri ?? o.triple?.p.iri)
    expect(said('/ontology')).toEqual(['http://o.org/', 'urn:graphmill:ontology:mills'])
    expect(said('/contains')).toEqual([
      'http://www.w3.org/1999/02/22-rdf-syntax-ns#type',
      'http://www.w3.org/2000/01/rdf-schema#label',
    ])
  })
})

describe('without provenance', () => {
  test('facts of every kind are triples in the default graph, by one rule for names', async () => {
    const { triples, contexts } = await emit(
      'none',
      ['relationships', { facts: [knew] }],
      ['ontology-entities', { facts: [{ entity: 'Ada Lovelace', typeIri: 'http://o.org/Person' }] }],
      [
        'ontology-relationships',
        { facts: [{ subject: 'Ada Lovelace', propertyIri: 'http://o.org/knows', object: 'Babbage' }] },
      ],
      [
        'ontology-attributes',
        {
          facts: [
            {
              entity: 'Ada Lovelace',
              propertyIri: 'http://o.org/born',
              value: '1815',
              datatype: 'http://www.w3.org/2001/XMLSchema#gYear',
            },
          ],
        },
      ],
    )
    expect(triples.every(({ g }) => g === null)).toBe(true)
    const ada = triples.filter(({ s }) => s.iri === 'http://trustgraph.ai/e/ada-lovelace')
    expect(ada.map(({ p, o }) => [p.iri!.split(/[#/]/).at(-1), o.iri ?? o.value, o.datatype])).toEqual([
      ['knew', 'http://trustgraph.ai/e/babbage', null],
      ['label', 'Ada Lovelace', null],
      ['type', 'http://o.org/Person', null],
      ['label', 'Ada Lovelace', null],
      ['knows', 'http://trustgraph.ai/e/babbage', null],
      ['born', '1815', 'http://www.w3.org/2001/XMLSchema#gYear'],
    ])
    expect(contexts).toMatchObject([
      { context: 'Label: Ada Lovelace', chunkId: 'urn:d/0/0', rdfType: ['http://o.org/Person'] },
    ])
  })

  test('facts of nothing are nothing', async () => {
    expect(await emit('none', ['definitions', { facts: [] }])).toMatchObject({ messages: [], contexts: [] })
  })
})

test('batches hold at most 50 triples and 5 contexts, and lose none', async () => {
  const facts = Array.from({ length: 60 }, (_, index) => ({
    entity: `mill ${index}`,
    definition: `number ${index}`,
  }))
  const emitted = await emit('subgraph', ['definitions', { facts }])
  expect(emitted.messages.map((each) => each.length)).toEqual([50, 50, 50, 42])
  expect(emitted.contextMessages.map((each) => each.length)).toEqual(Array.from({ length: 24 }, () => 5))
})

test('batches of huge facts fit their messages', async () => {
  const facts = Array.from({ length: 5 }, (_, index) => ({
    entity: `文`.repeat(1990) + index,
    definition: '文'.repeat(100_000),
  }))
  for (const fact of facts) await emit('subgraph', ['definitions', { facts: [fact] }])
  const { triples, contexts } = await emit('subgraph')
  expect(triples.filter(({ p }) => p.iri!.endsWith('/contains'))).toHaveLength(5)
  expect(contexts).toHaveLength(10)
})

test('names that differ after lower-casing and hyphens give IRIs that differ, in any script', async () => {
  const names = [
    'mill',
    'Mill',
    'the mill',
    'the-mill',
    'the  mill',
    'مطحنة',
    '風車',
    '风车',
    'é',
    'e\u0301',
    '%',
    '%25',
    'a/b',
    'a%2fb',
    '\ufffd',
    '\u0000',
    'ﬁ',
    'fi',
    'ß',
    'ss',
    '𝒳',
    'I',
    'ı',
  ]
  const { triples } = await emit('none', [
    'definitions',
    { facts: names.map((entity) => ({ entity, definition: 'x' })) },
  ])
  const iriOf = new Map(
    triples.filter(({ p }) => p.iri!.endsWith('#label')).map(({ s, o }) => [o.value!, s.iri!]),
  )
  const folded = new Set(names.map((name) => name.replaceAll(' ', '-').toLowerCase()))
  expect(iriOf.size).toBe(names.length)
  expect(new Set(iriOf.values()).size).toBe(folded.size)
  for (const iri of iriOf.values()) expect(iri).toMatch(/^http:\/\/trustgraph\.ai\/e\/[A-Za-z0-9_.~/%-]*$/)
})
