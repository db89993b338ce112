import { expect, test } from 'vitest'
import { reify } from '../../src/rdf/reify.ts'
import { iri, literal, quoted, type Triple, triple } from '../../src/rdf/term.ts'

const [s, p, o] = [iri('urn:s'), iri('urn:p'), iri('urn:o')]
const rdf = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'
const spoken = triple(s, p, literal('x'))

test('a quoted triple becomes a statement, described in the graph that quotes it', () => {
  const [asserted, ...description] = reify([triple(s, p, quoted(spoken), 'urn:g')])
  const statement = asserted!.o
  expect(statement.iri).toMatch(/^urn:graphmill:statement:[0-9a-f]{64}$/)
  expect(asserted).toEqual(triple(s, p, statement, 'urn:g'))
  expect(description).toEqual([
    triple(statement, iri(`${rdf}type`), iri(`${rdf}Statement`), 'urn:g'),
    triple(statement, iri(`${rdf}subject`), s, 'urn:g'),
    triple(statement, iri(`${rdf}predicate`), p, 'urn:g'),
    triple(statement, iri(`${rdf}object`), literal('x'), 'urn:g'),
  ])
})

test('a statement is described once in each graph, however often it is quoted', () => {
  const quoting = (subject: string, g: string) => triple(iri(subject), p, quoted(spoken), g)
  const triples = reify([quoting('urn:a', 'urn:g'), quoting('urn:b', 'urn:g'), quoting('urn:a', 'urn:h')])
  expect(triples).toHaveLength(3 + 4 + 4)
  expect(triples.slice(3).map(({ g }) => g)).toEqual([...Array(4).fill('urn:g'), ...Array(4).fill('urn:h')])
})

test('triples that quote nothing stay unchanged', () => {
  const triples = [triple(s, p, o), spoken]
  expect(reify(triples)).toBe(triples)
  expect(reify([spoken, triple(s, p, quoted(spoken))])[0]).toBe(spoken)
})

test('the statement is named by its content, not by its graph or form', () => {
  const name = (said: Triple) => reify([triple(s, p, quoted(said))])[0]?.o.iri
  const string = literal('x', { datatype: 'http://www.w3.org/2001/XMLSchema#string' })
  expect(name({ ...spoken, g: 'urn:g' })).toBe(name(spoken))
  expect(name({ ...spoken, o: string })).toBe(name(spoken))
  const others = [
    spoken,
    triple(s, p, literal('x', { language: 'en' })),
    triple(s, p, iri('urn:x')),
    triple(o, p, o),
  ]
  expect(new Set(others.map(name)).size).toBe(others.length)
})

test('quoted triples within quoted triples are reified too', () => {
  const inner = reify([triple(s, p, quoted(spoken))])[0]?.o
  const triples = reify([triple(s, p, quoted(triple(quoted(spoken), p, quoted(spoken))))])
  expect(JSON.stringify(triples)).not.toContain('"type":"t"')
  expect(triples.filter((each) => each.p.iri === `${rdf}subject`).map((each) => each.o)).toContainEqual(inner)
})

test('with keepObjects only quoted subjects are reified, as RDF 1.2 has no triple terms there', () => {
  const [kept, ...description] = reify([triple(s, p, quoted(triple(quoted(spoken), p, o)))], {
    keepObjects: true,
  })
  expect(kept?.o.type).toBe('t')
  expect(kept?.o.triple?.s.type).toBe('i')
  expect(description).toHaveLength(4)
})

test('refuses triples that are quoted too deep, instead of overflowing', () => {
  const deep = Array.from({ length: 10_000 }).reduce<Triple>((inner) => triple(s, p, quoted(inner)), spoken)
  for (const keepObjects of [false, true]) {
    expect(() => reify([deep], { keepObjects })).toThrow(expect.objectContaining({ code: 'message_invalid' }))
  }
})
