import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { definitionTriples, relationshipTriples } from '../../src/rdf/facts.ts'
import { absoluteIri, tripleText } from '../../src/rdf/notation.ts'
import { subgraphProvenance } from '../../src/rdf/provenance.ts'
import { reify } from '../../src/rdf/reify.ts'
import { blank, iri, literal, quoted, type Term, type Triple, triple } from '../../src/rdf/term.ts'
import { createEncoder, formats, type TripleFormat } from '../../src/rdf/write.ts'
import { hostileTriples, keys, readKeys, safe } from './quads.ts'

const mediaTypes = { nquads: 'application/n-quads', trig: 'application/trig', turtle: 'text/turtle' } as const
type RdfFormat = keyof typeof mediaTypes
const rdfFormats = Object.keys(mediaTypes) as RdfFormat[]

const ada = definitionTriples({ entity: 'Ada', definition: 'A "mathematician"\nof London' })
const knew = relationshipTriples({ subject: 'Ada', predicate: 'knew', object: 'Café 1', objectEntity: true })
const extraction = { chunkId: 'd/0/0', unit: 'u', run: { id: 'r', startedAt: 0 }, version: '1' }
const provenance = subgraphProvenance(extraction, [...ada.stated, ...knew.stated])
const all = [...ada.triples, ...knew.triples, ...provenance]

describe.each(rdfFormats)('%s', (format) => {
  const expected = (triples: readonly Triple[]) => keys(inFormat(triples.map(safe), format))

  test('is read back with every triple, whatever its text, in any batches', async () => {
    await fc.assert(
      fc.property(fc.array(hostileTriples, { maxLength: 4 }), (batches) => {
        const text = file(format, batches)
        expect(readKeys(text, mediaTypes[format])).toEqual(expected(batches.flatMap((batch) => reify(batch))))
        const star = file(format, batches, true)
        expect(readKeys(star, mediaTypes[format])).toEqual(expected(batches.flat()))
      }),
      { numRuns: 500 },
    )
  })

  test('writes provenance as reification that any RDF 1.1 loader reads', () => {
    const text = file(format, [all])
    expect(text).not.toContain('<<')
    expect(readKeys(text, mediaTypes[format])).toEqual(expected(reify(all)))
  })

  test('writes triple terms when asked to', () => {
    const text = file(format, [all], true)
    expect(text).not.toContain('Statement')
    expect(readKeys(text, mediaTypes[format])).toEqual(expected(all))
  })

  test('adds nothing when the same triples are written again', () => {
    const once = readKeys(file(format, [all]), mediaTypes[format])
    const again = readKeys(file(format, [all, all.slice(3), all]), mediaTypes[format])
    expect(again).toEqual(once)
  })

  test('is valid after every batch', () => {
    const encoder = createEncoder(format)
    let text = encoder.begin()
    let before = 0
    for (let at = 0; at < all.length; at += 3) {
      text += encoder.encode(all.slice(at, at + 3))
      const now = readKeys(text, mediaTypes[format]).length
      expect(now).toBeGreaterThan(before)
      before = now
    }
  })
})

test('N-Quads has the lines that each triple has alone, whatever was written before', async () => {
  const text = (iri: string | null) => `<${absoluteIri(iri)}>`
  const line = (each: Triple) => `${tripleText(each, text)}${each.g ? ` ${text(each.g)}` : ''} .\n`
  await fc.assert(
    fc.property(hostileTriples, (triples) => {
      const batch = [...triples, ...triples]
      expect(file('nquads', [batch])).toBe(reify(batch).map(line).join(''))
    }),
    { numRuns: 500 },
  )
})

test('N-Quads has one escaped line per triple', () => {
  const value = 'a"b\\c\n\r\t\b\f\0\u001f\u007f\u0085\u2028\ufffe𝒳é\ud800'
  const quad = triple(iri('http://x/<a b>'), iri('urn:p'), { ...literal(''), value }, 'urn:g')
  expect(file('nquads', [[quad]])).toBe(
    '<http://x/%3Ca%20b%3E> <urn:p> ' +
      '"a\\"b\\\\c\\n\\r\\t\\b\\f\\u0000\\u001F\\u007F\\u0085\\u2028\\uFFFE𝒳é\ufffd" <urn:g> .\n',
  )
})

test('TriG shares graphs, subjects and predicates, and abbreviates only what needs no escape', () => {
  const [s, p, g] = [
    iri('http://trustgraph.ai/e/a'),
    iri('http://www.w3.org/2000/01/rdf-schema#label'),
    'urn:g',
  ]
  const text = file('trig', [
    [
      triple(s, p, literal('1')),
      triple(s, p, literal('2', { language: 'de' })),
      triple(s, iri('e:a'), iri('http://trustgraph.ai/e/a.b'), g),
      triple(s, p, literal('3', { datatype: 'http://www.w3.org/2001/XMLSchema#integer' }), g),
    ],
  ])
  expect(text.replace(/^(@prefix .*\n)+/, '')).toBe(
    'e:a rdfs:label "1" ,\n        "2"@de .\n' +
      '<urn:g> {\n    e:a <e:a> <http://trustgraph.ai/e/a.b> ;\n        rdfs:label "3"^^xsd:integer .\n}\n',
  )
})

test('JSON Lines has TrustGraph’s form, quoted triples and graphs included', () => {
  const spoken = triple(iri('urn:s'), iri('urn:p'), literal('x', { datatype: 'urn:d' }))
  const text = file('jsonl', [
    [
      triple(blank('b'), iri('urn:p'), literal('a\n\u2028', { language: 'en' })),
      triple(iri('urn:s'), iri('urn:p'), quoted(spoken), 'urn:g'),
    ],
  ])
  const parsed = text.split('\n').map((line) => (line === '' ? null : JSON.parse(line)))
  expect(parsed).toEqual([
    { s: { t: 'b', d: 'b' }, p: { t: 'i', i: 'urn:p' }, o: { t: 'l', v: 'a\n\u2028', ln: 'en' } },
    {
      s: { t: 'i', i: 'urn:s' },
      p: { t: 'i', i: 'urn:p' },
      o: {
        t: 't',
        tr: { s: { t: 'i', i: 'urn:s' }, p: { t: 'i', i: 'urn:p' }, o: { t: 'l', v: 'x', dt: 'urn:d' } },
      },
      g: 'urn:g',
    },
    null,
  ])
})

describe.each(formats)('%s refuses, with a code, what RDF cannot hold', (format) => {
  const [s, p, o] = [iri('urn:s'), iri('urn:p'), iri('urn:o')]
  const deep = Array.from({ length: 10_000 }).reduce<Triple>(
    (inner) => triple(s, p, quoted(inner)),
    triple(s, p, o),
  )
  const broken: Term = { ...s, type: 'x' }
  test.each<[string, Triple]>([
    ['a relative IRI', triple(iri('a b'), p, o)],
    ['an IRI that is missing', triple(s, p, { ...o, iri: null })],
    ['a literal subject', triple(literal('x'), p, o)],
    ['a blank predicate', triple(s, blank('b'), o)],
    ['a quoted predicate', triple(s, quoted(triple(s, p, o)), o)],
    ['a literal without value', triple(s, p, { ...literal('x'), value: null })],
    ['a language that is none', triple(s, p, literal('x', { language: 'en" .' }))],
    ['a relative datatype', triple(s, p, literal('x', { datatype: 'int' }))],
    ['an unknown type of term', triple(broken, p, o)],
    ['a quoted triple that is missing', triple(s, p, { ...quoted(triple(s, p, o)), triple: null })],
    ['triples quoted 10,000 deep', deep],
    ['a quoted triple with a literal subject', triple(s, p, quoted(triple(literal('x'), p, o)))],
  ])('%s', (_, bad) => {
    const encoder = createEncoder(format)
    expect(() => encoder.encode([triple(s, p, o), bad])).toThrow(
      expect.objectContaining({ code: 'message_invalid' }),
    )
  })
})

test('writes a hundred thousand triples quickly', () => {
  const many = Array.from({ length: 100_000 / 50 }, (_, at) =>
    Array.from(
      { length: 25 },
      (_, n) => definitionTriples({ entity: `Café ${at}`, definition: `"${n}"` }).triples,
    ),
  )
  const started = performance.now()
  const length = many.reduce((sum, facts) => sum + file('nquads', [facts.flat()]).length, 0)
  expect(length).toBeGreaterThan(100_000 * 80)
  expect(performance.now() - started).toBeLessThan(3000)
})

test.each<TripleFormat>(['nquads', 'trig', 'jsonl'])('%s refuses a relative graph', (format) => {
  const quad = triple(iri('urn:s'), iri('urn:p'), iri('urn:o'), 'g')
  expect(() => createEncoder(format).encode([quad])).toThrow(
    expect.objectContaining({ code: 'message_invalid' }),
  )
})

function file(format: TripleFormat, batches: readonly (readonly Triple[])[], rdfStar = false): string {
  const encoder = createEncoder(format, { rdfStar })
  return encoder.begin() + batches.map((batch) => encoder.encode(batch)).join('') + encoder.end()
}

/** Turtle has one graph. */
function inFormat(triples: readonly Triple[], format: RdfFormat): Triple[] {
  return triples.map((each) => (format === 'turtle' ? { ...each, g: null } : each))
}
