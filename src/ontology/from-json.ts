// Reads TrustGraph's JSON form into a builder: `{classes, objectProperties, datatypeProperties}` with elements by id, or several of these
// by ontology id. Elements refer to each other by id. An element without `uri` gets one.
import { isObject } from '../is-object.ts'
import { suggest } from '../prompt/catalogue/problem.ts'
import { quote, safeIri } from '../rdf/iri.ts'
import { namespaces } from '../rdf/vocabulary.ts'
import {
  declareClass,
  declareProperty,
  type ElementBuilder,
  type Identity,
  mentionClass,
  type OntologyBuilder,
} from './builder.ts'
import { datatypeOf } from './datatypes.ts'
import { localName } from './from-rdf.ts'
import { isKnownDatatype } from './literal.ts'
import { isThing } from './rdf-words.ts'

type Json = Readonly<Record<string, unknown>>

/** Notes a problem at a path of keys. */
export type ReportProblem = (path: readonly string[], message: string) => void

const parts = ['classes', 'objectProperties', 'datatypeProperties'] as const
type OntologySection = (typeof parts)[number]

/** One ontology of a file. */
export interface JsonOntology {
  readonly id: string
  readonly value: Json
  readonly path: readonly string[]
}

/** The ontologies of a file's value. When there is just one, `fallback` is its id. */
export function ontologiesOf(value: unknown, fallback: string, report: ReportProblem): JsonOntology[] {
  if (!isObject(value)) {
    report([], 'must be an object: an ontology, or ontologies by id')
    return []
  }
  if (parts.some((part) => part in value)) return [{ id: fallback, value, path: [] }]
  const found: JsonOntology[] = []
  for (const [key, given] of Object.entries(value)) {
    const id = key.trim().replace(/\s+/g, '-')
    const each = typeof given === 'string' ? decoded(given) : given
    if (isObject(each) && parts.some((part) => part in each)) found.push({ id, value: each, path: [key] })
    else report([key], `must be an ontology: an object with ${parts.join(', ')}`)
  }
  if (found.length === 0 && Object.keys(value).length === 0) report([], 'holds no ontology')
  return found
}

/** An element of the file, and its path. */
interface ElementEntry extends Identity {
  readonly json: Json
  readonly path: readonly string[]
}

/** Adds an ontology to the builder. */
export function readTrustGraph(
  ontology: JsonOntology,
  builder: OntologyBuilder,
  report: ReportProblem,
): void {
  const entries = {
    classes: entriesOf(ontology, 'classes', report),
    objectProperties: entriesOf(ontology, 'objectProperties', report),
    datatypeProperties: entriesOf(ontology, 'datatypeProperties', report),
  }

  /** The IRIs of the elements that a field names, by id or IRI. An unknown id is a problem. */
  function named(part: OntologySection, { json, path, iri: own }: ElementEntry, field: string): string[] {
    const known = entries[part]
    return textsAt(json, path, field, report).flatMap((reference) => {
      const iri = known.get(reference)?.iri ?? (isAbsoluteIri(reference) ? safeIri(reference) : undefined)
      if (iri === own || /^(?:owl:Thing|rdfs:Resource)$/.test(reference) || (iri && isThing(iri))) return []
      if (iri !== undefined) return [iri]
      const what = part === 'classes' ? 'class' : 'property'
      report(
        [...path, field],
        `there is no ${what} ${JSON.stringify(reference)}${suggest(reference, [...known.keys()])}`,
      )
      return []
    })
  }

  function classesAt(entry: ElementEntry, field: string): string[] {
    const iris = named('classes', entry, field)
    for (const iri of iris) mentionClass(builder, { iri, name: localName(iri), ontology: ontology.id })
    return iris
  }

  for (const entry of entries.classes.values()) describe(declareClass(builder, entry), entry, report)
  for (const entry of entries.classes.values()) {
    const { parents, same } = mentionClass(builder, entry)
    for (const parent of classesAt(entry, 'rdfs:subClassOf')) parents.add(parent)
    for (const other of classesAt(entry, 'owl:equivalentClass')) {
      same.add(other)
      builder.classes.get(other)?.same.add(entry.iri)
    }
  }
  for (const [part, kind] of [
    ['objectProperties', 'object'],
    ['datatypeProperties', 'datatype'],
  ] as const)
    for (const entry of entries[part].values()) {
      const property = declareProperty(builder, entry, kind)
      describe(property, entry, report)
      // When there are several classes or datatypes, any one is enough.
      const domain = classesAt(entry, 'rdfs:domain')
      const range =
        kind === 'object' ? classesAt(entry, 'rdfs:range') : datatypesAt(entry, 'rdfs:range', report)
      if (domain.length > 0) property.domain.push(domain)
      if (range.length > 0) property.range.push(range)
      for (const parent of named(part, entry, 'rdfs:subPropertyOf')) property.parents.add(parent)
      for (const inverse of named(part, entry, 'owl:inverseOf')) property.inverses.add(inverse)
    }
}

/** The elements of one section of an ontology, by id. */
function entriesOf(
  { id, value, path }: JsonOntology,
  part: OntologySection,
  report: ReportProblem,
): ReadonlyMap<string, ElementEntry> {
  const entries = new Map<string, ElementEntry>()
  const elements = value[part] ?? {}
  if (!isObject(elements)) {
    report([...path, part], 'must be an object of elements by id')
    return entries
  }
  for (const [key, json] of Object.entries(elements)) {
    const at = [...path, part, key]
    if (key.trim() === '') report(at, 'an element has an empty id')
    else if (!isObject(json)) report(at, 'must be an object')
    else entries.set(key, { iri: iriOf(json['uri']), name: key, ontology: id, json, path: at })

    function iriOf(uri: unknown): string {
      if (typeof uri === 'string' && isAbsoluteIri(uri)) return safeIri(uri)
      if (uri !== undefined && uri !== null && uri !== '') report([...at, 'uri'], 'must be an absolute IRI')
      return `https://trustgraph.ai/ontology/${quote(id)}#${quote(key)}`
    }
  }
  return entries
}

/** The datatypes that a field names: `xsd:date`, `date`, or an IRI. */
function datatypesAt({ json, path }: ElementEntry, field: string, report: ReportProblem): string[] {
  return textsAt(json, path, field, report).flatMap((reference) => {
    const [, prefix = 'xsd', name] = /^(?:(xsd|rdf|rdfs|owl):)?(\w+)$/.exec(reference) ?? []
    const iri = name === undefined ? reference : namespaces[prefix as 'xsd' | 'rdf' | 'rdfs' | 'owl'] + name
    const datatype = datatypeOf(iri) ?? (name === undefined && isAbsoluteIri(iri) ? safeIri(iri) : undefined)
    if (datatype !== undefined && isKnownDatatype(datatype)) return [datatype]
    report([...path, field], `there is no datatype ${JSON.stringify(reference)}`)
    return []
  })
}

function isAbsoluteIri(text: string): boolean {
  return /^(?:[A-Za-z][A-Za-z0-9+.-]*:\/\/|urn:|tag:)[^\s<>]+$/.test(text)
}

function describe(element: ElementBuilder, { json, path }: ElementEntry, report: ReportProblem): void {
  for (const [field, texts] of [
    ['rdfs:label', element.labels],
    ['rdfs:comment', element.comments],
  ] as const)
    for (const given of listOf(json[field])) {
      if (typeof given === 'string') texts.push(['', given])
      else if (isObject(given) && typeof given['value'] === 'string')
        texts.push([typeof given['lang'] === 'string' ? given['lang'].toLowerCase() : '', given['value']])
      else report([...path, field], 'must be a text, or a list of texts or of {value, lang}')
    }
}

function textsAt(json: Json, path: readonly string[], field: string, report: ReportProblem): string[] {
  return listOf(json[field]).flatMap((each) => {
    if (typeof each === 'string' && each.trim() !== '') return [each.trim()]
    if (each !== '') report([...path, field], 'must be a text, or a list of texts')
    return []
  })
}

function listOf(given: unknown): readonly unknown[] {
  return given === undefined || given === null ? [] : Array.isArray(given) ? given : [given]
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
