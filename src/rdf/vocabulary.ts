// The IRIs of foreign vocabularies that graphmill writes, by namespace. The names are TrustGraph's.

/** Namespaces by the prefix that TrustGraph, PROV-O and Dublin Core give them. */
export const namespaces = {
  e: 'http://trustgraph.ai/e/',
  tg: 'https://trustgraph.ai/ns/',
  rdf: 'http://www.w3.org/1999/02/22-rdf-syntax-ns#',
  rdfs: 'http://www.w3.org/2000/01/rdf-schema#',
  owl: 'http://www.w3.org/2002/07/owl#',
  xsd: 'http://www.w3.org/2001/XMLSchema#',
  skos: 'http://www.w3.org/2004/02/skos/core#',
  prov: 'http://www.w3.org/ns/prov#',
  dc: 'http://purl.org/dc/elements/1.1/',
  schema: 'https://schema.org/',
  oa: 'http://www.w3.org/ns/oa#',
} as const

/** The named graph of provenance. Facts are in the default graph. */
export const sourceGraph = 'urn:graph:source'

export const rdf = terms(namespaces.rdf, [
  'type',
  'Statement',
  'subject',
  'predicate',
  'object',
  'langString',
  'dirLangString',
])

export const rdfs = terms(namespaces.rdfs, [
  'label',
  'comment',
  'subClassOf',
  'subPropertyOf',
  'domain',
  'range',
])

export const owl = terms(namespaces.owl, [
  'Ontology',
  'Class',
  'ObjectProperty',
  'DatatypeProperty',
  'inverseOf',
])

export const xsd = terms(namespaces.xsd, [
  'string',
  'boolean',
  'integer',
  'decimal',
  'double',
  'dateTime',
  'nonNegativeInteger',
])

export const skos = terms(namespaces.skos, ['definition'])

export const schema = terms(namespaces.schema, ['description'])

export const prov = terms(namespaces.prov, [
  'Entity',
  'Activity',
  'Agent',
  'wasDerivedFrom',
  'wasGeneratedBy',
  'used',
  'wasAssociatedWith',
  'startedAtTime',
])

export const dc = terms(namespaces.dc, ['title', 'source'])

/** Web Annotation. */
export const oa = terms(namespaces.oa, [
  'Annotation',
  'hasBody',
  'hasTarget',
  'SpecificResource',
  'hasSource',
  'hasSelector',
  'TextPositionSelector',
  'TextQuoteSelector',
  'start',
  'end',
  'exact',
])

/** TrustGraph's own terms. graphmill adds `partIndex`, for documents that are loaded in parts, `grounding`, `codePointOffset` and `pageOffset`. */
export const tg = terms(namespaces.tg, [
  'Document',
  'Chunk',
  'Subgraph',
  'contains',
  'componentVersion',
  'llmModel',
  'ontology',
  'mimeType',
  'partIndex',
  'chunkIndex',
  'charOffset',
  'codePointOffset',
  'charLength',
  'pageNumber',
  'pageOffset',
  'chunkSize',
  'chunkOverlap',
  'grounding',
])

function terms<const Name extends string>(
  namespace: string,
  names: readonly Name[],
): Readonly<Record<Name, string>> {
  return Object.fromEntries(names.map((name) => [name, namespace + name])) as Record<Name, string>
}
