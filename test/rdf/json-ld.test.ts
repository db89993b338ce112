import { Readable } from 'node:stream'
import { JsonLdParser } from 'jsonld-streaming-parser'
import { Writer } from 'n3'
import { expect, test } from 'vitest'
import { relationshipTriples } from '../../src/rdf/facts.ts'
import { jsonLd } from '../../src/rdf/json-ld.ts'
import { subgraphProvenance } from '../../src/rdf/provenance.ts'
import { blank, iri, literal, type Triple, triple } from '../../src/rdf/term.ts'
import { createEncoder } from '../../src/rdf/write.ts'

/** The document's quads as sorted lines of N-Quads. */
async function quadsOf(document: string): Promise<string[]> {
  const writer = new Writer({ format: 'N-Quads' })
  for await (const quad of Readable.from([document]).pipe(new JsonLdParser())) writer.addQuad(quad)
  const text = await new Promise<string>((resolve, reject) =>
    writer.end((error, result) => (error ? reject(error) : resolve(result))),
  )
  return [...new Set(text.trim().split('\n'))].sort()
}

const nquads = (triples: readonly Triple[]) =>
  [...new Set(createEncoder('nquads').encode(triples).trim().split('\n'))].sort()

test('a JSON-LD parser reads the same quads as from N-Quads', async () => {
  const { triples, stated } = relationshipTriples({
    subject: 'chalk',
    predicate: 'is',
    object: 'a “rock”\n',
    objectEntity: false,
  })
  const extraction = { chunkId: 'urn:c', unit: 'u', run: { id: 'r', startedAt: 0 }, version: '1' }
  const all = [
    ...triples,
    ...subgraphProvenance(extraction, stated),
    triple(iri('urn:s'), iri('urn:p'), literal('Bär', { language: 'de' })),
    triple(
      iri('urn:s'),
      iri('urn:p'),
      literal('1', { datatype: 'http://www.w3.org/2001/XMLSchema#integer' }),
    ),
    triple(iri('urn:s'), iri('urn:p'), literal('2')),
    triple(iri('urn:s'), iri('urn:q'), blank('b1')),
    triple(iri('urn:s'), iri('urn:p'), literal('2')),
  ]
  const named = (lines: readonly string[]) => lines.map((line) => line.replaceAll(/_:\S+/g, '_:b'))
  expect(named(await quadsOf(jsonLd(all)))).toEqual(named(nquads(all)))
})

test('a triple that RDF cannot express is refused', () => {
  expect(() => jsonLd([triple(literal('x'), iri('urn:p'), iri('urn:o'))])).toThrow(
    expect.objectContaining({ code: 'message_invalid' }),
  )
})
