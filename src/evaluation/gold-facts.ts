// From the facts of a gold file to facts that can be compared, each with the item that a model would have to write for it.
import { isObject } from '../is-object.ts'
import { literalOf } from '../ontology/literal.ts'
import { createNames } from '../ontology/names.ts'
import {
  type Clause,
  type Elements,
  type Ontology,
  type OntologyElement,
  type OntologyProperty,
  satisfies,
} from '../ontology/ontology.ts'
import { suggest } from '../prompt/catalogue/problem.ts'
import { readRow } from '../rows/row.ts'
import type { RowSchema } from '../rows/row-schema.ts'
import { type ComparedFact, type Kind, keys } from './facts.ts'
import { normalText } from './words.ts'

export interface GoldFact extends ComparedFact {
  /** The table, for rows. */
  readonly schema?: string
  /** What the prompts of the kind ask for. */
  readonly item: Readonly<Record<string, unknown>>
}

/** What gold facts may refer to. */
export interface GoldTerms {
  /** Undefined when no ontologies are configured. */
  readonly ontology: Ontology | undefined
  readonly rowSchemas: readonly RowSchema[]
}

/** What is wrong with a field of a fact. */
export class GoldFault extends Error {
  readonly field: string | undefined

  constructor(field: string | undefined, message: string) {
    super(message)
    this.field = field
  }
}

type Fields = Readonly<Record<string, unknown>>

/** Reads the facts of a kind, one by one. `entities` are those of the same document. */
export type GoldReader = (fact: unknown, entities: readonly GoldFact[]) => GoldFact

/** A reader for each kind. They throw `GoldFault`. */
export function createGoldReaders({ ontology, rowSchemas }: GoldTerms): { readonly [K in Kind]: GoldReader } {
  const names = ontology && createNames(ontology)
  const needed = (): { readonly ontology: Ontology; readonly names: NonNullable<typeof names> } => {
    if (ontology && names) return { ontology, names }
    throw new GoldFault(undefined, 'facts of an ontology need the files of the ontology in --ontologies')
  }
  return {
    definitions(fact) {
      const fields = fieldsOf(fact, ['entity', 'definition'])
      const [entity, definition] = [textOf(fields, 'entity'), textOf(fields, 'definition')]
      return { kind: 'definitions', key: keys.definitions(entity), definition, item: { entity, definition } }
    },
    relationships(fact) {
      const fields = fieldsOf(fact, ['subject', 'predicate', 'object'])
      const item = {
        subject: textOf(fields, 'subject'),
        predicate: textOf(fields, 'predicate'),
        object: textOf(fields, 'object'),
      }
      return {
        kind: 'relationships',
        key: keys.relationships(item.subject, item.predicate, item.object),
        item,
      }
    },
    topics(fact) {
      const topic = textOf(fieldsOf(fact, ['topic']), 'topic')
      return { kind: 'topics', key: keys.topics(topic), item: { topic, definition: topic } }
    },
    rows: (fact) => rowOf(fieldsOf(fact, ['schema', 'values']), rowSchemas),
    entities(fact) {
      const { ontology, names } = needed()
      const fields = fieldsOf(fact, ['entity', 'class'])
      const entity = textOf(fields, 'entity')
      const { iri, key } = elementOf(fields, 'class', names.classes, [ontology.classes])
      return {
        kind: 'entities',
        key: keys.entities(entity, iri),
        item: { type: 'entity', entity, entity_type: key },
      }
    },
    triples(fact, entities) {
      const { ontology, names } = needed()
      const fields = fieldsOf(fact, ['subject', 'relation', 'object'])
      const subject = textOf(fields, 'subject')
      const find = (written: string) => names.objectProperties(written) ?? names.datatypeProperties(written)
      const property = elementOf(fields, 'relation', find, [
        ontology.objectProperties,
        ontology.datatypeProperties,
      ])
      const typeOf = (name: string, clauses: readonly Clause[]) =>
        classOf(name, { clauses, entities, ontology })
      return property.kind === 'datatype'
        ? attributeOf(fields, { subject, property, subjectType: typeOf(subject, property.domain) })
        : relationOf(fields, { subject, property, typeOf })
    },
  }
}

function rowOf(fields: Fields, rowSchemas: readonly RowSchema[]): GoldFact {
  const name = textOf(fields, 'schema')
  const schema = rowSchemas.find((each) => each.name === name)
  if (!schema) {
    const known = rowSchemas.map((each) => each.name)
    throw new GoldFault(
      'schema',
      `no row schema in --schemas has the name ${JSON.stringify(name)}${suggest(name, known)}`,
    )
  }
  const { values } = fields
  if (!isObject(values)) throw new GoldFault('values', 'must be an object: values by field')
  const known = schema.fields.map((field) => field.name)
  refuseUnknown(values, known, 'values.')
  const read = readRow(values, schema)
  if ('refused' in read) throw new GoldFault('values', `is no row of ${name}: ${read.message}`)
  return { kind: 'rows', key: keys.rows(name, read.row.values), schema: name, item: values }
}

interface TripleEnd {
  readonly subject: string
  readonly property: OntologyProperty
}

function attributeOf(
  fields: Fields,
  { subject, property, subjectType }: TripleEnd & { readonly subjectType: string },
): GoldFact {
  const { object: value } = fields
  if (!['string', 'number', 'boolean'].includes(typeof value) || value === '')
    throw new GoldFault('object', 'must be a text, a number, true or false')
  const literal = literalOf(value as string | number | boolean, property.range)
  if (!literal) throw new GoldFault('object', `${JSON.stringify(value)} is no value of ${property.key}`)
  return {
    kind: 'triples',
    key: keys.triples(subject, property.iri, literal.value),
    item: { type: 'attribute', entity: subject, entity_type: subjectType, attribute: property.key, value },
  }
}

function relationOf(
  fields: Fields,
  {
    subject,
    property,
    typeOf,
  }: TripleEnd & { readonly typeOf: (name: string, clauses: readonly Clause[]) => string },
): GoldFact {
  const object = textOf(fields, 'object')
  return {
    kind: 'triples',
    key: keys.triples(subject, property.iri, object),
    item: {
      type: 'relationship',
      subject,
      subject_type: typeOf(subject, property.domain),
      relation: property.key,
      object,
      object_type: typeOf(object, property.range),
    },
  }
}

/** The first class that the property allows for an individual: among those that the document gives it, else among all. */
function classOf(
  name: string,
  {
    clauses,
    entities,
    ontology,
  }: {
    readonly clauses: readonly Clause[]
    readonly entities: readonly GoldFact[]
    readonly ontology: Ontology
  },
): string {
  const named = entities.filter(({ item }) => normalText(String(item['entity'])) === normalText(name))
  const given = named.map(({ item }) => String(item['entity_type']))
  const fitting = [...ontology.classes.values()].filter(({ iri }) => satisfies(ontology, iri, clauses))
  const found = fitting.find(({ key }) => given.includes(key)) ?? fitting[0]
  if (found) return found.key
  throw new GoldFault('relation', 'no class of the ontology can stand at an end of it')
}

function fieldsOf(fact: unknown, known: readonly string[]): Fields {
  if (!isObject(fact)) throw new GoldFault(undefined, `must be an object with ${known.join(', ')}`)
  refuseUnknown(fact, known)
  return fact
}

/** Throws `GoldFault` for an unknown key, so that a misspelt key does not become a missing fact. */
export function refuseUnknown(value: Fields, known: readonly string[], before = ''): void {
  const key = Object.keys(value).find((each) => !known.includes(each))
  if (key === undefined) return
  const advice = suggest(key, known) || `; there are: ${known.join(', ')}`
  throw new GoldFault(`${before}${key}`, `there is no such field${advice}`)
}

function textOf(fields: Fields, name: string): string {
  const value = fields[name]
  // The flow replaces half surrogate pairs in the same way.
  if (typeof value === 'string' && value.trim() !== '') return value.toWellFormed()
  throw new GoldFault(name, value === undefined ? 'is missing' : 'must be a text that is not blank')
}

function elementOf<E extends OntologyElement>(
  fields: Fields,
  field: string,
  find: (written: string) => E | undefined,
  among: readonly Elements<OntologyElement>[],
): E {
  const written = textOf(fields, field)
  const found = find(written)
  if (found) return found
  const known = among.flatMap((elements) => [...elements.values()].map(({ key }) => key))
  throw new GoldFault(
    field,
    `the ontologies have no ${field} ${JSON.stringify(written)}${suggest(written, known)}`,
  )
}
