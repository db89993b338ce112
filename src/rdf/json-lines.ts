// Triples as JSON Lines, in the form that TrustGraph uses outside of its queues:
// {"s":{"t":"i","i":…},"p":…,"o":{"t":"l","v":…,"dt":…,"ln":…},"g":…}; blank nodes are {"t":"b","d":…}, quoted triples {"t":"t","tr":…}.

import {
  absoluteIri,
  blankLabel,
  deepestQuote,
  literalParts,
  misplaced,
  type TriplePlace,
  tooDeep,
} from './notation.ts'
import type { Term, Triple } from './term.ts'

/** One line, with its end. */
export function jsonLine(triple: Triple): string {
  return `${JSON.stringify(jsonTriple(triple, 0))}\n`
}

function jsonTriple({ s, p, o, g }: Triple, depth: number): object {
  if (depth > deepestQuote) throw tooDeep()
  const spo = {
    s: jsonTerm(s, 'subject', depth),
    p: jsonTerm(p, 'predicate', depth),
    o: jsonTerm(o, 'object', depth),
  }
  return g ? { ...spo, g: absoluteIri(g) } : spo
}

function jsonTerm(term: Term, place: TriplePlace, depth: number): object {
  if (term.type === 'i') return { t: 'i', i: absoluteIri(term.iri) }
  if (term.type === 'b' && place !== 'predicate') return { t: 'b', d: blankLabel(term.id) }
  if (term.type === 'l' && place === 'object') {
    const { value, datatype, language } = literalParts(term)
    return { t: 'l', v: value, ...(datatype && { dt: datatype }), ...(language && { ln: language }) }
  }
  if (term.type === 't' && place !== 'predicate' && term.triple !== null) {
    return { t: 't', tr: jsonTriple(term.triple, depth + 1) }
  }
  throw misplaced(term, place)
}
