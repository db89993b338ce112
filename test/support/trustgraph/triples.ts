// Triples of TrustGraph as lines that can be compared: those of a graph, and the provenance without ids and times that differ each time.
import type { Stored } from './host.ts'

// biome-ignore lint/suspicious/noExplicitAny: a term of TrustGraph
function term({ type, iri, id, value, datatype, language, triple }: any): string {
  if (type === 't') return `<< ${line(triple)} >>`
  return type === 'l'
    ? JSON.stringify(value) + (datatype && `^^${datatype}`) + (language && `@${language}`)
    : iri || id
}

// biome-ignore lint/suspicious/noExplicitAny: a triple of TrustGraph
const line = ({ s, p, o }: any): string => [s, p, o].map(term).join(' ')

// biome-ignore lint/suspicious/noExplicitAny: triples of TrustGraph
const all = (stored: readonly Stored[]): readonly any[] =>
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
