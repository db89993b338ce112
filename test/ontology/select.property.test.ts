import fc from 'fast-check'
import { expect, test } from 'vitest'
import { build } from '../../src/ontology/build.ts'
import { createOntologyBuilder } from '../../src/ontology/builder.ts'
import { lineLength } from '../../src/ontology/element-list.ts'
import { readTrustGraph } from '../../src/ontology/from-json.ts'
import type { Ontology } from '../../src/ontology/ontology.ts'
import { createSelector } from '../../src/ontology/select.ts'

const size = 30
const name = (index: number) => `Class${index}`
const end = fc.option(fc.uniqueArray(fc.nat(size - 1), { minLength: 1, maxLength: 3 }), {
  nil: [] as number[],
})

/** An ontology without circles: a class's parents stand before it. */
const anyOntology = fc
  .record({
    parents: fc.array(fc.uniqueArray(fc.nat(size - 1), { maxLength: 3 }), {
      minLength: size,
      maxLength: size,
    }),
    relations: fc.array(fc.record({ domain: end, range: end, inverse: fc.option(fc.nat(9)) }), {
      maxLength: 10,
    }),
    comments: fc.array(fc.string({ maxLength: 300 }), { minLength: size, maxLength: size }),
  })
  .map(({ parents, relations, comments }): Ontology => {
    const builder = createOntologyBuilder()
    builder.files.set('o', 'o.json')
    const classes = parents.map((above, index) => [
      name(index),
      { 'rdfs:subClassOf': above.filter((each) => each < index).map(name), 'rdfs:comment': comments[index] },
    ])
    const objectProperties = relations.map(({ domain, range, inverse }, index) => [
      `relation${index}`,
      {
        'rdfs:domain': domain.map(name),
        'rdfs:range': range.map(name),
        'owl:inverseOf': inverse !== null && inverse < relations.length ? `relation${inverse}` : null,
      },
    ])
    const value = {
      classes: Object.fromEntries(classes),
      objectProperties: Object.fromEntries(objectProperties),
    }
    readTrustGraph({ id: 'o', value, path: [] }, builder, (path, message) => {
      throw new Error(`${path.join('.')}: ${message}`)
    })
    const { ontology, flaws } = build(builder)
    expect(flaws).toEqual([])
    return ontology
  })

test('for every ontology, ranking and budget, a selection keeps its budget, is closed, and is reproducible', () => {
  fc.assert(
    fc.property(
      anyOntology,
      fc.uniqueArray(fc.nat(size + 9)),
      fc.integer({ min: 1, max: 1500 }),
      (ontology, ranked, budget) => {
        const selector = createSelector(ontology, budget)
        const known = ranked.filter((place) => place < selector.elements.length)
        const terms = selector.select(known)
        expect(createSelector(ontology, budget).select(known)).toEqual(terms)

        const chosen = selector.elements.filter(({ kind, element }) =>
          Object.hasOwn(kind === 'class' ? terms.classes : terms.object_properties, element.key),
        )
        const isChosen = (iri: string) => chosen.some(({ element }) => element.iri === iri)
        const spent = chosen.reduce((sum, listed) => sum + lineLength(ontology, listed, false), 0)
        expect(spent / 3.5).toBeLessThanOrEqual(budget)
        for (const { kind, element } of chosen) {
          if (kind === 'class') expect(element.parents.every(isChosen)).toBe(true)
          else {
            expect(element.inverses.every(isChosen)).toBe(true)
            for (const clause of [...element.domain, ...element.range])
              expect(clause.some(isChosen)).toBe(true)
          }
        }
      },
    ),
    { numRuns: 300 },
  )
})
