// An ontology as extraction uses it: classes, relations and attributes of one or several files, by IRI. Every element has a key, the name
// by which the model knows it; it is unique among the elements of its kind.

/** Any one of these classes or datatypes, by IRI. */
export type Clause = readonly string[]

export interface OntologyElement {
  readonly iri: string
  /** The name that the model sees and writes. */
  readonly key: string
  /** The element's own name, without the prefix that a key may need. */
  readonly name: string
  /** The id of the ontology that declares it. */
  readonly ontology: string
  readonly label: string | null
  /** Other names, for the search. */
  readonly synonyms: readonly string[]
  readonly comment: string | null
  /** Known, but no longer offered to the model. */
  readonly deprecated: boolean
}

export interface OntologyClass extends OntologyElement {
  /** Direct superclasses, by IRI. */
  readonly parents: readonly string[]
  /** Classes with the same members, by IRI. */
  readonly same: readonly string[]
}

export interface OntologyProperty extends OntologyElement {
  /** `object`: a relation between two entities; `datatype`: an attribute, whose value is a literal. */
  readonly kind: 'object' | 'datatype'
  /** The subject must satisfy all clauses; without clauses, anything is allowed. Includes the clauses of superproperties. */
  readonly domain: readonly Clause[]
  /** What the object must be, or the datatype of the value. */
  readonly range: readonly Clause[]
  /** Direct superproperties, by IRI. */
  readonly parents: readonly string[]
  /** Relations that say the same in the other direction, by IRI. */
  readonly inverses: readonly string[]
}

/** Elements of one kind by IRI, in the order of their keys. */
export type Elements<E extends OntologyElement> = ReadonlyMap<string, E>

export interface Ontology {
  /** The ids of the ontologies, sorted. */
  readonly ids: readonly string[]
  /** Names the content: equal content has the same version, whatever its files, formats and order. */
  readonly version: string
  readonly classes: Elements<OntologyClass>
  readonly objectProperties: Elements<OntologyProperty>
  readonly datatypeProperties: Elements<OntologyProperty>
}

/** A class and all its superclasses: itself first, then the nearest. */
export function ancestors(ontology: Ontology, iri: string): ReadonlySet<string> {
  const found = new Set([iri])
  for (const each of found) {
    const { parents = [], same = [] } = ontology.classes.get(each) ?? {}
    for (const next of same) found.add(next)
    for (const next of parents) found.add(next)
  }
  return found
}

/** Whether an instance of the class `iri` satisfies every clause. */
export function satisfies(ontology: Ontology, iri: string, clauses: readonly Clause[]): boolean {
  if (clauses.length === 0) return true
  const kinds = ancestors(ontology, iri)
  return clauses.every((clause) => clause.some((each) => kinds.has(each)))
}
