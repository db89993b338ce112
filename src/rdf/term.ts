// Terms and triples as plain values, as they are sent; fields that do not apply are null. The constructors replace lone surrogates; IRIs
// come from iri.ts. Each writes its fields out in one order, without a spread: several hundred are made for every chunk.

import type { Term, Triple } from '../messages/generated.ts'

export type { Term, Triple }

/** An IRI. The caller makes sure that it is absolute; see `safeIri`. */
export function iri(value: string): Term {
  return { iri: value, id: null, value: null, datatype: null, language: null, triple: null, type: 'i' }
}

/** A blank node. */
export function blank(id: string): Term {
  return { iri: null, id, value: null, datatype: null, language: null, triple: null, type: 'b' }
}

export interface LiteralOptions {
  /** The IRI of the datatype. Default: none, which means xsd:string. */
  readonly datatype?: string | null
  /** A BCP 47 language tag. */
  readonly language?: string | null
}

/** A literal; a lone surrogate becomes U+FFFD. */
export function literal(value: string, { datatype = null, language = null }: LiteralOptions = {}): Term {
  return { iri: null, id: null, value: value.toWellFormed(), datatype, language, triple: null, type: 'l' }
}

/** A quoted triple: a triple that is mentioned, not stated. */
export function quoted(triple: Triple): Term {
  return { iri: null, id: null, value: null, datatype: null, language: null, triple, type: 't' }
}

/** A triple in the named graph `g`, by default in the default graph. */
export function triple(s: Term, p: Term, o: Term, g: string | null = null): Triple {
  return { s, p, o, g }
}
