// The triples of an ontology itself, in the default graph: its classes and properties, and how they are related.
import { iri, literal, type Triple, triple } from '../rdf/term.ts'
import { namespaces, owl, rdf, rdfs } from '../rdf/vocabulary.ts'
import { compare } from './builder.ts'
import { listElements } from './element-list.ts'
import type { Clause, Ontology, OntologyElement, OntologyProperty } from './ontology.ts'

/** Characters of a comment: it must fit a message. */
const maxComment = 50_000

/**
 * The triples of a whole ontology, in the order of its elements. A domain or range of several classes uses schema.org's `domainIncludes`
 * and `rangeIncludes`, since `rdfs:domain` would mean that all of them hold.
 */
export function schemaTriples(ontology: Ontology): Triple[] {
  return listElements(ontology).flatMap(({ kind, element }) =>
    kind === 'class'
      ? [
          ...described(element, owl.Class),
          ...element.parents.map((parent) => statement(element, rdfs.subClassOf, parent)),
          ...element.same
            .filter((same) => compare(element.iri, same) < 0)
            .map((same) => statement(element, `${namespaces.owl}equivalentClass`, same)),
        ]
      : [
          ...described(element, kind === 'object' ? owl.ObjectProperty : owl.DatatypeProperty),
          ...element.parents.map((parent) => statement(element, rdfs.subPropertyOf, parent)),
          ...element.domain.flatMap((clause) => end(element, 'domain', clause)),
          ...element.range.flatMap((clause) => end(element, 'range', clause)),
          ...element.inverses
            .filter((inverse) => compare(element.iri, inverse) <= 0)
            .map((inverse) => statement(element, owl.inverseOf, inverse)),
        ],
  )
}

function described(element: OntologyElement, type: string): Triple[] {
  const { label, comment } = element
  return [
    statement(element, rdf.type, type),
    ...(label === null ? [] : [triple(iri(element.iri), iri(rdfs.label), literal(label))]),
    ...(comment === null
      ? []
      : [triple(iri(element.iri), iri(rdfs.comment), literal(comment.slice(0, maxComment)))]),
  ]
}

function end(property: OntologyProperty, which: 'domain' | 'range', clause: Clause): Triple[] {
  const predicate = clause.length === 1 ? rdfs[which] : `${namespaces.schema}${which}Includes`
  return clause.map((each) => statement(property, predicate, each))
}

function statement({ iri: subject }: OntologyElement, predicate: string, object: string): Triple {
  return triple(iri(subject), iri(predicate), iri(object))
}
