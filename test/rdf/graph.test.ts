import { describe, expect, test } from 'vitest'
import { dot } from '../../src/rdf/dot.ts'
import { definitionTriples, ontologyEntityTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import { createGraphBuilder, factText } from '../../src/rdf/graph.ts'
import { graphPage, pageData } from '../../src/rdf/graph-page.ts'
import { chunkProvenance, documentProvenance, groundingProvenance } from '../../src/rdf/provenance.ts'
import { iri, literal, triple } from '../../src/rdf/term.ts'

const chalk = relationshipTriples({
  subject: 'chalk',
  predicate: 'is composed of',
  object: 'carbonic acid',
  objectEntity: true,
})
const age = relationshipTriples({
  subject: 'chalk',
  predicate: 'has age',
  object: '100 million years',
  objectEntity: false,
})
const soft = definitionTriples({ entity: 'chalk', definition: 'a soft "rock"' })
const typed = ontologyEntityTriples({
  entity: 'chalk',
  typeIri: 'http://example.org/Rock',
  confidence: null,
} as never)
const all = [chalk, age, soft, typed]

function graphOf(...batches: Parameters<ReturnType<typeof createGraphBuilder>['add']>[0][]) {
  const builder = createGraphBuilder()
  for (const batch of batches) builder.add(batch)
  return builder.build()
}

describe('a graph', () => {
  test('has each fact once, by kind, with the names of its entities', () => {
    const triples = all.flatMap((fact) => fact.triples)
    const graph = graphOf(triples, triples)
    expect(graph.facts.map(({ kind }) => kind)).toEqual(['relationship', 'attribute', 'definition', 'class'])
    expect(graph.facts.map((fact) => factText(fact, graph))).toEqual([
      'chalk — is composed of → carbonic acid',
      'chalk — has age → 100 million years',
      'chalk — definition → a soft "rock"',
      'chalk — type → Rock',
    ])
  })

  test('names what has no label by the end of its IRI', () => {
    const fact = triple(iri('http://example.org/a%20b'), iri('http://example.org/x#y'), iri('urn:z:%E0%A4%A'))
    const graph = graphOf([fact])
    expect(factText(graph.facts[0]!, graph)).toBe('a b — y → %E0%A4%A')
  })

  test('knows where facts stand, whatever the order of the triples', () => {
    const documentId = 'urn:graphmill:document:1'
    const span = {
      field: 'subject',
      match: 'exact',
      offset: 4,
      length: 5,
      start: 3,
      end: 8,
      page: null,
      text: 'Chalk',
    }
    const provenance = [
      ...documentProvenance({ documentId, title: 'On chalk', uri: '', mediaType: '' }),
      ...groundingProvenance({ chunkId: `${documentId}/0/0`, unit: 'a', documentId }, [
        { stated: chalk.stated, grounding: { status: 'exact', spans: [span, span] } },
        { stated: soft.stated, grounding: { status: 'ungrounded', spans: [] } },
      ]),
      ...groundingProvenance({ chunkId: `${documentId}/0/0`, unit: 'b', documentId }, [
        { stated: chalk.stated, grounding: { status: 'exact', spans: [span] } },
      ]),
    ]
    const facts = [...chalk.triples, ...soft.triples, ...age.triples]
    for (const batches of [
      [facts, provenance],
      [[...provenance].reverse(), facts],
    ]) {
      const graph = graphOf(...batches)
      const of = (kind: string) => graph.facts.find((fact) => fact.kind === kind)!
      expect(of('relationship').sources).toEqual([
        { text: 'Chalk', document: 'On chalk', start: 3, end: 8, page: null },
      ])
      expect(of('definition')).toMatchObject({ sources: [], isUngrounded: true })
      expect(of('attribute')).toMatchObject({ sources: [], isUngrounded: false })
    }
  })
})

test('a place in a chunk is shown where it stands in the document', () => {
  const documentId = 'urn:graphmill:document:1'
  const source = { documentId, chunkId: `${documentId}/0/0`, versionTime: 5 }
  const places = {
    field: 'subject',
    match: 'exact',
    offset: 44,
    length: 5,
    start: 43,
    end: 48,
    page: 3,
    text: 'Chalk',
  }
  const cut = {
    part: 0,
    index: 0,
    length: 9,
    size: 9,
    overlap: 0,
    component: 'c',
    version: '1',
    startedAt: 1,
  }
  const graph = graphOf([
    ...chalk.triples,
    ...chunkProvenance({ ...source, ...cut, offset: 40, start: 40, page: 2 }),
    ...groundingProvenance({ ...source, unit: 'a' }, [
      {
        stated: chalk.stated,
        grounding: { status: 'exact', spans: [places], chunk: { offset: 40, start: 40, page: 2 } },
      },
    ]),
  ])
  expect(graph.facts.find(({ kind }) => kind === 'relationship')!.sources).toEqual([
    { text: 'Chalk', document: '', start: 43, end: 48, page: '3' },
  ])
})

test('the page escapes what could end its data or its title', () => {
  const evil = '</script><script>alert(1)</script><!--'
  const html = graphPage(graphOf(definitionTriples({ entity: evil, definition: evil }).triples), evil)
  expect(html.match(/<script/g)).toHaveLength(2)
  expect(html).not.toContain('<!--')
  const [, data] = /id="data">(.*?)<\/script>/s.exec(html)!
  expect(JSON.parse(data!)).toEqual(
    JSON.parse(
      JSON.stringify(pageData(graphOf(definitionTriples({ entity: evil, definition: evil }).triples))),
    ),
  )
})

test('as dot, entities are nodes and quotes are escaped', () => {
  const text = dot(graphOf(all.flatMap((fact) => fact.triples)))
  expect(text.split('\n')).toEqual([
    'digraph graphmill {',
    '  "http://trustgraph.ai/e/chalk" [label="chalk", tooltip="a soft \\"rock\\"\\ntype: Rock"];',
    '  "http://trustgraph.ai/e/carbonic-acid" [label="carbonic acid", tooltip="http://trustgraph.ai/e/carbonic-acid"];',
    '  "http://trustgraph.ai/e/chalk" -> "http://trustgraph.ai/e/carbonic-acid" [label="is composed of"];',
    '  "value 1" [label="100 million years", shape=box];',
    '  "http://trustgraph.ai/e/chalk" -> "value 1" [label="has age"];',
    '}',
    '',
  ])
  const odd = triple(iri('urn:a'), iri('urn:b'), literal('back\\slash\nline'))
  expect(dot(graphOf([odd]))).toContain('label="back\\\\slash\\nline"')
})
