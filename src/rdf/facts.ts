// Turns facts into triples in the default graph, in TrustGraph's order, and into entity contexts (texts for embeddings). Every name
// becomes an IRI by one rule, `entityIri`, so that the facts of different extractors about an entity join.

import type {
  Definition,
  EntityContext,
  OntologyAttribute,
  OntologyEntity,
  OntologyRelationship,
  Relationship,
  Topic,
} from '../messages/generated.ts'
import { entityIri, safeIri } from './iri.ts'
import { iri, literal, type Term, type Triple, triple } from './term.ts'
import { rdf, rdfs, schema, skos } from './vocabulary.ts'

/** A fact without what its triples do not depend on: its place in the text, and what its entity context has. */
type Stated<F> = Omit<F, 'grounding' | 'definitions' | 'isInContext'>

/** The triples of a fact. */
export interface FactTriples {
  /** All triples, in the order in which they are published. */
  readonly triples: readonly Triple[]
  /** The triples that provenance quotes: what was found in the text. For the first three kinds of fact they exclude labels. */
  readonly stated: readonly Triple[]
}

const type = iri(rdf.type)
const label = iri(rdfs.label)
const definition = iri(skos.definition)

/** (E rdfs:label entity), (E skos:definition definition). */
export function definitionTriples(fact: Stated<Definition>): FactTriples {
  return described(fact.entity, fact.definition)
}

/** (T rdfs:label topic), (T skos:definition definition). */
export function topicTriples(fact: Stated<Topic>): FactTriples {
  return described(fact.topic, fact.definition)
}

/** (S P O), and the labels of S, P and O. When O is not an entity it is a literal without datatype, and has no label. */
export function relationshipTriples(fact: Stated<Relationship>): FactTriples {
  const subject = named(fact.subject)
  const predicate = named(fact.predicate)
  const object = fact.objectEntity ? named(fact.object) : literal(fact.object)
  const stated = triple(subject, predicate, object)
  const triples = [stated, labelled(subject, fact.subject), labelled(predicate, fact.predicate)]
  if (fact.objectEntity) triples.push(labelled(object, fact.object))
  return { triples, stated: [stated] }
}

/** (E rdf:type class), (E rdfs:label entity). */
export function ontologyEntityTriples(fact: Stated<OntologyEntity>): FactTriples {
  const entity = named(fact.entity)
  return content([triple(entity, type, iri(safeIri(fact.typeIri))), labelled(entity, fact.entity)])
}

/** (S property O). */
export function ontologyRelationshipTriples(fact: Stated<OntologyRelationship>): FactTriples {
  return content([triple(named(fact.subject), iri(safeIri(fact.propertyIri)), named(fact.object))])
}

/** (E property "value"^^datatype). */
export function ontologyAttributeTriples(fact: Omit<Stated<OntologyAttribute>, 'typeIri'>): FactTriples {
  const datatype = fact.datatype === null ? null : safeIri(fact.datatype)
  const value = literal(fact.value, { datatype })
  return content([triple(named(fact.entity), iri(safeIri(fact.propertyIri)), value)])
}

/** Two contexts: the entity's name, and its definition. */
export function definitionContexts(fact: Stated<Definition>, chunkId: string): EntityContext[] {
  const entity = named(fact.entity)
  return [context(entity, fact.entity, chunkId), context(entity, fact.definition, chunkId)]
}

/** One context, as TrustGraph's: `Label: <name>. <definition>. <definition>`, with the class of the entity. */
export function ontologyEntityContexts(
  fact: Pick<OntologyEntity, 'entity' | 'typeIri'> & Partial<OntologyEntity>,
  chunkId: string,
): EntityContext[] {
  const text = [`Label: ${fact.entity}`, ...(fact.definitions ?? [])].join('. ')
  return [{ ...context(named(fact.entity), text, chunkId), rdfType: [safeIri(fact.typeIri)] }]
}

/** The value, when the property describes the entity and the entity's own context does not have it; otherwise none. */
export function ontologyAttributeContexts(
  fact: Pick<OntologyAttribute, 'entity' | 'propertyIri' | 'value'> & Partial<OntologyAttribute>,
  chunkId: string,
): EntityContext[] {
  const { entity, propertyIri, value, typeIri, isInContext } = fact
  if (!isDefinition(propertyIri) || isInContext) return []
  if (!typeIri) return [context(named(entity), value, chunkId)]
  return ontologyEntityContexts({ entity, typeIri, definitions: [value] }, chunkId)
}

/** Contexts of the classes and properties of an ontology that have a label, from its own triples; `before` are those before them. */
export function ontologyContexts(triples: readonly Triple[], before: readonly Triple[]): EntityContext[] {
  const typed = [...before.slice(-1), ...triples].filter(({ p }) => p.iri === rdf.type)
  const types = new Map(typed.map(({ s, o }) => [s.iri, [o.iri!]]))
  return triples
    .filter(({ p }) => p.iri === rdfs.label)
    .map(({ s, o }) => ({ ...context(s, `Label: ${o.value}`, ''), rdfType: types.get(s.iri) ?? [] }))
}

/** Characters of an entity's definitions: its fact must fit a message beside others. */
const maxDefinitions = 50_000

/**
 * Gives the entities of a reply part the definitions in the same part: each to the first fact of its entity. In a later part, the first
 * of the other definitions of an entity stands for the entity, which came before.
 */
export function withDefinitions<E extends { readonly entity: string }, A extends DefiningFact>(
  entities: readonly E[],
  attributes: readonly A[],
  { isLater = false }: { readonly isLater?: boolean } = {},
) {
  const definitions = new Map<string, string[]>(entities.map(({ entity }) => [entityIri(entity), []]))
  const labelled = new Set(definitions.keys())
  const joined = attributes.map((fact) => {
    if (!isDefinition(fact.propertyIri)) return fact
    const key = entityIri(fact.entity)
    const list = definitions.get(key)
    const length = list?.reduce((sum, value) => sum + value.length, fact.value.length) ?? 0
    const isInContext = list !== undefined && length <= maxDefinitions
    if (isInContext && !list.includes(fact.value)) list.push(fact.value)
    const isFirst = isLater && !labelled.has(key)
    labelled.add(key)
    return { ...fact, isInContext, typeIri: isFirst ? (fact.typeIri ?? null) : null }
  })
  const described = entities.map((fact) => {
    const key = entityIri(fact.entity)
    const own = definitions.get(key) ?? []
    definitions.delete(key)
    return { ...fact, definitions: own }
  })
  return { entities: described, attributes: joined }
}

type DefiningFact = Pick<OntologyAttribute, 'entity' | 'propertyIri' | 'value'> & {
  readonly typeIri?: string | null | undefined
}

/** Whether the values of a property are definitions of their entity. */
export function isDefinition(propertyIri: string): boolean {
  return propertyIri === skos.definition || propertyIri === schema.description
}

function described(name: string, text: string): FactTriples {
  const entity = named(name)
  const stated = triple(entity, definition, literal(text))
  return { triples: [labelled(entity, name), stated], stated: [stated] }
}

/** As in TrustGraph's ontology extractor, provenance quotes all triples. */
function content(triples: readonly Triple[]): FactTriples {
  return { triples, stated: triples }
}

function named(name: string): Term {
  return iri(entityIri(name))
}

function labelled(entity: Term, name: string): Triple {
  return triple(entity, label, literal(name))
}

function context(entity: Term, text: string, chunkId: string): EntityContext {
  return { entity, context: text.toWellFormed(), chunkId, rdfType: [], attributes: {} }
}
