// Reads a graph into a builder: the classes and properties of an RDF file, as far as extraction can use them. A domain or range that is
// not a union or intersection of named classes is ignored; a note says how many there are.

import {
  declareClass,
  declareProperty,
  type ElementBuilder,
  type Identity,
  mentionClass,
  type OntologyBuilder,
  type PropertyBuilder,
} from './builder.ts'
import { clausesOf } from './class-expression.ts'
import { datatypeOf } from './datatypes.ts'
import type { Graph } from './graph.ts'
import type { Clause } from './ontology.ts'
import { isLanguage, isThing, types, words } from './rdf-words.ts'

type PropertyKind = PropertyBuilder['kind']

interface GraphReading {
  readonly graph: Graph
  /** The ontology's id. */
  readonly id: string
  readonly builder: OntologyBuilder
  /** Datatypes that the file itself declares. */
  readonly datatypes: ReadonlySet<string>
  /** Domains and ranges that are left out. */
  skipped: number
}

/** Adds the declarations of the graph, which belongs to the ontology `id`, to the builder. */
export function readRdf(graph: Graph, id: string, builder: OntologyBuilder): void {
  const subjects = graph.subjects()
  const datatypes = new Set(
    subjects.filter((iri) => graph.iris(iri, words.type).some((type) => types.datatype.has(type))),
  )
  const reading: GraphReading = { graph, id, builder, datatypes, skipped: 0 }
  for (const iri of subjects) {
    if (asDatatype(iri, reading) !== undefined) continue
    if (isDeclaredClass(iri, reading)) readClass(iri, reading)
    const kinds = kindsOf(iri, reading)
    if (kinds) readProperty(iri, kinds, reading)
    for (const imported of graph.iris(iri, words.imports))
      builder.notes.push(`${id} imports ${imported}, which is not fetched: load its file too`)
  }
  if (reading.skipped > 0)
    builder.notes.push(
      `${id}: ${reading.skipped} domains or ranges are no union or intersection of named classes, and bind nobody`,
    )
}

function isDeclaredClass(iri: string, { graph }: GraphReading): boolean {
  if (isLanguage(iri) || isThing(iri)) return false
  return (
    graph.iris(iri, words.type).some((type) => types.class.has(type)) ||
    graph.objects(iri, words.parent).length > 0
  )
}

function readClass(iri: string, { graph, id, builder }: GraphReading): void {
  const found = declareClass(builder, identity(iri, id))
  describe(found, graph)
  const others = (iris: readonly string[]) => iris.filter((each) => each !== iri && isUsableClass(each))
  const above = (node: Parameters<typeof clausesOf>[1]) =>
    // A subclass of a union is not a subclass of its members; a subclass of an intersection is one of all members.
    (clausesOf(graph, node) ?? []).flatMap((clause) => (clause.length === 1 ? clause : []))

  for (const node of graph.objects(iri, words.parent))
    for (const parent of others(above(node))) found.parents.add(parent)
  for (const node of graph.objects(iri, words.same)) {
    if (node.termType === 'NamedNode')
      for (const same of others([node.value])) {
        found.same.add(same)
        mentionClass(builder, identity(same, id)).same.add(iri)
      }
    else {
      for (const parent of others(above(node))) found.parents.add(parent)
      const [union, ...more] = clausesOf(graph, node) ?? []
      if (union && union.length > 1 && more.length === 0)
        for (const member of others(union)) mentionClass(builder, identity(member, id)).parents.add(iri)
    }
  }
  for (const parent of found.parents) mentionClass(builder, identity(parent, id))
}

function isUsableClass(iri: string): boolean {
  return !isThing(iri) && !isLanguage(iri) && datatypeOf(iri) === undefined
}

/** The kinds of a property, as far as they are declared; undefined for a property that extraction cannot use. */
function kindsOf(iri: string, { graph }: GraphReading): PropertyKind[] | undefined {
  const own = graph.iris(iri, words.type)
  const is = (known: ReadonlySet<string>) => own.some((type) => known.has(type))
  const kinds: PropertyKind[] = [
    ...(is(types.relation) ? (['object'] as const) : []),
    ...(is(types.attribute) ? (['datatype'] as const) : []),
  ]
  if (kinds.length > 0 || is(types.property)) return kinds
  if (is(types.annotation)) return undefined
  const spoken = [words.domain, words.range, ...words.domainIncludes, ...words.rangeIncludes]
  return spoken.some((predicate) => graph.objects(iri, predicate).length > 0) ? [] : undefined
}

function readProperty(iri: string, said: readonly PropertyKind[], reading: GraphReading): void {
  const { graph, id, builder } = reading
  const domain = clausesAt(iri, { all: words.domain, any: words.domainIncludes }, reading)
  const range = clausesAt(iri, { all: words.range, any: words.rangeIncludes }, reading)
  const ends = range.flat()
  const literal = ends.some((end) => asDatatype(end, reading) !== undefined)
  const entity = ends.some((end) => asDatatype(end, reading) === undefined)
  // A property without a declared kind has the kinds that its range allows.
  const allowed: PropertyKind[] = [
    ...(entity || !literal ? (['object'] as const) : []),
    ...(literal || !entity ? (['datatype'] as const) : []),
  ]
  for (const kind of said.length > 0 ? said : allowed) {
    const property = declareProperty(builder, identity(iri, id), kind)
    describe(property, graph)
    property.domain.push(...classClauses(domain, reading))
    property.range.push(
      ...(kind === 'object' ? classClauses(range, reading) : datatypeClauses(range, reading)),
    )
    for (const parent of graph.iris(iri, words.superproperty))
      if (parent !== iri) property.parents.add(parent)
    for (const inverse of graph.iris(iri, words.inverse)) property.inverses.add(inverse)
    for (const end of [...property.domain, ...(kind === 'object' ? property.range : [])].flat())
      mentionClass(builder, identity(end, id))
    if (!allowed.includes(kind) && !ends.every(isThing))
      builder.notes.push(
        `${iri}: its range does not fit ${kind === 'object' ? 'a relation' : 'an attribute'}, and binds nobody`,
      )
  }
}

/** The clauses of all objects of one predicate, and one clause for the objects of the others. Unusable ones are counted. */
function clausesAt(
  iri: string,
  { all, any }: { all: string; any: readonly string[] },
  reading: GraphReading,
): Clause[] {
  const { graph } = reading
  const clauses: Clause[] = []
  for (const node of graph.objects(iri, all)) {
    const found = clausesOf(graph, node)
    if (found === undefined) reading.skipped++
    clauses.push(...(found ?? []))
  }
  const included = any.flatMap((predicate) => graph.iris(iri, predicate))
  return included.length > 0 ? [...clauses, included] : clauses
}

/** The part of clauses that is about entities. */
function classClauses(clauses: readonly Clause[], reading: GraphReading): Clause[] {
  return clauses
    .filter((clause) => !clause.some(isThing))
    .map((clause) => clause.filter((end) => asDatatype(end, reading) === undefined && !isLanguage(end)))
    .filter((clause) => clause.length > 0)
}

/** The part of clauses that is about values. */
function datatypeClauses(clauses: readonly Clause[], reading: GraphReading): Clause[] {
  return clauses
    .map((clause) =>
      clause.map((end) => asDatatype(end, reading)).filter((datatype) => datatype !== undefined),
    )
    .filter((clause) => clause.length > 0)
}

function asDatatype(iri: string, { datatypes }: GraphReading): string | undefined {
  return datatypeOf(iri) ?? (datatypes.has(iri) ? iri : undefined)
}

function describe(element: ElementBuilder, graph: Graph): void {
  const { iri, labels, comments, synonyms } = element
  for (const [predicates, texts] of [
    [words.label, labels],
    [words.comment, comments],
  ] as const)
    for (const predicate of predicates)
      for (const { termType, value, language = '' } of graph.objects(iri, predicate))
        if (termType === 'Literal' && value.trim() !== '') texts.push([language.toLowerCase(), value])
  for (const predicate of words.synonym)
    for (const { value } of graph.objects(iri, predicate)) synonyms.add(value)
  if (graph.objects(iri, words.deprecated).some(({ value }) => value === 'true')) element.deprecated = true
}

function identity(iri: string, ontology: string): Identity {
  return { iri, name: localName(iri), ontology }
}

/** The last part of an IRI, decoded. */
export function localName(iri: string): string {
  const name = /([^#/:]+)[#/]?$/.exec(iri)?.[1] ?? iri
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}
