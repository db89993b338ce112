import { beforeAll, describe, expect, test } from 'vitest'
import { createCheck, type ItemCheck, type OntologyItem } from '../../src/ontology/check.ts'
import { loadOntology } from '../../src/ontology/load.ts'
import { file, fixture, folder, turtle } from './support/files.ts'

const m = 'http://example.org/mills#'
const xsd = 'http://www.w3.org/2001/XMLSchema#'
let check: ItemCheck

beforeAll(async () => {
  check = createCheck((await loadOntology([fixture('mills.ttl')])).ontology)
})

const entity = (more: OntologyItem = {}) =>
  check({ type: 'entity', entity: 'Albion Mills', entity_type: 'Mill', ...more })
const relationship = (more: OntologyItem = {}) =>
  check({
    type: 'relationship',
    subject: 'Albion Mills',
    subject_type: 'Mill',
    relation: 'designedBy',
    object: 'Samuel Wyatt',
    object_type: 'Person',
    ...more,
  })
const attribute = (more: OntologyItem = {}) =>
  check({
    type: 'attribute',
    entity: 'Albion Mills',
    entity_type: 'Mill',
    attribute: 'opened',
    value: 1786,
    ...more,
  })
const refused = (reason: string) => ({ refused: reason, message: expect.stringMatching(/\.$/) })

describe('facts', () => {
  test('have the names of the text and the IRIs of the ontology', () => {
    expect(entity()).toEqual({
      to: 'ontology-entities',
      fact: { entity: 'Albion Mills', typeIri: `${m}Mill` },
    })
    expect(relationship()).toEqual({
      to: 'ontology-relationships',
      fact: { subject: 'Albion Mills', propertyIri: `${m}designedBy`, object: 'Samuel Wyatt' },
    })
    expect(attribute()).toEqual({
      to: 'ontology-attributes',
      fact: { entity: 'Albion Mills', propertyIri: `${m}opened`, value: '1786', datatype: `${xsd}gYear` },
    })
  })

  test('may have keys with hyphens', () => {
    expect(check({ type: 'entity', entity: 'A', 'entity-type': 'Mill' })).toHaveProperty('to')
    const { subject_type, object_type } = { subject_type: undefined, object_type: undefined }
    expect(
      relationship({ subject_type, object_type, 'subject-type': 'Mill', 'object-type': 'Person' }),
    ).toHaveProperty('to')
  })

  test('may be of a subclass, through several parents and through unions', () => {
    expect(relationship({ subject_type: 'WaterMill' })).toHaveProperty('to')
    expect(
      relationship({
        relation: 'owns',
        subject: 'A',
        subject_type: 'Company',
        object: 'B',
        object_type: 'WaterMill',
      }),
    ).toHaveProperty('to')
    expect(relationship({ relation: 'ownedBy', object_type: 'Company' })).toHaveProperty('to')
    expect(relationship({ relation: 'near', subject_type: 'River', object_type: 'Person' })).toHaveProperty(
      'to',
    )
  })

  test('may write a class or property in another case, with its label, its IRI or its ontology’s prefix', () => {
    for (const type of ['mill', 'MILL', 'Mühle', `${m}Mill`, 'mills:Mill'])
      expect(entity({ entity_type: type })).toHaveProperty('to')
    for (const relation of ['designed_by', 'designed-by', 'Designed By'])
      expect(relationship({ relation })).toHaveProperty('to')
  })
})

describe('refusals', () => {
  test.each([
    ['unknown_class', { entity_type: 'Spaceship' }],
    ['unknown_class', { entity_type: '__proto__' }],
    ['unknown_class', { entity_type: 'designedBy' }],
    ['empty', { entity: ' ' }],
    ['empty', { entity: null }],
    ['empty', { entity_type: undefined }],
    ['empty', { entity: ['Albion Mills'] }],
    ['literal', { entity: 1786 }],
    ['literal', { entity_type: 'xsd:integer' }],
    ['too_long', { entity: 'a'.repeat(100_000) }],
    ['unknown_type', { type: 'event' }],
    ['unknown_type', { type: 'toString' }],
    ['unknown_type', { type: null }],
    ['unknown_type', { type: { toString: 1 } }],
  ])('%s: an entity with %j', (reason, more) => {
    expect(entity(more)).toEqual(refused(reason))
  })

  test.each([
    ['unknown_property', { relation: 'burntBy' }],
    ['unknown_class', { subject_type: 'Castle' }],
    ['unknown_class', { relation: 'near', object_type: 'Castle' }],
    ['domain', { subject_type: 'Person' }],
    ['domain', { relation: 'standsOn', subject_type: 'Building', object_type: 'River' }],
    ['range', { object_type: 'Company' }],
    ['range', { relation: 'opened', object: '1786' }],
    ['literal', { object: 1786 }],
    ['literal', { object: true }],
    ['literal', { object_type: 'string' }],
    ['empty', { object: '' }],
    ['empty', { relation: { name: 'owns' } }],
  ])('%s: a relationship with %j', (reason, more) => {
    expect(relationship(more)).toEqual(refused(reason))
  })

  test.each([
    ['unknown_property', { attribute: 'weight' }],
    ['unknown_class', { attribute: 'motto', entity_type: 'Castle' }],
    ['domain', { entity_type: 'River' }],
    ['domain', { attribute: 'wheels', entity_type: 'Building', value: 3 }],
    ['datatype', { value: 'in the spring of 1786' }],
    ['datatype', { attribute: 'wheels', value: -1 }],
    ['literal', { attribute: 'designedBy', value: 'Samuel Wyatt' }],
    ['empty', { value: null }],
    ['empty', { value: { year: 1786 } }],
    ['too_long', { attribute: 'motto', value: 'a'.repeat(100_001) }],
  ])('%s: an attribute with %j', (reason, more) => {
    expect(attribute(more)).toEqual(refused(reason))
  })

  test('say in a sentence what the ontology asks for', () => {
    expect(relationship({ subject_type: 'Person' })).toMatchObject({
      message: 'designedBy goes from Building, and Person is none.',
    })
    expect(attribute({ value: 'old' })).toMatchObject({
      message: '"old" is no xsd:gYear, as opened asks for.',
    })
  })
})

describe('several ontologies', () => {
  test('two that share names stay separate, and a relation of one connects its own classes', async () => {
    const where = folder()
    const sea = turtle(
      'e:Vessel a owl:Class . e:Port a owl:Class . e:calls a owl:ObjectProperty ; rdfs:domain e:Vessel ; rdfs:range e:Port .',
    )
    const body = sea
      .replaceAll('example.org/e#', 'example.org/body#')
      .replace('e:Port', 'e:Organ')
      .replace('e:Port', 'e:Organ')
      .replaceAll('e:calls', 'e:feeds')
    const { ontology } = await loadOntology([file('sea.ttl', sea, where), file('body.ttl', body, where)])
    const both = createCheck(ontology)
    const item = { type: 'relationship', subject: 'A', object: 'B' }
    const sails = { ...item, subject_type: 'sea:Vessel', relation: 'calls', object_type: 'Port' }
    expect(both(sails)).toEqual({
      to: 'ontology-relationships',
      fact: { subject: 'A', propertyIri: 'http://example.org/e#calls', object: 'B' },
    })
    expect(both({ ...sails, subject_type: 'body:Vessel' })).toEqual(refused('domain'))
    // Whose vessel it is cannot be told.
    expect(both({ ...sails, subject_type: 'Vessel' })).toEqual(refused('unknown_class'))
  })
})
