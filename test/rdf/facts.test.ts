import { describe, expect, test } from 'vitest'
import * as facts from '../../src/rdf/facts.ts'
import type { Triple } from '../../src/rdf/term.ts'
import { createEncoder } from '../../src/rdf/write.ts'

const e = (name: string) => `<http://trustgraph.ai/e/${name}>`
const label = '<http://www.w3.org/2000/01/rdf-schema#label>'
const definition = '<http://www.w3.org/2004/02/skos/core#definition>'
const type = '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>'

describe('facts in the default graph', () => {
  test('a definition becomes a label and a definition, and states the definition', () => {
    const { triples, stated } = facts.definitionTriples({ entity: 'Alan Turing', definition: 'A "father"' })
    const label1 = `${e('alan-turing')} ${label} "Alan Turing"`
    const definition1 = `${e('alan-turing')} ${definition} "A \\"father\\""`
    expect(lines(triples)).toEqual([label1, definition1])
    expect(lines(stated)).toEqual([definition1])
  })

  test('a topic is written as a definition is', () => {
    const { triples, stated } = facts.topicTriples({ topic: 'Milling', definition: 'Grinding' })
    expect(lines(triples)).toEqual([
      `${e('milling')} ${label} "Milling"`,
      `${e('milling')} ${definition} "Grinding"`,
    ])
    expect(stated).toEqual([triples[1]])
  })

  test('a relationship between entities comes first, then three labels', () => {
    const fact = { subject: 'Ada', predicate: 'worked with', object: 'C. Babbage', objectEntity: true }
    const { triples, stated } = facts.relationshipTriples(fact)
    expect(lines(triples)).toEqual([
      `${e('ada')} ${e('worked-with')} ${e('c.-babbage')}`,
      `${e('ada')} ${label} "Ada"`,
      `${e('worked-with')} ${label} "worked with"`,
      `${e('c.-babbage')} ${label} "C. Babbage"`,
    ])
    expect(stated).toEqual([triples[0]])
  })

  test('a relationship to a literal has two labels, and the literal no datatype', () => {
    const fact = { subject: 'Ada', predicate: 'born in', object: '1815', objectEntity: false }
    const { triples } = facts.relationshipTriples(fact)
    expect(lines(triples)).toEqual([
      `${e('ada')} ${e('born-in')} "1815"`,
      `${e('ada')} ${label} "Ada"`,
      `${e('born-in')} ${label} "born in"`,
    ])
    expect(triples[0]?.o).toMatchObject({ type: 'l', datatype: null, language: null })
  })

  test('ontology facts keep the IRIs of classes and properties, and join entities by name', () => {
    const entity = facts.ontologyEntityTriples({ entity: 'Ada Lovelace', typeIri: 'http://o.org/Person' })
    const relation = facts.ontologyRelationshipTriples({
      subject: 'Ada Lovelace',
      propertyIri: 'http://o.org/knows',
      object: 'Babbage',
    })
    const attribute = facts.ontologyAttributeTriples({
      entity: 'Ada Lovelace',
      propertyIri: 'http://o.org/born',
      value: '1815',
      datatype: 'http://www.w3.org/2001/XMLSchema#gYear',
    })
    expect(lines([...entity.triples, ...relation.triples, ...attribute.triples])).toEqual([
      `${e('ada-lovelace')} ${type} <http://o.org/Person>`,
      `${e('ada-lovelace')} ${label} "Ada Lovelace"`,
      `${e('ada-lovelace')} <http://o.org/knows> ${e('babbage')}`,
      `${e('ada-lovelace')} <http://o.org/born> "1815"^^<http://www.w3.org/2001/XMLSchema#gYear>`,
    ])
    for (const fact of [entity, relation, attribute]) expect(fact.stated).toEqual(fact.triples)
  })

  test('an attribute without a datatype is a plain literal', () => {
    const fact = { entity: 'Ada', propertyIri: 'http://o.org/note', value: 'x', datatype: null }
    expect(lines(facts.ontologyAttributeTriples(fact).triples)).toEqual([
      `${e('ada')} <http://o.org/note> "x"`,
    ])
  })
})

describe('entity contexts', () => {
  test('a definition gives the name and the definition, with the chunk', () => {
    expect(facts.definitionContexts({ entity: 'Ada', definition: 'A \ud800' }, 'doc/0/3')).toEqual([
      {
        entity: expect.objectContaining({ iri: 'http://trustgraph.ai/e/ada' }),
        context: 'Ada',
        chunkId: 'doc/0/3',
        rdfType: [],
        attributes: {},
      },
      {
        entity: expect.objectContaining({ iri: 'http://trustgraph.ai/e/ada' }),
        context: 'A \ufffd',
        chunkId: 'doc/0/3',
        rdfType: [],
        attributes: {},
      },
    ])
  })

  test('an individual has its definitions in one context, each once, and those that would be too long for it have their own', () => {
    const typeIri = 'http://o.org/Person'
    const propertyIri = 'https://schema.org/description'
    const entities = ['Ada', 'ada', 'Bob'].map((entity) => ({ entity, typeIri }))
    const said = [
      { entity: 'ADA', propertyIri, value: 'A mathematician' },
      { entity: 'Ada', propertyIri: 'http://www.w3.org/2004/02/skos/core#definition', value: 'A countess' },
      { entity: 'Ada', propertyIri, value: 'A mathematician' },
      { entity: 'Ada', propertyIri, value: 'x'.repeat(50_000) },
      { entity: 'Ada', propertyIri: 'http://o.org/born', value: '1815' },
      { entity: 'Eve', propertyIri, value: 'Nobody named her class' },
    ]
    const contexts = facts.individualContexts(entities, said, 'c')
    expect(contexts.map(({ context }) => context)).toEqual([
      'Label: Ada. A mathematician. A countess',
      'Label: Bob',
      'Nobody named her class',
      'x'.repeat(50_000),
    ])
    expect(contexts[0]).toMatchObject({ rdfType: [typeIri], attributes: {} })
  })

  test('an individual gives its label, and an attribute gives its value only when it is a description', () => {
    const texts = [
      facts.ontologyEntityContexts({ entity: 'Ada', typeIri: 'http://o.org/Person' }, 'c'),
      ...[
        'https://schema.org/description',
        'http://www.w3.org/2004/02/skos/core#definition',
        'http://o.org/born',
      ].map((propertyIri) =>
        facts.ontologyAttributeContexts(
          { entity: 'Ada', propertyIri, value: propertyIri, datatype: null },
          'c',
        ),
      ),
    ].map((contexts) => contexts.map(({ context }) => context))
    expect(texts).toEqual([
      ['Label: Ada'],
      ['https://schema.org/description'],
      ['http://www.w3.org/2004/02/skos/core#definition'],
      [],
    ])
  })
})

function lines(triples: readonly Triple[]): string[] {
  const text = createEncoder('nquads').encode(triples)
  return text.split(' .\n').slice(0, -1)
}
