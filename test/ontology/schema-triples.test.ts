import { expect, test } from 'vitest'
import { loadOntology } from '../../src/ontology/load.ts'
import { schemaTriples } from '../../src/ontology/schema-triples.ts'
import { createEncoder } from '../../src/rdf/write.ts'
import { file, fixture, turtle } from './support/files.ts'

async function linesOf(path: string): Promise<string[]> {
  const { ontology } = await loadOntology([path])
  return createEncoder('nquads').encode(schemaTriples(ontology)).trim().split('\n')
}

test('an ontology says what its classes and properties are', async () => {
  const e = (name: string) => `<http://example.org/e#${name}>`
  const rdf = '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>'
  const rdfs = (name: string) => `<http://www.w3.org/2000/01/rdf-schema#${name}>`
  const owl = (name: string) => `<http://www.w3.org/2002/07/owl#${name}>`
  const path = file(
    'e.ttl',
    turtle(`e:A a owl:Class ; rdfs:label "an A"@en, "ein A"@de ; rdfs:comment "First." . e:B rdfs:subClassOf e:A .
e:p a owl:ObjectProperty ; rdfs:domain e:A ; rdfs:range e:B . e:q a owl:ObjectProperty ; owl:inverseOf e:p .
e:size a owl:DatatypeProperty ; rdfs:domain [ owl:unionOf (e:A e:B) ] ; rdfs:range xsd:integer .`),
  )
  expect(await linesOf(path)).toEqual([
    `${e('A')} ${rdf} ${owl('Class')} .`,
    `${e('A')} ${rdfs('label')} "an A" .`,
    `${e('A')} ${rdfs('comment')} "First." .`,
    `${e('B')} ${rdf} ${owl('Class')} .`,
    `${e('B')} ${rdfs('subClassOf')} ${e('A')} .`,
    `${e('p')} ${rdf} ${owl('ObjectProperty')} .`,
    `${e('p')} ${rdfs('domain')} ${e('A')} .`,
    `${e('p')} ${rdfs('range')} ${e('B')} .`,
    `${e('p')} ${owl('inverseOf')} ${e('q')} .`,
    `${e('q')} ${rdf} ${owl('ObjectProperty')} .`,
    `${e('q')} ${rdfs('domain')} ${e('B')} .`,
    `${e('q')} ${rdfs('range')} ${e('A')} .`,
    `${e('size')} ${rdf} ${owl('DatatypeProperty')} .`,
    `${e('size')} <https://schema.org/domainIncludes> ${e('A')} .`,
    `${e('size')} <https://schema.org/domainIncludes> ${e('B')} .`,
    `${e('size')} ${rdfs('range')} <http://www.w3.org/2001/XMLSchema#integer> .`,
  ])
})

test('elements without a uri get one, and no triple is repeated', async () => {
  const lines = await linesOf(fixture('mills.json'))
  expect(lines).toContain(
    '<https://trustgraph.ai/ontology/mills#mill> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <http://example.org/mills#Building> .',
  )
  expect(new Set(lines).size).toBe(lines.length)
})
