// The kinds of facts that are scored, and what makes two facts of a kind equal. Facts come from messages here, and from gold files in
// `gold.ts`; both are compared by the same keys.
import type { AnyProcessor } from '../flow/processor.ts'
import type { Message } from '../messages/envelope.ts'
import type { Grounding } from '../messages/generated.ts'
import type { RowSchema } from '../rows/row-schema.ts'
import { normalText } from './words.ts'

/** The kinds by the extractor that finds them, by default. */
export const kindExtractors = {
  definitions: 'definitions',
  relationships: 'relationships',
  topics: 'topics',
  rows: 'rows',
  entities: 'ontology',
  triples: 'ontology',
} as const

export type Kind = keyof typeof kindExtractors

export const kinds = Object.keys(kindExtractors) as Kind[]

/** The kind of the facts on a port; relations and attributes of an ontology are both triples. */
const portKinds = {
  definitions: 'definitions',
  relationships: 'relationships',
  topics: 'topics',
  rows: 'rows',
  'ontology-entities': 'entities',
  'ontology-relationships': 'triples',
  'ontology-attributes': 'triples',
} as const satisfies Record<string, Kind>

export type FactPort = keyof typeof portKinds

export type FactMessage = Message<
  | 'Definitions'
  | 'Relationships'
  | 'Topics'
  | 'Rows'
  | 'OntologyEntities'
  | 'OntologyRelationships'
  | 'OntologyAttributes'
>

/** The ports on which processors publish facts. */
export function factPorts(processors: readonly AnyProcessor[]): FactPort[] {
  const outputs = new Set<string>(processors.flatMap(({ outputs }) => outputs))
  return (Object.keys(portKinds) as FactPort[]).filter((port) => outputs.has(port))
}

export const kindOfPort = (port: FactPort): Kind => portKinds[port]

/** The parts of a fact that are compared. */
export interface ComparedFact {
  readonly kind: Kind
  /** The same for facts that are equal. */
  readonly key: string
  /** Only of definitions, which are compared by their words. */
  readonly definition?: string
}

/** A fact that was extracted. */
export interface FoundFact extends ComparedFact {
  /** The names that should stand in the text. */
  readonly subjects: readonly string[]
  readonly objects: readonly string[]
  /** Whether it stands in its chunk; null when it was not looked for. */
  readonly isGrounded: boolean | null
}

const keyOf = (...texts: readonly string[]) => JSON.stringify(texts)

/** What makes facts of a kind equal. Classes and properties are IRIs; values are as the extractor writes them. */
export const keys = {
  definitions: (entity: string) => keyOf(normalText(entity)),
  relationships: (subject: string, predicate: string, object: string) =>
    keyOf(normalText(subject), normalText(predicate), normalText(object)),
  topics: (topic: string) => keyOf(normalText(topic)),
  rows: (schema: string, values: Readonly<Record<string, string>>) =>
    keyOf(
      schema,
      ...Object.entries(values)
        .filter(([, value]) => value !== '')
        .map(([name, value]) => keyOf(name, normalText(value)))
        .sort(),
    ),
  entities: (entity: string, classIri: string) => keyOf(normalText(entity), classIri),
  triples: (subject: string, propertyIri: string, object: string) =>
    keyOf(normalText(subject), propertyIri, normalText(object)),
} as const satisfies Record<Kind, (...parts: never[]) => string>

/** The facts of a message. The names of a row are its texts, apart from those of a fixed list. */
export function foundFacts({ type, payload }: FactMessage, rowSchemas: readonly RowSchema[]): FoundFact[] {
  switch (type) {
    case 'Definitions':
      return payload.facts.map(({ entity, definition, grounding }) => ({
        kind: 'definitions',
        key: keys.definitions(entity),
        definition,
        ...found(grounding, [entity]),
      }))
    case 'Relationships':
      return payload.facts.map(({ subject, predicate, object, grounding }) => ({
        kind: 'relationships',
        key: keys.relationships(subject, predicate, object),
        ...found(grounding, [subject], [object]),
      }))
    case 'Topics':
      // A topic need not be a phrase of the text.
      return payload.facts.map(({ topic, grounding }) => ({
        kind: 'topics',
        key: keys.topics(topic),
        ...found(grounding, []),
      }))
    case 'Rows':
      return payload.values.map((values, n) => ({
        kind: 'rows',
        key: keys.rows(payload.schemaName, values),
        ...found(payload.groundings[n] ?? null, [], namesOfRow(values, payload.schemaName, rowSchemas)),
      }))
    case 'OntologyEntities':
      return payload.facts.map(({ entity, typeIri, grounding }) => ({
        kind: 'entities',
        key: keys.entities(entity, typeIri),
        ...found(grounding, [entity]),
      }))
    case 'OntologyRelationships':
      return payload.facts.map(({ subject, propertyIri, object, grounding }) => ({
        kind: 'triples',
        key: keys.triples(subject, propertyIri, object),
        ...found(grounding, [subject], [object]),
      }))
    case 'OntologyAttributes':
      // Dates and numbers are written differently in texts; plain texts are not.
      return payload.facts.map(({ entity, propertyIri, value, datatype, grounding }) => ({
        kind: 'triples',
        key: keys.triples(entity, propertyIri, value),
        ...found(grounding, [entity], datatype === null ? [value] : []),
      }))
    default:
      return type satisfies never
  }
}

const found = (
  grounding: Grounding | null,
  subjects: readonly string[],
  objects: readonly string[] = [],
) => ({ subjects, objects, isGrounded: grounding && grounding.status !== 'ungrounded' })

function namesOfRow(
  values: Readonly<Record<string, string>>,
  schemaName: string,
  rowSchemas: readonly RowSchema[],
): string[] {
  const schema = rowSchemas.find(({ name }) => name === schemaName)
  return (schema?.fields ?? [])
    .filter((field) => field.kind === 'text' && field.enum.length === 0)
    .flatMap(({ name }) => values[name] ?? [])
}
