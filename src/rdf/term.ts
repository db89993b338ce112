// Terms and triples as plain values, as they are sent; fields that do not apply are null. The constructors replace lone surrogates; IRIs
// come from iri.ts.

import type { Term, Triple } from '../messages/generated.ts'

export type { Term, Triple }

const nothing = { iri: null, id: null, value: null, datatype: null, language: null, triple: null }

/** An IRI. The caller makes sure that it is absolute; see `safeIri`. */
export function iri(value: string): Term {
  return { ...nothing, type: 'i', iri: value }
}

/** A blank node. */
export function blank(id: string): Term {
  return { ...nothing, type: 'b', id }
}

export interface LiteralOptions {
  /** The IRI of the datatype. Default: none, which means xsd:string. */
  readonly datatype?: string | null
  /** A BCP 47 language tag. */
  readonly language?: string | null
}

/** A literal; a lone surrogate becomes U+FFFD. */
export function literal(value: string, { datatype = null, language = null }: LiteralOptions = {}): Term {
  return { ...nothing, type: 'l', value: value.toWellFormed(), datatype, language }
}

/** A quoted triple: a triple that is mentioned, not stated. */
export function quoted(triple: Triple): Term {
  return { ...nothing, type: 't', triple }
}

/** A triple in the named graph `g`, by default in the default graph. */
export function triple(s: Term, p: Term, o: Term, g: string | null = null): Triple {
  return { s, p, o, g }
}
