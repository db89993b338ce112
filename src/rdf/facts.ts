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

/** How many contexts fit a message: as many as TrustGraph's. */
export const contextLimits = {
  maxItems: 5,
  maxSize: 150_000,
  sizeOf: ({ entity, context }: EntityContext) => (entity.iri?.length ?? 0) + context.length,
}

/** Of an individual whose context is not made of the whole reply. */
export function ontologyEntityContexts(
  fact: Pick<OntologyEntity, 'entity' | 'typeIri'> & Partial<OntologyEntity>,
  chunkId: string,
): EntityContext[] {
  const attributes = (fact.definitions ?? []).map((value) => ({
    ...fact,
    propertyIri: skos.definition,
    value,
  }))
  return fact.isInContext ? [] : individualContexts([fact], attributes, chunkId)
}

/** The value, when it is a definition that no other context has. */
export function ontologyAttributeContexts(
  fact: Pick<OntologyAttribute, 'entity' | 'propertyIri' | 'value'> & Partial<OntologyAttribute>,
  chunkId: string,
): EntityContext[] {
  return fact.isInContext ? [] : individualContexts([], [fact], chunkId)
}

/** Characters of the definitions in a context; others have contexts of their own. */
const maxDefinitions = 50_000

/** One context for each individual, as TrustGraph's: `Label: <name>. <definition>. <definition>`, with its classes. */
export function individualContexts(
  entities: readonly Pick<OntologyEntity, 'entity' | 'typeIri'>[],
  attributes: readonly Pick<OntologyAttribute, 'entity' | 'propertyIri' | 'value'>[],
  chunkId: string,
): EntityContext[] {
  const individuals = new Map<string, { texts: Set<string>; types: Set<string>; length: number }>()
  const individual = (entity: string) => {
    const key = entityIri(entity)
    const known = individuals.get(key) ?? { texts: new Set(), types: new Set(), length: 0 }
    individuals.set(key, known)
    return known
  }
  for (const { entity, typeIri } of entities) {
    const { texts, types } = individual(entity)
    if (texts.size === 0) texts.add(`Label: ${entity}`)
    types.add(safeIri(typeIri))
  }
  const apart: EntityContext[] = []
  for (const { entity, propertyIri, value } of attributes) {
    if (!isDefinition(propertyIri)) continue
    const known = individual(entity)
    if (known.length + value.length > maxDefinitions) apart.push(context(named(entity), value, chunkId))
    else if (!known.texts.has(value)) {
      known.texts.add(value)
      known.length += value.length
    }
  }
  const joined = [...individuals].filter(([, { texts }]) => texts.size > 0)
  return [
    ...joined.map(([key, { texts, types }]) => ({
      ...context(iri(key), [...texts].join('. '), chunkId),
      rdfType: [...types],
    })),
    ...apart,
  ]
}

/** Contexts of the classes and properties of an ontology that have a label, from its own triples; `before` are those before them. */
export function ontologyContexts(triples: readonly Triple[], before: readonly Triple[]): EntityContext[] {
  const typed = [...before.slice(-1), ...triples].filter(({ p }) => p.iri === rdf.type)
  const types = new Map(typed.map(({ s, o }) => [s.iri, [o.iri!]]))
  return triples
    .filter(({ p }) => p.iri === rdfs.label)
    .map(({ s, o }) => ({ ...context(s, `Label: ${o.value}`, ''), rdfType: types.get(s.iri) ?? [] }))
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
