// The files as rdflib reads them, in Python: a second opinion beside n3's.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { definitionTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import { subgraphProvenance } from '../../src/rdf/provenance.ts'
import { reify } from '../../src/rdf/reify.ts'
import type { Triple } from '../../src/rdf/term.ts'
import { createEncoder } from '../../src/rdf/write.ts'
import { installRdflib, readInRdflib } from '../support/rdflib.ts'
import { hostileTriples, keys, safe } from './quads.ts'

const missing = installRdflib()

const ada = definitionTriples({ entity: 'Ada', definition: 'A "mathematician"\nof London' })
const knew = relationshipTriples({ subject: 'Ada', predicate: 'knew', object: 'Café 1', objectEntity: true })
const extraction = { chunkId: 'd/0/0', unit: 'u', run: { id: 'r', startedAt: 0 }, version: '1' }
const provenance = subgraphProvenance(extraction, [...ada.stated, ...knew.stated])

describe.each(['nquads', 'trig', 'turtle'] as const)('%s, read by rdflib', (format) => {
  test('reads back the facts with their provenance, and every hostile triple', ({ skip }) => {
    skip(missing !== undefined, missing)
    const hostile = fc.sample(hostileTriples, 300).flat().filter(isNamed)
    const triples = [...ada.triples, ...knew.triples, ...provenance, ...hostile]
    const encoder = createEncoder(format)
    const text = encoder.begin() + encoder.encode(triples) + encoder.end()

    const one = (each: Triple) => (format === 'turtle' ? { ...each, g: null } : each)
    expect(readInRdflib(text, format)).toEqual(keys(reify(triples).map(safe).map(one)))
  })
})

/** rdflib gives blank nodes labels of its own. */
function isNamed({ s, o }: Triple): boolean {
  return s.type !== 'b' && o.type !== 'b' && (o.triple === null || isNamed(o.triple))
}
