// The statements of one RDF file, by subject, with the queries that reading an ontology needs.

/** A term of RDF/JS, as all parsers give it. */
export interface Node {
  readonly termType: string
  readonly value: string
  readonly language?: string
}

export interface RdfStatement {
  readonly subject: Node
  readonly predicate: Node
  readonly object: Node
}

export interface Graph {
  add(statement: RdfStatement): void
  /** The subjects that have an IRI, in the order of their first statement. */
  subjects(): string[]
  /** The objects of a subject and predicate. */
  objects(subject: Node | string, predicate: string): readonly Node[]
  /** The objects of a subject and predicate that have an IRI. */
  iris(subject: Node | string, predicate: string): string[]
  /** The members of an RDF list; undefined when there is none, or it is broken. */
  list(head: Node | undefined): Node[] | undefined
}

const rdfNamespace = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'

export function createGraph(): Graph {
  const statements = new Map<string, Map<string, Node[]>>()
  const named = new Set<string>()
  const keyOf = (node: Node | string) =>
    typeof node === 'string' ? node : node.termType === 'BlankNode' ? `_:${node.value}` : node.value

  function objects(subject: Node | string, predicate: string): readonly Node[] {
    return statements.get(keyOf(subject))?.get(predicate) ?? []
  }

  return {
    add({ subject, predicate, object }) {
      const key = keyOf(subject)
      if (subject.termType === 'NamedNode') named.add(key)
      const ofSubject = statements.get(key) ?? new Map<string, Node[]>()
      if (ofSubject.size === 0) statements.set(key, ofSubject)
      const known = ofSubject.get(predicate.value)
      if (known) known.push(object)
      else ofSubject.set(predicate.value, [object])
    },
    subjects: () => [...named],
    objects,
    iris: (subject, predicate) =>
      objects(subject, predicate)
        .filter(({ termType }) => termType === 'NamedNode')
        .map(({ value }) => value),
    list(head) {
      const members: Node[] = []
      const seen = new Set<string>()
      for (let at = head; at?.value !== `${rdfNamespace}nil`; ) {
        if (at === undefined) return undefined
        const [first] = objects(at, `${rdfNamespace}first`)
        const [rest] = objects(at, `${rdfNamespace}rest`)
        if (first === undefined || seen.has(keyOf(at))) return undefined
        seen.add(keyOf(at))
        members.push(first)
        at = rest
      }
      return members
    },
  }
}
