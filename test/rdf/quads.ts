// What the file tests compare: a triple as one text, from our values and from what n3's parser reads; and hostile values.

import * as fc from 'fast-check'
import { type Term as N3Term, Parser, type Quad } from 'n3'
import { safeIri } from '../../src/rdf/iri.ts'
import { blank, iri, literal, quoted, type Term, type Triple, triple } from '../../src/rdf/term.ts'

export const xsdString = 'http://www.w3.org/2001/XMLSchema#string'
export const rdfNamespace = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'

/** Triples as sorted texts, repeats left out; language tags in lower case, since their case means nothing. */
export function keys(triples: readonly Triple[]): string[] {
  const all = triples.map((each) => [key(each.s), key(each.p), key(each.o), each.g ?? ''])
  return sorted(all)
}

/** The triple as it comes back from a file: IRIs percent-encoded where they must be. */
export function safe({ s, p, o, g }: Triple): Triple {
  return { s: safeTerm(s), p: safeTerm(p), o: safeTerm(o), g: g && safeIri(g) }
}

function safeTerm(term: Term): Term {
  const datatype = term.datatype && safeIri(term.datatype)
  return { ...term, iri: term.iri && safeIri(term.iri), datatype, triple: term.triple && safe(term.triple) }
}

/** What n3 reads from a file, as `keys` gives it. */
export function readKeys(text: string, format: string): string[] {
  const parser = new Parser({ format, blankNodePrefix: '' })
  return sorted(parser.parse(text).map((quad) => [...n3Triple(quad), quad.graph.value]))
}

export function sorted(all: readonly unknown[]): string[] {
  return [...new Set(all.map((each) => JSON.stringify(each)))].sort()
}

function key(term: Term): unknown {
  switch (term.type) {
    case 'i':
      return ['i', term.iri]
    case 'b':
      return ['b', term.id]
    case 'l':
      return [
        'l',
        term.value,
        term.language ? `${rdfNamespace}langString` : (term.datatype ?? xsdString),
        term.language?.toLowerCase() ?? '',
      ]
    default:
      return ['t', key(term.triple!.s), key(term.triple!.p), key(term.triple!.o)]
  }
}

function n3Triple(quad: Quad): unknown[] {
  return [n3Key(quad.subject), n3Key(quad.predicate), n3Key(quad.object)]
}

function n3Key(term: N3Term): unknown {
  switch (term.termType) {
    case 'NamedNode':
      return ['i', term.value]
    case 'BlankNode':
      return ['b', term.value]
    case 'Literal':
      return ['l', term.value, term.datatype.value, term.language.toLowerCase()]
    default:
      // n3's types do not know that a term may be a quad
      return ['t', ...n3Triple(term as unknown as Quad)]
  }
}

/** Any UTF-16 code units, also lone surrogates, often those that some syntax gives a meaning. */
export const hostileText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...'<>"{}|^`\\ \t\n\r\0\b\f%#/:@.;,_-eE\'$&?[]()',
        '%2',
        '%41',
        '\u0085',
        '\u2028',
        '\ufeff',
      ),
      fc.constantFrom(
        '\ud800',
        '\udfff',
        '\ufffe',
        '\u200f',
        '\u00a0',
        'Σ',
        'é',
        '𝒳',
        '\u007f',
        '\u009f',
        '\\u0041',
      ),
      fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
      fc.string({ unit: 'binary', maxLength: 4 }),
    ),
    { maxLength: 20 },
  )
  .map((pieces) => pieces.join(''))

/** Absolute IRIs as careless people and hostile models make them. */
export const hostileIri: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom(
      'http://example.org/',
      'urn:x:',
      'e:',
      'rdf:',
      'tg:',
      'http://trustgraph.ai/e/',
      `${rdfNamespace}`,
    ),
    hostileText,
  )
  .map(([head, tail]) => head + tail)

const tag = fc.constantFrom('en', 'de-CH', 'zh-Hant-TW')

const hostileLiteral: fc.Arbitrary<Term> = fc.oneof(
  hostileText.map((text) => literal(text)),
  fc.tuple(hostileText, tag).map(([text, language]) => literal(text, { language })),
  fc.tuple(hostileText, hostileIri).map(([text, datatype]) => literal(text, { datatype })),
)

const node: fc.Arbitrary<Term> = fc.oneof(
  hostileIri.map((text) => iri(text)),
  fc.constantFrom(iri('urn:s:1'), iri('urn:s:2'), blank('b1'), blank('n-2')),
)

const predicate = fc.oneof(hostileIri, fc.constantFrom('urn:p:1', 'urn:p:2')).map((text) => iri(text))

const spoken = fc
  .tuple(node, predicate, fc.oneof(node, hostileLiteral))
  .map(([s, p, o]) => quoted(triple(s, p, o)))

/** Triples that share subjects, predicates and graphs often enough for the shorthands of Turtle; some quote others. */
export const hostileTriples: fc.Arbitrary<Triple[]> = fc.array(
  fc
    .tuple(
      node,
      predicate,
      fc.oneof(node, hostileLiteral, spoken),
      fc.oneof(hostileIri, fc.constantFrom(null, null, 'urn:graph:source')),
    )
    .map(([s, p, o, g]) => triple(s, p, o, g)),
  { maxLength: 12 },
)
