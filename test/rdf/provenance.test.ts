import { v5 } from 'uuid'
import { describe, expect, test } from 'vitest'
import {
  definitionContexts,
  definitionTriples,
  type FactTriples,
  relationshipTriples,
} from '../../src/rdf/facts.ts'
import {
  chunkProvenance,
  documentProvenance,
  type Extraction,
  groundingProvenance,
  subgraphProvenance,
} from '../../src/rdf/provenance.ts'
import type { Term, Triple } from '../../src/rdf/term.ts'
import { keys } from './quads.ts'

const extraction: Extraction = {
  chunkId: 'notes/0/3',
  unit: 'extract-definitions',
  run: { id: '0198c0de-0000-7000-8000-000000000001', startedAt: Date.UTC(2026, 7, 5, 12, 30) },
  version: '0.1.0',
}
const definition = definitionTriples({ entity: 'Ada', definition: 'A mathematician' })
const relationship = relationshipTriples({
  subject: 'Byron',
  predicate: 'knew',
  object: 'Babbage',
  objectEntity: true,
})
const literal = relationshipTriples({
  subject: 'Ada',
  predicate: 'born',
  object: '1815',
  objectEntity: false,
})

describe('provenance of places', () => {
  const source = { chunkId: 'notes/0/3', unit: 'extract-definitions', documentId: 'notes' }
  const span = {
    field: 'entity',
    match: 'exact',
    offset: 12,
    length: 3,
    start: 10,
    end: 13,
    page: 2,
    text: 'Ada',
  }
  const facts = [
    { stated: definition.stated, grounding: { status: 'exact', spans: [span] } },
    { stated: literal.stated, grounding: { status: 'ungrounded', spans: [span] } },
    { stated: relationship.stated, grounding: null },
  ]

  // Stored graphs have them: another id would state everything a second time.
  test('has the ids that it always had: UUIDs of version 5', () => {
    for (const documentId of Array.from({ length: 50 }, (_, n) => `größe ${n}`)) {
      const triples = groundingProvenance({ ...source, documentId }, facts.slice(0, 1))
      const place = v5(JSON.stringify(['span', documentId, '12', '3']), v5.URL)
      expect(triples.map(({ o }) => o.iri)).toContain(`https://trustgraph.ai/span/${place}`)
    }
    const [first] = groundingProvenance(source, facts)
    expect(first!.s.iri).toBe('https://trustgraph.ai/annotation/d8edc4ca-96ca-5b99-95a9-ddf0624e1a60')
  })

  test('is a Web Annotation for each fact that was looked for, and describes each place once', () => {
    const triples = groundingProvenance(source, facts)
    const [annotation, other] = [...new Set(triples.map(({ s }) => s.iri!))].filter((iri) =>
      iri.startsWith('https://trustgraph.ai/annotation/'),
    )
    const place = triples.find(({ p }) => p.iri === 'http://www.w3.org/ns/oa#hasTarget')!.o.iri!
    expect(place).toMatch(/^https:\/\/trustgraph\.ai\/span\/[0-9a-f-]{36}$/)
    expect(new Set(triples.map(({ g }) => g))).toEqual(new Set(['urn:graph:source']))
    const oa = (name: string) => `http://www.w3.org/ns/oa#${name}`
    const objects = triples.map(({ s, p, o }) => [
      s.iri,
      p.iri!.replace(/^.*[#/]/, ''),
      o.triple ?? o.iri ?? o.value,
    ])
    expect(objects).toEqual([
      [annotation, 'type', oa('Annotation')],
      [annotation, 'hasBody', definition.stated[0]],
      [annotation, 'grounding', 'exact'],
      [annotation, 'hasTarget', place],
      [place, 'type', oa('SpecificResource')],
      [place, 'hasSource', triples[5]!.o.iri],
      [place, 'pageNumber', '2'],
      [place, 'hasSelector', `${place}/position`],
      [`${place}/position`, 'type', oa('TextPositionSelector')],
      [`${place}/position`, 'start', '10'],
      [`${place}/position`, 'end', '13'],
      [place, 'hasSelector', `${place}/quote`],
      [`${place}/quote`, 'type', oa('TextQuoteSelector')],
      [`${place}/quote`, 'exact', 'Ada'],
      [other, 'type', oa('Annotation')],
      [other, 'hasBody', literal.stated[0]],
      [other, 'grounding', 'ungrounded'],
      [other, 'hasTarget', place],
    ])
    expect(triples[5]!.o.iri).toContain('notes')
    expect(groundingProvenance(source, facts)).toEqual(triples)
  })

  test('of a version stand in their chunk, and do not change when the chunk moves', () => {
    const moved = (by: number, pages: number) => ({
      status: 'exact',
      spans: [
        { ...span, offset: span.offset + by, start: span.start + by, end: span.end + by, page: 2 + pages },
      ],
      chunk: { offset: 10 + by, start: 9 + by, page: 1 + pages },
    })
    const of = (grounding: ReturnType<typeof moved>, more = {}) =>
      groundingProvenance({ ...source, versionTime: 7, ...more }, [{ stated: definition.stated, grounding }])
    const triples = of(moved(0, 0))
    expect(of(moved(5000, 3))).toEqual(triples)
    expect(triples.slice(4, 11).map(({ p, o }) => [p.iri!.replace(/^.*[#/]/, ''), o.iri ?? o.value])).toEqual(
      [
        ['type', 'http://www.w3.org/ns/oa#SpecificResource'],
        ['hasSource', 'urn:graphmill:chunk:notes/0/3'],
        ['pageOffset', '1'],
        ['hasSelector', expect.stringMatching(/position$/)],
        ['type', 'http://www.w3.org/ns/oa#TextPositionSelector'],
        ['start', '1'],
        ['end', '4'],
      ],
    )
    // What comes back in a later version is made again, and must not share nodes with what is withdrawn.
    const nodes = (triples: readonly Triple[]) => new Set(triples.map(({ s }) => s.iri))
    const shared = (one: Set<string | null>, other: Set<string | null>) =>
      [...one].filter((each) => other.has(each))
    expect(shared(nodes(of(moved(0, 0), { versionTime: 8 })), nodes(triples))).toEqual([])
    const [first, later] = [7, 8].map((versionTime) =>
      nodes(
        subgraphProvenance({ ...extraction, versionTime }, []).filter(({ s }) => !s.iri!.includes('agent')),
      ),
    )
    expect(shared(first!, later!)).toEqual([])
  })

  test('leaves out what is not known', () => {
    const unknown = { ...span, start: null, end: null, page: null, text: '' }
    const grounding = { status: 'exact', spans: [unknown] }
    const triples = groundingProvenance(source, [{ stated: definition.stated, grounding }])
    expect(triples.map(({ p }) => p.iri!.replace(/^.*[#/]/, ''))).toEqual([
      'type',
      'hasBody',
      'grounding',
      'hasTarget',
      'type',
      'hasSource',
    ])
  })
})

describe('subgraph provenance', () => {
  test('has TrustGraph’s triples, in its order, in urn:graph:source', () => {
    const triples = subgraphProvenance(
      { ...extraction, model: 'm1', ontologies: ['http://o.org/', 'mills'] },
      definition.stated,
    )
    const subgraph = triples[0]?.s.iri ?? ''
    const activity = triples[4]?.o.iri ?? ''
    const agent = 'https://trustgraph.ai/agent/extract-definitions'
    expect(subgraph).toMatch(
      /^https:\/\/trustgraph\.ai\/subgraph\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    )
    expect(activity).toMatch(
      /^https:\/\/trustgraph\.ai\/activity\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    )
    expect(triples[0]?.o).toMatchObject({ type: 't', triple: definition.triples[1] })
    expect(triples.slice(1).map(said)).toEqual([
      [subgraph, 'rdf:type', 'http://www.w3.org/ns/prov#Entity'],
      [subgraph, 'rdf:type', 'https://trustgraph.ai/ns/Subgraph'],
      [subgraph, 'prov:wasDerivedFrom', 'urn:graphmill:chunk:notes/0/3'],
      [subgraph, 'prov:wasGeneratedBy', activity],
      [activity, 'rdf:type', 'http://www.w3.org/ns/prov#Activity'],
      [activity, 'rdfs:label', '"extract-definitions extraction"'],
      [activity, 'prov:used', 'urn:graphmill:chunk:notes/0/3'],
      [activity, 'prov:wasAssociatedWith', agent],
      [activity, 'prov:startedAtTime', '"2026-08-05T12:30:00.000Z"^^xsd:dateTime'],
      [activity, 'tg:componentVersion', '"0.1.0"'],
      [agent, 'rdf:type', 'http://www.w3.org/ns/prov#Agent'],
      [agent, 'rdfs:label', '"extract-definitions"'],
      [activity, 'tg:llmModel', '"m1"'],
      [activity, 'tg:ontology', 'http://o.org/'],
      [activity, 'tg:ontology', 'urn:graphmill:ontology:mills'],
    ])
    expect(new Set(triples.map(({ g }) => g))).toEqual(new Set(['urn:graph:source']))
  })

  test.each([
    ['one definition', [definition], 15],
    ['one relationship between entities', [relationship], 17],
    ['one relationship to a literal', [literal], 16],
    ['a definition and a relationship', [definition, relationship], 20],
  ])('%s gives TrustGraph’s number of triples', (_, facts, count) => {
    expect(keys(published(facts)).length).toBe(count)
  })

  test('one definition comes with two contexts', () => {
    expect(definitionContexts({ entity: 'Ada', definition: 'A mathematician' }, 'notes/0/3')).toHaveLength(2)
  })

  test('a repeat adds nothing, and a further part of the run only what it states', () => {
    const whole = published([definition, relationship])
    const parts = [...published([definition]), ...published([relationship]), ...published([definition])]
    expect(keys(parts)).toEqual(keys(whole))
  })

  test('another chunk, unit or run has another subgraph and another activity', () => {
    const others: Extraction[] = [
      extraction,
      { ...extraction, chunkId: 'notes/0/4' },
      { ...extraction, unit: 'extract-topics' },
      { ...extraction, run: { ...extraction.run, id: 'another' } },
    ]
    const named = others.map((each) => subgraphProvenance(each, []))
    expect(new Set(named.map((triples) => triples[0]?.s.iri)).size).toBe(others.length)
    expect(new Set(named.map((triples) => triples[3]?.o.iri)).size).toBe(others.length)
  })
})

describe('document and chunk provenance', () => {
  test('says what the document is', () => {
    const source = {
      documentId: 'notes',
      title: 'My notes',
      uri: 'file:///my notes.txt',
      mediaType: 'text/plain',
    }
    expect(documentProvenance(source).map(said)).toEqual([
      ['urn:graphmill:document:notes', 'rdf:type', 'http://www.w3.org/ns/prov#Entity'],
      ['urn:graphmill:document:notes', 'rdf:type', 'https://trustgraph.ai/ns/Document'],
      ['urn:graphmill:document:notes', 'dc:title', '"My notes"'],
      ['urn:graphmill:document:notes', 'rdfs:label', '"My notes"'],
      ['urn:graphmill:document:notes', 'dc:source', 'file:///my%20notes.txt'],
      ['urn:graphmill:document:notes', 'tg:mimeType', '"text/plain"'],
    ])
  })

  test('leaves out unknown fields of a document, and keeps a path as text', () => {
    expect(documentProvenance({ documentId: 'd', title: '', uri: '', mediaType: '' })).toHaveLength(2)
    const [, , source] = documentProvenance({ documentId: 'd', title: '', uri: './a.txt', mediaType: '' })
    expect(source?.o).toMatchObject({ type: 'l', value: './a.txt' })
  })

  test('says where the chunk is in the document, and which component cut it', () => {
    const triples = chunkProvenance({
      documentId: 'notes',
      chunkId: 'notes/1/3',
      part: 1,
      index: 3,
      offset: 5700,
      length: 1900,
      size: 2000,
      overlap: 100,
      component: 'chunk-text',
      version: '0.1.0',
      startedAt: 0,
    })
    const chunk = 'urn:graphmill:chunk:notes/1/3'
    const activity = triples[3]?.o.iri ?? ''
    expect(triples.map(said)).toEqual([
      [chunk, 'rdf:type', 'http://www.w3.org/ns/prov#Entity'],
      [chunk, 'rdf:type', 'https://trustgraph.ai/ns/Chunk'],
      [chunk, 'prov:wasDerivedFrom', 'urn:graphmill:document:notes'],
      [chunk, 'prov:wasGeneratedBy', activity],
      [activity, 'rdf:type', 'http://www.w3.org/ns/prov#Activity'],
      [activity, 'rdfs:label', '"chunk-text extraction"'],
      [activity, 'prov:used', 'urn:graphmill:document:notes'],
      [activity, 'prov:wasAssociatedWith', 'https://trustgraph.ai/agent/chunk-text'],
      [activity, 'prov:startedAtTime', '"1970-01-01T00:00:00.000Z"^^xsd:dateTime'],
      [activity, 'tg:componentVersion', '"0.1.0"'],
      ['https://trustgraph.ai/agent/chunk-text', 'rdf:type', 'http://www.w3.org/ns/prov#Agent'],
      ['https://trustgraph.ai/agent/chunk-text', 'rdfs:label', '"chunk-text"'],
      [chunk, 'rdfs:label', '"Chunk 1/3"'],
      [chunk, 'tg:partIndex', '"1"^^xsd:integer'],
      [chunk, 'tg:chunkIndex', '"3"^^xsd:integer'],
      [chunk, 'tg:charOffset', '"5700"^^xsd:integer'],
      [chunk, 'tg:charLength', '"1900"^^xsd:integer'],
      [activity, 'tg:chunkSize', '"2000"^^xsd:integer'],
      [activity, 'tg:chunkOverlap', '"100"^^xsd:integer'],
    ])
  })

  test('the subgraph is derived from the chunk, and the chunk from the document', () => {
    const chunk = {
      ...extraction,
      documentId: 'notes',
      part: 0,
      index: 3,
      offset: 0,
      length: 1,
      size: 1,
      overlap: 0,
    }
    const [, , derived] = chunkProvenance({ ...chunk, component: 'chunk-text', startedAt: 0 })
    const parent = subgraphProvenance(extraction, []).find(({ p }) => p.iri?.endsWith('#wasDerivedFrom'))
    const [document] = documentProvenance({ documentId: 'notes', title: '', uri: '', mediaType: '' })
    expect(parent?.o).toEqual(derived?.s)
    expect(derived?.o).toEqual(document?.s)
  })
})

function published(facts: readonly FactTriples[]): Triple[] {
  const stated = facts.flatMap((fact) => fact.stated)
  return [...facts.flatMap((fact) => fact.triples), ...subgraphProvenance(extraction, stated)]
}

const prefixes = {
  'http://www.w3.org/1999/02/22-rdf-syntax-ns#': 'rdf:',
  'http://www.w3.org/2000/01/rdf-schema#': 'rdfs:',
  'http://www.w3.org/ns/prov#': 'prov:',
  'http://purl.org/dc/elements/1.1/': 'dc:',
  'https://trustgraph.ai/ns/': 'tg:',
}

/** Subject, predicate with its prefix, object; literals in quotes, without datatype or language. */
function said({ s, p, o }: Triple): [string | null, string, string | null] {
  const predicate = Object.entries(prefixes).reduce(
    (text, [long, short]) => text.replace(long, short),
    p.iri ?? '',
  )
  return [s.iri, predicate, object(o)]
}

function object(term: Term): string | null {
  if (term.type !== 'l' || term.language) return term.iri
  const datatype = term.datatype?.replace('http://www.w3.org/2001/XMLSchema#', '^^xsd:') ?? ''
  return `"${term.value}"${datatype}`
}
