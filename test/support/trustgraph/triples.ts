// Triples of TrustGraph as lines that can be compared: those of a graph, and the provenance without ids and times that differ each time.
import type { Stored } from './host.ts'

interface StoredTerm {
  readonly type: string
  readonly iri: string
  readonly id: string
  readonly value: string
  readonly datatype: string
  readonly language: string
  readonly triple: StoredTriple
}

interface StoredTriple {
  readonly s: StoredTerm
  readonly p: StoredTerm
  readonly o: StoredTerm
  readonly g: string | null
}

function term({ type, iri, id, value, datatype, language, triple }: StoredTerm): string {
  if (type === 't') return `<< ${line(triple)} >>`
  return type === 'l'
    ? JSON.stringify(value) + (datatype && `^^${datatype}`) + (language && `@${language}`)
    : iri || id
}

const line = ({ s, p, o }: StoredTriple): string => [s, p, o].map(term).join(' ')

const all = (stored: readonly Stored[]): readonly StoredTriple[] =>
  stored.flatMap(({ event, message }) => (event === 'triples' ? message.triples : []))

/** The facts: the triples of the default graph, sorted, each once. */
export function facts(stored: readonly Stored[]): readonly string[] {
  return [
    ...new Set(
      all(stored)
        .filter(({ g }) => !g)
        .map(line),
    ),
  ].sort()
}

/** The triples that provenance says were extracted. */
export function contained(stored: readonly Stored[]): readonly string[] {
  const quoted = all(stored).filter(({ g, p }) => g === 'urn:graph:source' && p.iri.endsWith('/contains'))
  return [...new Set(quoted.map(({ o }) => line(o.triple)))].sort()
}

/** The extractors that wrote provenance, sorted. */
export function writers(stored: readonly Stored[]): readonly string[] {
  const used = all(stored).filter(({ p }) => p.iri === 'http://www.w3.org/ns/prov#wasAssociatedWith')
  return [...new Set(used.map(({ o }) => o.iri.replace('https://trustgraph.ai/agent/', '')))].sort()
}

/** The rows of all tables. */
export const rowsOf = (stored: readonly Stored[]): readonly unknown[] =>
  stored.flatMap(({ event, message }) => (event === 'rows' ? message.values : []))

/** Facts of TrustGraph's extractors as ours state them: with one rule for all IRIs, and the ranges of datatype properties. */
export const byOurRules = (lines: readonly string[]) =>
  [
    ...new Set(
      lines.map((line) =>
        line.replaceAll(/https:\/\/trustgraph\.ai\/mills\/\w+-(\w+)/g, 'http://trustgraph.ai/e/$1'),
      ),
    ),
    'http://example.org/mills#built http://www.w3.org/2000/01/rdf-schema#range http://www.w3.org/2001/XMLSchema#string',
  ].sort()
