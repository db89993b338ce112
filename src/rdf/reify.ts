// Quoted triples for RDF 1.1: each becomes an rdf:Statement, described in the graph of the triple that quotes it. A statement's IRI is a
// hash of its subject, predicate and object, so that describing it again adds nothing.

import { hash } from 'node:crypto'
import { bracketed, deepestQuote, tooDeep, tripleText } from './notation.ts'
import { iri, quoted, type Term, type Triple, triple } from './term.ts'
import { rdf } from './vocabulary.ts'

export interface ReifyOptions {
  /** Whether to keep quoted triples that are objects, as in RDF 1.2; then only quoted subjects are reified. Default false. */
  readonly keepObjects?: boolean
}

const type = iri(rdf.type)
const statementClass = iri(rdf.Statement)
const subject = iri(rdf.subject)
const predicate = iri(rdf.predicate)
const object = iri(rdf.object)

/**
 * The same triples in order, with statements in place of quoted triples, followed by the descriptions of the statements.
 *
 * @throws `message_invalid` for quoted triples more than 64 deep, and for ones that no RDF syntax can hold.
 */
export function reify(
  triples: readonly Triple[],
  { keepObjects = false }: ReifyOptions = {},
): readonly Triple[] {
  if (!triples.some(({ s, o }) => s.type === 't' || o.type === 't')) return triples
  const descriptions: Triple[] = []
  /** Statements that are described, by graph and IRI. */
  const described = new Set<string>()

  function plain(from: Triple, g: string | null, depth: number): Triple {
    if (depth > deepestQuote) throw tooDeep()
    if (from.s.type !== 't' && from.o.type !== 't') return from
    return {
      s: unquote(from.s, g, depth, false),
      p: from.p,
      o: unquote(from.o, g, depth, keepObjects),
      g: from.g,
    }
  }

  function unquote(term: Term, g: string | null, depth: number, keep: boolean): Term {
    if (term.type !== 't' || term.triple === null) return term
    const inner = plain(term.triple, g, depth + 1)
    if (keep) return quoted(inner)
    const statement = iri(`urn:graphmill:statement:${hash('sha256', tripleText(inner, bracketed))}`)
    const place = `${g ?? ''} ${statement.iri}`
    if (described.has(place)) return statement
    described.add(place)
    descriptions.push(
      triple(statement, type, statementClass, g),
      triple(statement, subject, inner.s, g),
      triple(statement, predicate, inner.p, g),
      triple(statement, object, inner.o, g),
    )
    return statement
  }

  const asserted = triples.map((each) => plain(each, each.g, 0))
  return [...asserted, ...descriptions]
}
