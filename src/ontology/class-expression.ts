// Class expressions as clauses: named classes, and unions and intersections of them. Restrictions and complements cannot be expressed.
import type { Graph, Node } from './graph.ts'
import type { Clause } from './ontology.ts'
import { words } from './rdf-words.ts'

/** How deep expressions may be nested. */
const deepest = 8

/** The clauses of an expression, which must all hold; undefined when clauses cannot express it. */
export function clausesOf(graph: Graph, node: Node, depth = 0): readonly Clause[] | undefined {
  if (node.termType === 'NamedNode') return [[node.value]]
  if (node.termType !== 'BlankNode' || depth === deepest) return undefined
  const [narrowed] = graph.objects(node, words.narrowed)
  if (narrowed) return clausesOf(graph, narrowed, depth + 1)
  const [union] = graph.objects(node, words.union)
  const [intersection] = graph.objects(node, words.intersection)
  const members = graph.list(union ?? intersection)?.map((member) => clausesOf(graph, member, depth + 1))
  if (!union) return members?.flatMap((clauses) => clauses ?? [])
  const alternatives: string[] = []
  for (const clauses of members ?? [undefined]) {
    if (clauses?.length !== 1) return undefined
    alternatives.push(...clauses[0]!)
  }
  return [alternatives]
}
