// What a processor is: a name, inputs, outputs, and an async generator from a message to messages.
//
// Glossary
//   message    a typed payload in an envelope          topic      a named stream of one type of message
//   envelope   who, what, when, on whose behalf         port       a processor's name for a topic of its flow
//   flow       one set of topics of a workspace         scope      workspace and flow together
//   document   what a user loads                        chunk      a piece of it, small enough for one prompt
//   prompt     a template with a response type          item       one JSON object that the model wrote
//   run        one attempt at a prompt request          replyPart  one PromptResponse of a run
//   fact       an item that passed its schema           unit       an extractor, or one row schema of it
//   delivery   a message in flight, not yet settled     settle     to ack, or to hand back for later
//   dead       given up, and put on <topic>.dead        circuit    remembers that a server is unavailable
import type { Logger } from 'pino'
import type { Subscription } from '../broker/broker.ts'
import { GraphmillError } from '../errors.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import type { Llm } from '../llm/llm.ts'
import type { HeaderOverrides } from '../messages/envelope.ts'
import type { DocumentFigures } from '../observe/document-metrics.ts'
import type { Ontologies } from '../ontology/ontologies.ts'
import type { ReadPositions, StoredEntry } from '../progress/status-cache.ts'
import type { SupersededChunks } from '../progress/superseded-chunks.ts'
import type { Catalogue } from '../prompt/catalogue/prompt.ts'
import type { RunLimits } from '../prompt/engine/reply.ts'
import type { TripleStore } from '../rdf/store.ts'
import type { RowStore } from '../rows/appended-rows.ts'
import type { RowSchema } from '../rows/row-schema.ts'
import type { CompactedPort, InputPort, MessageOf, OutputPort, OutputPorts, PayloadOf } from './ports.ts'

/** Which flow of which workspace. */
export interface Scope {
  readonly workspace: string
  readonly flow: string
}

/** Where times come from. */
export interface Clock {
  /** Milliseconds since 1970 UTC. */
  now(): number
}

/** Where ids come from that are not made of content. */
export interface Ids {
  /** A UUIDv7. */
  next(): string
}

/** The parameters of a flow. */
export interface FlowSettings {
  /** The names of the extractors that read every chunk; see `expectedUnits` for their units of work. */
  readonly extractors: readonly string[]
  /** Characters. */
  readonly chunkSize: number
  readonly chunkOverlap: number
  /** The tables that `extract-rows` fills. Default none. */
  readonly rowSchemas?: readonly RowSchema[]
  /** The ontologies that `extract-ontology` uses. Default none. */
  readonly ontologies?: Ontologies
  /** Whether triples name their source: not at all, or in a subgraph for each chunk and unit. Default `none`. */
  readonly provenance?: 'none' | 'subgraph'
  /** Whether facts that do not stand in the text of their chunk are kept and marked, or rejected. Default `keep`. */
  readonly ungrounded?: 'keep' | 'reject'
  /** When a version of a document replaces the one before: when it is done, or also when it is partial. Default `done`. */
  readonly replace?: 'done' | 'partial'
}

/** All that a handler may use besides its message. */
export interface Context {
  /** The same object in every context of a flow of a runtime. */
  readonly scope: Scope
  /** What topic names begin with. */
  readonly space: string
  readonly settings: FlowSettings
  readonly log: Logger
  /** Aborted when the work is no longer wanted here: the delivery is no longer owned, or the grace period is over. */
  readonly signal: AbortSignal
  readonly clock: Clock
  readonly ids: Ids
  /** The flow's model, behind its rate limiter and circuit. Throws `llm_not_configured` when there is none. */
  readonly llm: Llm
  readonly prompts: Catalogue
  /** Limits of a prompt's run that differ from the defaults. */
  readonly limits?: Partial<RunLimits> | undefined
  /** The cache of the model's replies. Default: none. */
  readonly replies?: ReplyCache | undefined
  /** Where triples are stored. */
  readonly store: TripleStore
  /** Where rows are stored. Default: nowhere. */
  readonly rowStore?: RowStore | undefined
  /** Which chunks their documents no longer have. Default: that is not known. */
  readonly superseded?: SupersededChunks | undefined
  /** The entries of a compacted topic that the processor `reads`, as far as they are stored now, behind the given positions. */
  readonly read: <P extends CompactedPort>(
    port: P,
    behind: ReadPositions,
  ) => AsyncIterable<StoredEntry<OutputPorts[P]>>
}

/** A message to be published: its port, its payload, and header fields that it does not inherit from the handled message. */
export type Output<O extends OutputPort = OutputPort> = {
  [P in O]: { readonly to: P; readonly payload: PayloadOf<P> } & HeaderOverrides
}[O]

/** What a handler may return: its message is acked only after `after` resolves, and fails when it rejects. */
export interface Deferral {
  readonly after: Promise<void>
}

/**
 * Yields messages to be published. `yield` returns a promise that resolves when the broker has stored the message: await it when
 * the next step depends on that (`await (yield output)`). A failed publish ends the generator. A handler that only waits for others
 * returns a `Deferral`: tens of thousands may wait at the cost of little more than their bytes.
 */
export type Outputs<O extends OutputPort> = AsyncGenerator<
  Output<O>,
  // biome-ignore lint/suspicious/noConfusingVoidType: most handlers return nothing
  Deferral | undefined | void,
  Promise<void> | undefined
>

/** A step of a flow: from a message to messages. */
export interface Processor<I extends InputPort = InputPort, O extends OutputPort = OutputPort> {
  /** `[a-z0-9-]+`, unique in a process; part of the names of its groups and of its response topic. */
  readonly name: string
  readonly inputs: readonly I[]
  readonly outputs: readonly O[]
  /** The compacted topics that it reads besides its inputs. Default none. */
  readonly reads?: readonly CompactedPort[]
  /** The most deliveries in flight per input and flow. Default 32: enough while outputs are stored, and each costs memory. */
  readonly maxInFlight?: number
  /** The most bytes that are fetched or in flight per input and flow. Default: that of `Subscription`. */
  readonly maxBytes?: number
  /** Whether messages of a key are delivered one after the other, or to one replica at a time; see `Subscription`. Default `none`. */
  readonly ordering?: Subscription['ordering']
  readonly handle: (message: MessageOf<I>, context: Context) => Outputs<O>
  /** Yields what is published when a message is given up, such as an error reply. */
  readonly onDead?: (message: MessageOf<I>, error: GraphmillError, context: Context) => Outputs<O>
  /** What it knows of the documents of a flow, for metrics; asked now and then while it runs. */
  readonly figures?: (context: Context) => Promise<DocumentFigures>
}

/** A processor with any ports, as the runner and the list of processors use it. */
export type AnyProcessor = Omit<Processor, 'handle' | 'onDead'> & {
  readonly handle: (message: never, context: Context) => Outputs<OutputPort>
  readonly onDead?: (message: never, error: GraphmillError, context: Context) => Outputs<OutputPort>
}

/**
 * Declares a processor. The types of messages and outputs follow from the ports.
 * @example
 * export const shout = defineProcessor({
 *   name: 'shout', inputs: ['chunk'], outputs: ['chunk'],
 *   async *handle(message) { yield { to: 'chunk', payload: { ...message.payload, text: message.payload.text.toUpperCase() } } },
 * })
 */
export function defineProcessor<const I extends InputPort, const O extends OutputPort>(
  processor: Processor<I, O>,
): Processor<I, O> {
  return processor
}

/** Whether a processor asks prompts about chunks: then it runs only in flows that name it among their extractors. */
export function isExtractor({ inputs }: Pick<AnyProcessor, 'inputs'>): boolean {
  return inputs.includes('chunk') && inputs.includes('prompt-reply')
}

/** Throws `configuration_invalid` when neighbouring chunks would share whole chunks. */
export function checkOverlap({
  chunkSize,
  chunkOverlap,
}: Pick<FlowSettings, 'chunkSize' | 'chunkOverlap'>): void {
  if (chunkOverlap >= chunkSize)
    throw new GraphmillError(
      'configuration_invalid',
      `chunk-overlap (${chunkOverlap}) must be less than chunk-size (${chunkSize}).`,
    )
}
