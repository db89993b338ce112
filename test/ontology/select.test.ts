import { rmSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { createLexicalRanking, type Ranking, words } from '../../src/ontology/lexical.ts'
import { loadOntology } from '../../src/ontology/load.ts'
import type { Ontology } from '../../src/ontology/ontology.ts'
import { createSelector, type Selector } from '../../src/ontology/select.ts'
import { file, fixture, newFolder, turtle } from './support/files.ts'
import { chunkText, largeOntology } from './support/large.ts'

let large: Ontology
let selector: Selector
let rank: Ranking

beforeAll(async () => {
  const where = newFolder()
  large = (await loadOntology([file('large.ttl', largeOntology(2000), where)])).ontology
  selector = createSelector(large, 1000)
  rank = createLexicalRanking(selector.elements)
  return () => rmSync(where, { recursive: true })
})

/** Superclasses, domains and ranges that the terms name and do not hold. */
function missing({
  classes,
  object_properties,
  datatype_properties,
}: ReturnType<Selector['select']>): string[] {
  const named = [
    ...Object.values(classes).flatMap(({ subclass_of }) => subclass_of?.split(' and ') ?? []),
    ...Object.values(object_properties).flatMap(({ domain, range }) => [domain, range]),
    ...Object.values(datatype_properties).map(({ domain }) => domain),
  ].flatMap((text) => text?.split(/ and | or /) ?? [])
  return named.filter((name) => name !== 'anything' && !Object.hasOwn(classes, name))
}

describe('selection', () => {
  test('gives a small ontology as a whole, with everything that is known', async () => {
    const { ontology } = await loadOntology([fixture('mills.ttl')])
    const whole = createSelector(ontology, 2000).select([])
    expect(Object.keys(whole.classes)).toEqual([
      'Agent',
      'Building',
      'Company',
      'Machine',
      'Mill',
      'Person',
      'River',
      'WaterMill',
    ])
    expect(whole.classes['Mill']).toEqual({ subclass_of: 'Building and Machine', comment: null })
    expect(whole.classes['Building']).toEqual({
      subclass_of: null,
      comment: 'Something that was built to last.',
    })
    expect(whole.object_properties['owns']).toEqual({
      domain: 'Company or Person',
      range: 'Building',
      comment: null,
    })
    expect(whole.object_properties['near']).toEqual({ domain: null, range: null, comment: null })
    expect(whole.datatype_properties['opened']).toEqual({
      domain: 'Building',
      range: 'xsd:gYear',
      comment: null,
    })
  })

  test.each([100, 300, 1000, 4000])('of a large one keeps a budget of %d tokens, and is closed', (budget) => {
    const small = createSelector(large, budget)
    const prompt = (terms: ReturnType<Selector['select']>) =>
      [
        ...Object.entries(terms.classes).map(
          ([id, { subclass_of, comment }]) => `- ${id} (a kind of ${subclass_of}): ${comment ?? ''}\n`,
        ),
        ...Object.entries({ ...terms.object_properties, ...terms.datatype_properties }).map(
          ([id, { domain, range, comment }]) => `- ${id} (from ${domain} to ${range}): ${comment ?? ''}\n`,
        ),
      ].join('')
    for (let seed = 0; seed < 5; seed++) {
      const terms = small.select(rank(chunkText(seed)))
      expect(prompt(terms).length / 3.5).toBeLessThanOrEqual(budget)
      expect(missing(terms)).toEqual([])
      if (budget >= 300) expect(prompt(terms).length / 3.5).toBeGreaterThan(budget * 0.6)
    }
  })

  test('is the same for the same text', () => {
    const first = JSON.stringify(selector.select(rank(chunkText(3))))
    expect(JSON.stringify(selector.select(rank(chunkText(3))))).toBe(first)
    const again = createSelector(large, 1000)
    expect(JSON.stringify(again.select(createLexicalRanking(again.elements)(chunkText(3))))).toBe(first)
  })

  test('includes the classes at both ends of a relation, and its inverse', async () => {
    const text = turtle(
      `e:Agent a owl:Class . e:Person rdfs:subClassOf e:Agent . e:Ship a owl:Class .
e:commands a owl:ObjectProperty ; rdfs:domain e:Person ; rdfs:range e:Ship . e:commandedBy a owl:ObjectProperty ; owl:inverseOf e:commands .
${Array.from({ length: 50 }, (_, index) => `e:Other${index} a owl:Class ; rdfs:comment "Something else, of no use here, number ${index}." .`).join('\n')}`,
    )
    const { ontology } = await loadOntology([file('ships.ttl', text)])
    const narrow = createSelector(ontology, 150)
    expect(narrow.whole).toBeUndefined()
    const terms = narrow.select([narrow.elements.findIndex(({ element }) => element.key === 'commands')])
    expect(Object.keys(terms.classes)).toEqual(['Agent', 'Person', 'Ship'])
    expect(Object.keys(terms.object_properties)).toEqual(['commandedBy', 'commands'])
    const byClasses = narrow.select(
      ['Person', 'Ship'].map((key) => narrow.elements.findIndex(({ element }) => element.key === key)),
    )
    expect(Object.keys(byClasses.object_properties)).toEqual(['commandedBy', 'commands'])
  })

  test('offers the most general classes for a text without known words', () => {
    const terms = selector.select(rank('Zzz qqq!'))
    expect(terms.classes).toHaveProperty('OakKitchenBowl')
    expect(Object.keys(terms.classes).length).toBeGreaterThan(5)
  })

  test('does not offer what is deprecated', async () => {
    const { ontology } = await loadOntology([
      file('d.ttl', turtle('e:A a owl:Class . e:B a owl:Class ; owl:deprecated true .')),
    ])
    expect(Object.keys(createSelector(ontology, 2000).select([]).classes)).toEqual(['A'])
  })

  test('tells the label where a key says nothing, and shortens a long comment', async () => {
    const long = 'A building that grinds. '.repeat(40)
    const { ontology } = await loadOntology([
      file('o.ttl', turtle(`e:X_0001 a owl:Class ; rdfs:label "mill" ; rdfs:comment "${long}" .`)),
    ])
    const { comment } = createSelector(ontology, 2000).select([]).classes['X_0001']!
    expect(comment).toMatch(/^mill\. A building that grinds\. .{100,200} …$/)
  })
})

describe('ranking by words', () => {
  test('finds elements by their names before their comments, whatever the case, number and spelling', async () => {
    const text = turtle(
      `e:WaterMill a owl:Class . e:River a owl:Class ; rdfs:comment "Where a mill may stand." . e:X1 a owl:Class ; rdfs:label "brewery" . e:Noise a owl:Class .`,
    )
    const { ontology } = await loadOntology([file('w.ttl', text)])
    const { elements } = createSelector(ontology, 10)
    const found = (text: string) =>
      createLexicalRanking(elements)(text).map((place) => elements[place]!.element.key)
    expect(found('Two MILLS were built.')).toEqual(['WaterMill', 'River'])
    expect(found('the breweries of London')).toEqual(['X1'])
    expect(found('the of and')).toEqual([])
  })

  test('splits names as people write them', () => {
    expect(words('designedBy HTTPServer water_mills Mühlen 2nd churches')).toEqual([
      'designed',
      'http',
      'server',
      'water',
      'mill',
      'muhlen',
      '2nd',
      'church',
    ])
  })
})
