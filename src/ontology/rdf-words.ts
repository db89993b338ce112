// The terms of RDFS, OWL, SKOS and schema.org that describe classes and properties in an RDF file.
import { namespaces, owl, rdf, rdfs, skos } from '../rdf/vocabulary.ts'

const owlNames = <const N extends string>(names: readonly N[]) => names.map((name) => namespaces.owl + name)
/** schema.org's terms are written with http and with https. */
const schemaOrg = (name: string) => [`http://schema.org/${name}`, `https://schema.org/${name}`]
const rdfNamespace = 'http://www.w3.org/1999/02/22-rdf-syntax-ns#'

/** Types, by what they make of their subject. */
export const types = {
  class: new Set<string>([owl.Class, `${namespaces.rdfs}Class`]),
  datatype: new Set([`${namespaces.rdfs}Datatype`, ...schemaOrg('DataType')]),
  relation: new Set([
    owl.ObjectProperty,
    ...owlNames([
      'InverseFunctionalProperty',
      'TransitiveProperty',
      'SymmetricProperty',
      'AsymmetricProperty',
      'ReflexiveProperty',
      'IrreflexiveProperty',
    ]),
  ]),
  attribute: new Set<string>([owl.DatatypeProperty]),
  /** Of either kind. */
  property: new Set([`${rdfNamespace}Property`, ...owlNames(['FunctionalProperty'])]),
  annotation: new Set(owlNames(['AnnotationProperty'])),
}

/** Predicates, by what they say of their subject. */
export const words = {
  label: [rdfs.label, `${namespaces.skos}prefLabel`],
  comment: [
    rdfs.comment,
    skos.definition,
    'http://purl.org/dc/terms/description',
    'http://purl.obolibrary.org/obo/IAO_0000115', // "definition" of the biomedical ontologies
    ...schemaOrg('description'),
  ],
  synonym: [
    `${namespaces.skos}altLabel`,
    'http://www.geneontology.org/formats/oboInOwl#hasExactSynonym',
    ...schemaOrg('alternateName'),
  ],
  type: rdf.type,
  parent: rdfs.subClassOf,
  same: `${namespaces.owl}equivalentClass`,
  superproperty: rdfs.subPropertyOf,
  inverse: owl.inverseOf,
  domain: rdfs.domain,
  range: rdfs.range,
  /** Any one of the objects is enough. */
  domainIncludes: schemaOrg('domainIncludes'),
  rangeIncludes: schemaOrg('rangeIncludes'),
  union: `${namespaces.owl}unionOf`,
  intersection: `${namespaces.owl}intersectionOf`,
  /** The datatype that a restricted one narrows. */
  narrowed: `${namespaces.owl}onDatatype`,
  deprecated: `${namespaces.owl}deprecated`,
  imports: `${namespaces.owl}imports`,
}

const things = new Set([`${namespaces.owl}Thing`, `${namespaces.rdfs}Resource`, ...schemaOrg('Thing')])

/** The class of everything, which restricts nothing. */
export function isThing(iri: string): boolean {
  return things.has(iri)
}

/** A term of the languages themselves, which is not a class of an ontology. */
export function isLanguage(iri: string): boolean {
  return [namespaces.owl, namespaces.rdfs, rdfNamespace].some((namespace) => iri.startsWith(namespace))
}
