import { expect, test } from 'vitest'
import { type FoundFact, foundFacts, keys } from '../../src/evaluation/facts.ts'
import type { GoldDocument } from '../../src/evaluation/gold.ts'
import { ratiosOf, scoreDocument } from '../../src/evaluation/score.ts'
import { rowSchema } from '../../src/rows/row-schema.ts'

const run = { id: 'run', startedAt: 0 }
const relationship = (subject: string, predicate: string, object: string): FoundFact => ({
  kind: 'relationships',
  key: keys.relationships(subject, predicate, object),
  subjects: [subject],
  objects: [object],
  isGrounded: null,
})
const definition = (entity: string, text: string, isGrounded: boolean | null = null): FoundFact => ({
  kind: 'definitions',
  key: keys.definitions(entity),
  definition: text,
  subjects: [entity],
  objects: [],
  isGrounded,
})
const goldOf = (text: string, ...facts: readonly FoundFact[]): GoldDocument => ({
  id: 'one',
  text,
  facts: Map.groupBy(
    facts.map((fact) => ({ ...fact, item: {} })),
    ({ kind }) => kind,
  ),
})

test('gold, found and matched facts are counted as by hand', () => {
  const gold = goldOf(
    'Rennie built Albion Mills in London. Boulton paid.',
    relationship('Rennie', 'built', 'Albion Mills'),
    relationship('Albion Mills', 'is in', 'London'),
    relationship('Boulton', 'paid for', 'Albion Mills'),
  )
  const found = [
    relationship('rennie', 'built', 'Albion  Mills.'),
    relationship('Rennie', 'BUILT', 'Albion Mills'), // the same again
    relationship('Albion Mills', 'is in', 'London'),
    relationship('Gannet', 'nests on', 'Bass Rock'),
    relationship('Rennie', 'is', 'an astronaut'),
  ]
  const { counts } = scoreDocument(gold, found, ['relationships'])
  expect(counts.relationships).toEqual({
    gold: 3,
    found: 4,
    matched: 2,
    hallucinated: 2,
    strangeSubjects: 1,
    strangeObjects: 2,
    looked: 0,
    ungrounded: 0,
  })
  // 2 of 4, 2 of 3, 2 · 2 / (4 + 3)
  expect(ratiosOf(counts.relationships!)).toEqual({ precision: 0.5, recall: 2 / 3, f1: 4 / 7 })
})

test('definitions of an entity are equal when half of their words are, and several in the gold are alternatives', () => {
  const gold = goldOf(
    'x',
    definition('mill', 'a building that grinds grain'),
    definition('mill', 'a machine'),
    definition('barn', 'where grain is kept'),
  )
  const matched = (...found: FoundFact[]) =>
    scoreDocument(gold, found, ['definitions']).counts.definitions!.matched
  expect(matched(definition('Mill', 'A building for grain'))).toBe(1) // 2 · 3 / 9
  expect(matched(definition('mill', 'A machine.'))).toBe(1)
  expect(matched(definition('mill', 'some person who works hard'))).toBe(0)
  expect(matched(definition('mills', 'a building that grinds grain'))).toBe(0)
  expect(matched(definition('mill', 'nonsense'), definition('mill', 'a machine'))).toBe(1)
})

test('a kind that the document does not list, or that is not extracted, is not scored; an empty list is', () => {
  const found = [relationship('a', 'b', 'c'), definition('a', 'b')]
  const none: GoldDocument = { id: 'one', text: 'a', facts: new Map([['definitions', []]]) }
  expect(scoreDocument(none, found, ['relationships', 'definitions']).counts).toEqual({
    definitions: expect.objectContaining({ gold: 0, found: 1, matched: 0 }),
  })
  expect(scoreDocument(none, found, ['relationships']).counts).toEqual({})
})

test('ratios without a denominator are unknown, not 0 and not 1', () => {
  expect(ratiosOf({ gold: 0, found: 0, matched: 0 })).toEqual({ precision: null, recall: null, f1: null })
  expect(ratiosOf({ gold: 2, found: 0, matched: 0 })).toEqual({ precision: null, recall: 0, f1: 0 })
})

test('a fact is ungrounded when it stands in none of its chunks; facts that were not looked for do not count', () => {
  const found = [
    definition('a', 'x', false),
    definition('a', 'x', true),
    definition('b', 'x', false),
    definition('c', 'x', null),
  ]
  const { counts } = scoreDocument(goldOf('a b c', definition('a', 'x')), found, ['definitions'])
  expect(counts.definitions).toMatchObject({ found: 3, looked: 2, ungrounded: 1, hallucinated: 0 })
})

test('facts are read from every kind of message', () => {
  const plain = { size: 0, primaryKey: false, description: '', required: false, enum: [], indexed: false }
  const schema = rowSchema({
    name: 'mill',
    description: '',
    fields: [
      { ...plain, name: 'name', type: 'string', kind: 'text' },
      { ...plain, name: 'power', type: 'string', kind: 'text', enum: ['wind'] },
      { ...plain, name: 'opened', type: 'int', kind: 'integer' },
    ],
  })
  const read = (type: string, payload: object) =>
    foundFacts({ type, payload: { run, model: null, ...payload } } as never, [schema])
  const values = { opened: '1786', name: 'Albion Mills', power: 'wind', x: '' }
  expect(read('Rows', { schemaName: 'mill', values: [values], groundings: [] })).toEqual([
    {
      kind: 'rows',
      key: keys.rows('mill', { name: 'albion mills', opened: '1786', power: 'Wind' }),
      subjects: [],
      // Numbers are written in many ways, and a word of a list need not stand in the text.
      objects: ['Albion Mills'],
      isGrounded: null,
    },
  ])
  const grounding = { status: 'ungrounded', spans: [] }
  const attribute = { entity: 'A', propertyIri: 'p', value: '1786', datatype: 'xsd:gYear', grounding }
  expect(read('OntologyAttributes', { facts: [attribute, { ...attribute, datatype: null }] })).toMatchObject([
    { kind: 'triples', key: keys.triples('a', 'p', '1786'), subjects: ['A'], objects: [], isGrounded: false },
    { kind: 'triples', objects: ['1786'] },
  ])
  expect(read('Topics', { facts: [{ topic: 'mills', definition: 'x', grounding: null }] })).toMatchObject([
    { kind: 'topics', key: keys.topics('Mills'), subjects: [], objects: [] },
  ])
  expect(read('OntologyEntities', { facts: [{ entity: 'A', typeIri: 'i', grounding: null }] })).toMatchObject(
    [{ kind: 'entities', key: keys.entities('a', 'i'), subjects: ['A'] }],
  )
  const relation = { subject: 'A', propertyIri: 'p', object: 'B', grounding: { status: 'fuzzy', spans: [] } }
  expect(read('OntologyRelationships', { facts: [relation] })).toMatchObject([
    { kind: 'triples', key: keys.triples('a', 'p', 'b'), isGrounded: true },
  ])
})
