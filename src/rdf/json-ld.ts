// The triples as one JSON-LD document: a node for each subject, in the order in which they came, and a graph for each named graph.
// Quoted triples are reified.
import { absoluteIri, blankLabel, literalParts, misplaced } from './notation.ts'
import { reify } from './reify.ts'
import type { Term, Triple } from './term.ts'
import { rdf } from './vocabulary.ts'

type Node = Record<string, unknown>
/** The nodes of a graph, by id. */
type Nodes = Map<string, Node>

/** @throws `message_invalid` for what RDF cannot express. */
export function jsonLd(triples: readonly Triple[]): string {
  const graphs = new Map<string | null, Nodes>()
  for (const { s, p, o, g } of reify(triples)) {
    const nodes: Nodes = graphs.get(g) ?? new Map()
    graphs.set(g, nodes)
    const id = idOf(s, 'subject')
    const node = nodes.get(id) ?? { '@id': id }
    nodes.set(id, node)
    const [key, value] = p.iri === rdf.type ? ['@type', idOf(o, 'object')] : [absoluteIri(p.iri), objectOf(o)]
    node[key] = [...((node[key] as unknown[] | undefined) ?? []), value]
  }
  const named = [...graphs].flatMap(([g, nodes]) =>
    g === null ? [...nodes.values()] : [{ '@id': absoluteIri(g), '@graph': [...nodes.values()] }],
  )
  return `${JSON.stringify({ '@graph': named }, null, 1)}\n`
}

function idOf(term: Term, place: 'subject' | 'object'): string {
  if (term.type === 'i') return absoluteIri(term.iri)
  if (term.type === 'b') return `_:${blankLabel(term.id)}`
  throw misplaced(term, place)
}

function objectOf(term: Term): Node {
  if (term.type !== 'l') return { '@id': idOf(term, 'object') }
  const { value, language, datatype } = literalParts(term)
  return {
    '@value': value,
    ...(language && { '@language': language }),
    ...(datatype && { '@type': datatype }),
  }
}
