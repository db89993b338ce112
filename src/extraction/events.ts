// What an extraction yields, and the processor at the end of its flow that makes events of messages.

import type { SkippedFile } from '../documents/files.ts'
import type { GraphmillError } from '../errors.ts'
import { type FactMessage, factPorts } from '../evaluation/facts.ts'
import type { MessageOf } from '../flow/ports.ts'
import { type AnyProcessor, defineProcessor } from '../flow/processor.ts'
import type {
  Definition,
  Grounding,
  OntologyAttribute,
  OntologyEntity,
  OntologyRelationship,
  Rejection,
  Relationship,
  Topic,
  Triple,
} from '../messages/generated.ts'
import { rowValues } from '../rows/row-text.ts'
import type { DocumentResult, ExtractionProgress, ExtractionSummary } from './summary.ts'

/** A row of a table of yours. */
export interface ExtractedRow {
  /** The name of its row schema. */
  readonly table: string
  /** Its fields, with the types of the schema. */
  readonly values: Readonly<Record<string, unknown>>
  /** Where it stands in the document; null when nobody looked. */
  readonly grounding: Grounding | null
}

/** The facts by kind. The names of kinds are those of the topics, and of the counts in a summary. */
export interface FactKinds {
  readonly definitions: Definition
  readonly relationships: Relationship
  readonly topics: Topic
  readonly rows: ExtractedRow
  readonly 'ontology-entities': OntologyEntity
  readonly 'ontology-relationships': OntologyRelationship
  readonly 'ontology-attributes': OntologyAttribute
}

/** Where something was found. */
export interface Origin {
  readonly documentId: string
  /** Empty for what is of the whole document. */
  readonly chunkId: string
}

/** A fact, as soon as the line of the model's reply that states it is complete. */
export type FactEvent = {
  readonly [K in keyof FactKinds]: Origin & {
    readonly type: 'fact'
    readonly kind: K
    readonly fact: FactKinds[K]
    /** The extractor that found it. */
    readonly extractor: string
    /** The model as its server names it. */
    readonly model: string | null
  }
}[keyof FactKinds]

/** Triples of some facts, or of their provenance: what `TripleStore.write` takes. Some may come twice, because triples are a set. */
export interface TriplesEvent extends Origin {
  readonly type: 'triples'
  readonly triples: readonly Triple[]
}

/** An item of the model's reply that is no fact. */
export interface RejectedEvent extends Origin, Rejection {
  readonly type: 'rejected'
  readonly promptId: string
}

/** What is missing from the graph: a source that could not be loaded (then `documentId` may be empty), or the work of an extractor on a chunk. */
export interface FailedEvent extends Origin {
  readonly type: 'failed'
  /** The name of the source, or the title of the document. */
  readonly name: string
  /** The extractor; null when it is not known, or all are concerned. */
  readonly unit: string | null
  readonly error: GraphmillError
}

/** Files of a folder or pattern that are not read. */
export interface SkippedEvent {
  readonly type: 'skipped'
  /** The folder or pattern. */
  readonly name: string
  readonly files: readonly SkippedFile[]
}

/** A document has ended. When something of it failed later, there is another event. */
export interface DocumentEvent {
  readonly type: 'document'
  readonly document: DocumentResult
}

/** How far the extraction is: several times a second when something has changed, and at most one that is unread. */
export interface ProgressEvent {
  readonly type: 'progress'
  readonly progress: ExtractionProgress
}

/** The last event, unless the extraction throws. */
export interface EndEvent {
  readonly type: 'end'
  readonly summary: ExtractionSummary
}

/** What `extract` yields. */
export type ExtractionEvent =
  | FactEvent
  | TriplesEvent
  | RejectedEvent
  | FailedEvent
  | SkippedEvent
  | DocumentEvent
  | ProgressEvent
  | EndEvent

type EventType = ExtractionEvent['type']

type Read = FactMessage | MessageOf<'triples' | 'rejected' | 'progress'>

export interface EventReaderOptions {
  /** The processors of the flow, whose facts are read. */
  readonly processors: readonly AnyProcessor[]
  readonly wants: (type: EventType) => boolean
  /** The message is settled when this has resolved. */
  readonly push: (event: ExtractionEvent, signal: AbortSignal) => Promise<void>
  readonly onProgress: (message: MessageOf<'progress'>, signal: AbortSignal) => Promise<void>
}

/** A processor that makes events of the flow's messages. It reads only the topics that are needed. */
export function createEventReader({ processors, wants, push, onProgress }: EventReaderOptions): AnyProcessor {
  const outputs = new Set<string>(processors.flatMap(({ outputs }) => outputs))
  const facts = wants('fact') ? factPorts(processors) : []
  const others = (['triples', 'rejected'] as const).filter((port) => wants(port) && outputs.has(port))
  return defineProcessor({
    name: 'events',
    inputs: [...facts, ...others, 'progress'],
    outputs: [],
    // biome-ignore lint/correctness/useYield: nothing comes after it
    async *handle(message: Read, { signal }) {
      if (message.type === 'Progress') await onProgress(message, signal)
      else for (const event of eventsOf(message)) await push(event, signal)
    },
  })
}

function eventsOf(message: Exclude<Read, MessageOf<'progress'>>): ExtractionEvent[] {
  const { documentId, chunkId, payload } = message
  const origin = { documentId, chunkId }
  switch (message.type) {
    case 'Triples':
      return [{ type: 'triples', triples: message.payload.triples, ...origin }]
    case 'Rejected':
      return message.payload.items.map((item) => ({
        type: 'rejected',
        ...item,
        promptId: message.payload.promptId,
        ...origin,
      }))
    default: {
      const { model } = payload as FactMessage['payload']
      return factsOf(message).map(
        (found) => ({ type: 'fact', ...found, extractor: message.source, model, ...origin }) as FactEvent,
      )
    }
  }
}

function factsOf(message: FactMessage): Pick<FactEvent, 'kind' | 'fact'>[] {
  const all = (kind: FactEvent['kind'], facts: readonly FactEvent['fact'][]) =>
    facts.map((fact) => ({ kind, fact }))
  switch (message.type) {
    case 'Definitions':
      return all('definitions', message.payload.facts)
    case 'Relationships':
      return all('relationships', message.payload.facts)
    case 'Topics':
      return all('topics', message.payload.facts)
    case 'OntologyEntities':
      return all('ontology-entities', message.payload.facts)
    case 'OntologyRelationships':
      return all('ontology-relationships', message.payload.facts)
    case 'OntologyAttributes':
      return all('ontology-attributes', message.payload.facts)
    case 'Rows':
      return all('rows', rowsOf(message.payload))
    default:
      return message satisfies never
  }
}

function rowsOf(payload: MessageOf<'rows'>['payload']): ExtractedRow[] {
  const { schemaName: table, groundings } = payload
  return rowValues(payload).map((values, at) => ({ table, values, grounding: groundings[at] ?? null }))
}
