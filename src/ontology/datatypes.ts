// The IRIs that stand for literals: the datatypes of XML Schema, RDF, OWL and schema.org.
import { namespaces, rdf, xsd } from '../rdf/vocabulary.ts'

/** The datatype of any literal, whatever its form. */
const anyLiteral = new Set([
  `${namespaces.rdfs}Literal`,
  `${rdf.type.slice(0, -4)}PlainLiteral`,
  rdf.langString,
  rdf.dirLangString,
])

/** schema.org's data types, which are classes there. */
const schemaOrg: Readonly<Record<string, string>> = {
  Text: xsd.string,
  CssSelectorType: xsd.string,
  XPathType: xsd.string,
  PronounceableText: xsd.string,
  URL: `${namespaces.xsd}anyURI`,
  Boolean: xsd.boolean,
  Date: `${namespaces.xsd}date`,
  DateTime: xsd.dateTime,
  Time: `${namespaces.xsd}time`,
  Number: xsd.decimal,
  Integer: xsd.integer,
  Float: xsd.double,
  DataType: `${namespaces.rdfs}Literal`,
}

/** The datatype of an IRI; undefined when the IRI alone does not show that it is one. */
export function datatypeOf(iri: string): string | undefined {
  if (iri.startsWith(namespaces.xsd) || anyLiteral.has(iri)) return iri
  if (
    /^http:\/\/www\.w3\.org\/(?:2002\/07\/owl#(?:real|rational)|1999\/02\/22-rdf-syntax-ns#(?:XMLLiteral|HTML|JSON))$/.test(
      iri,
    )
  )
    return iri
  const name = /^https?:\/\/schema\.org\/(\w+)$/.exec(iri)?.[1]
  return name !== undefined && Object.hasOwn(schemaOrg, name) ? schemaOrg[name] : undefined
}

/** Whether every literal is one of this datatype. */
export function isAnyLiteral(datatype: string): boolean {
  return anyLiteral.has(datatype)
}

/** `xsd:date` for an IRI of XML Schema; other IRIs unchanged. */
export function shortIri(iri: string): string {
  return iri.startsWith(namespaces.xsd) ? `xsd:${iri.slice(namespaces.xsd.length)}` : iri
}
