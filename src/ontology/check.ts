// Checks a model's items against the whole ontology: each becomes a fact with the IRIs of its class or property, or is refused with a
// reason. Each item is judged by itself, so that it does not matter which reply part it is in.
import type {
  OntologyAttributeInit,
  OntologyEntityInit,
  OntologyRelationshipInit,
} from '../messages/generated.ts'
import { isDefinition } from '../rdf/facts.ts'
import { namespaces } from '../rdf/vocabulary.ts'
import { datatypeOf, shortIri } from './datatypes.ts'
import { literalOf } from './literal.ts'
import { createNames, fold, type Names } from './names.ts'
import {
  type Clause,
  type Ontology,
  type OntologyClass,
  type OntologyProperty,
  satisfies,
} from './ontology.ts'

export type OntologyItem = Readonly<Record<string, unknown>>

/** Why an item is not a fact. */
export type ItemRefusal =
  | 'unknown_type'
  | 'empty' // a field is missing, blank or not a text
  | 'too_long' // a name over 2,000 characters, a value over 100,000
  | 'unknown_class'
  | 'unknown_property'
  | 'literal' // a literal in place of an entity
  | 'domain'
  | 'range'
  | 'datatype'

export type Verdict =
  | { readonly to: 'ontology-entities'; readonly fact: OntologyEntityInit }
  | { readonly to: 'ontology-relationships'; readonly fact: OntologyRelationshipInit }
  | { readonly to: 'ontology-attributes'; readonly fact: OntologyAttributeInit }
  | { readonly refused: ItemRefusal; readonly message: string }

/** Judges one item. */
export type ItemCheck = (item: OntologyItem) => Verdict

/** Judges items of the types entity, relationship and attribute. Their keys may use `_` or `-`. */
export function createCheck(ontology: Ontology): ItemCheck {
  const known = { ontology, names: createNames(ontology) }
  return (item) => {
    try {
      const judge = judges.get(item['type'])
      if (!judge)
        throw new RefusedItem('unknown_type', 'Its type is none of entity, relationship and attribute.')
      return judge(item, known)
    } catch (thrown) {
      if (thrown instanceof RefusedItem) return { refused: thrown.reason, message: thrown.message }
      throw thrown
    }
  }
}

interface KnownOntology {
  readonly ontology: Ontology
  readonly names: ReturnType<typeof createNames>
}

/** By the type of the item. Each throws `RefusedItem`. */
const judges = new Map<unknown, (item: OntologyItem, known: KnownOntology) => Verdict>([
  ['entity', entity],
  ['relationship', relationship],
  ['attribute', attribute],
])

function entity(item: OntologyItem, { names }: KnownOntology): Verdict {
  const name = nameOf(item, 'entity')
  const type = classOf(item, 'entity_type', names)
  return { to: 'ontology-entities', fact: { entity: name, typeIri: type.iri } }
}

function relationship(item: OntologyItem, { ontology, names }: KnownOntology): Verdict {
  const [subject, object] = [nameOf(item, 'subject'), nameOf(item, 'object')]
  const relation = propertyOf(item, 'relation', names)
  const subjectType = classOf(item, 'subject_type', names)
  const objectType = classOf(item, 'object_type', names)
  requireEnd('domain', relation, subjectType, ontology)
  requireEnd('range', relation, objectType, ontology)
  return { to: 'ontology-relationships', fact: { subject, propertyIri: relation.iri, object } }
}

function attribute(item: OntologyItem, { ontology, names }: KnownOntology): Verdict {
  const name = nameOf(item, 'entity')
  const value = literalValue(item)
  const property = propertyOf(item, 'attribute', names)
  const type = classOf(item, 'entity_type', names)
  requireEnd('domain', property, type, ontology)
  const literal = literalOf(value, property.range)
  if (!literal) {
    const said = typeof value === 'string' ? JSON.stringify(short(value)) : String(value)
    const asked = property.range.map((clause) => clause.map(shortIri).join(' or ')).join(' and ')
    throw new RefusedItem('datatype', `${said} is no ${asked}, as ${property.key} asks for.`)
  }
  const ofDefinition = isDefinition(property.iri) && { typeIri: type.iri }
  return {
    to: 'ontology-attributes',
    fact: { entity: name, propertyIri: property.iri, ...literal, ...ofDefinition },
  }
}

/** Throws `RefusedItem` when a class does not satisfy the domain or range of a property. */
function requireEnd(
  side: 'domain' | 'range',
  property: OntologyProperty,
  type: OntologyClass,
  ontology: Ontology,
): void {
  if (satisfies(ontology, type.iri, property[side])) return
  const asked = property[side].map((clause) => clauseText(clause, ontology)).join(' and ')
  const verb = property.kind === 'datatype' ? 'belongs to' : side === 'domain' ? 'goes from' : 'goes to'
  throw new RefusedItem(side, `${property.key} ${verb} ${asked}, and ${type.key} is none.`)
}

/** The classes of a clause, for people. */
export function clauseText(clause: Clause, { classes }: Ontology): string {
  return clause.map((iri) => classes.get(iri)?.key ?? shortIri(iri)).join(' or ')
}

class RefusedItem extends Error {
  readonly reason: ItemRefusal

  constructor(reason: ItemRefusal, message: string) {
    super(message)
    this.reason = reason
  }
}

/** The longest name and the longest value, in characters, as in the other extractors. */
const maxName = 2000
const maxValue = 100_000

function field(item: OntologyItem, name: string): unknown {
  return item[name] ?? item[name.replaceAll('_', '-')]
}

function textOf(item: OntologyItem, name: string): string {
  const value = field(item, name)
  if (typeof value !== 'string' || value.trim() === '')
    throw new RefusedItem('empty', `Its ${name} is missing, blank or no text.`)
  if (value.length > maxName)
    throw new RefusedItem('too_long', `Its ${name} has more than ${maxName} characters.`)
  return value
}

function nameOf(item: OntologyItem, name: 'entity' | 'subject' | 'object'): string {
  const value = field(item, name)
  if (typeof value === 'number' || typeof value === 'boolean')
    throw new RefusedItem('literal', `Its ${name} is a value, and must be the name of an entity.`)
  return textOf(item, name)
}

function literalValue(item: OntologyItem): string | number | boolean {
  const value = field(item, 'value')
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))) return value
  if (typeof value !== 'string' || value.trim() === '')
    throw new RefusedItem('empty', 'Its value is missing, blank or neither text, number nor boolean.')
  if (value.length > maxValue)
    throw new RefusedItem('too_long', `Its value has more than ${maxValue} characters.`)
  return value
}

function classOf(item: OntologyItem, name: string, { classes }: Names): OntologyClass {
  const written = textOf(item, name)
  const found = classes(written)
  if (found) return found
  if (isDatatype(written))
    throw new RefusedItem('literal', `Its ${name} is ${written}, a datatype: an entity must have a class.`)
  throw new RefusedItem('unknown_class', `The ontology has no class ${JSON.stringify(short(written))}.`)
}

function propertyOf(item: OntologyItem, name: 'relation' | 'attribute', names: Names): OntologyProperty {
  const written = textOf(item, name)
  const wanted = name === 'relation' ? names.objectProperties : names.datatypeProperties
  const other = name === 'relation' ? names.datatypeProperties : names.objectProperties
  const found = wanted(written)
  if (found) return found
  const property = other(written)
  if (!property)
    throw new RefusedItem(
      'unknown_property',
      `The ontology has no ${name} ${JSON.stringify(short(written))}.`,
    )
  if (name === 'attribute')
    throw new RefusedItem('literal', `${property.key} leads to an entity, not to a value: it is a relation.`)
  throw new RefusedItem('range', `${property.key} leads to a value, not to an entity: it is an attribute.`)
}

function isDatatype(written: string): boolean {
  const name = written.replace(/^xsd:/, namespaces.xsd)
  return (
    datatypeOf(name) !== undefined ||
    [
      'string',
      'integer',
      'number',
      'boolean',
      'date',
      'datetime',
      'literal',
      'float',
      'double',
      'decimal',
    ].includes(fold(written))
  )
}

function short(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}
