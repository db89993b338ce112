// Generated from schemas/*.avsc by `npm run schemas`. Not for editing.

/** A record whose fields `K` may be left out. */
type Defaulted<T, K extends keyof T> = Omit<T, K> & { readonly [P in K]?: T[P] | undefined }

/** What a replica has used of a shared budget in a period. */
export interface BudgetUse {
  /** The day or month in UTC, such as 2026-11-23 or 2026-11. */
  readonly period: string
  /** The cost of its ended calls, by its prices, or their tokens. */
  readonly spent: number
  /** What it may spend at most, calls in flight excepted. It counts instead of what is spent. */
  readonly reserved: number
}

/** A BudgetUse to be written: fields with a default may be left out. */
export type BudgetUseInit = BudgetUse

/** Where a chunk begins in its document. */
export interface ChunkPlace {
  /** In UTF-16 code units. */
  readonly offset: number
  /** In Unicode code points; null where unknown. */
  readonly start: number | null
  /** The page on which it begins, from 1; null where the document has no pages. */
  readonly page: number | null
}

/** A ChunkPlace to be written: fields with a default may be left out. */
export type ChunkPlaceInit = Defaulted<ChunkPlace, 'start' | 'page'>

/** A piece of a document, small enough for one prompt. */
export interface Chunk {
  /** The index of the part of the document, from 0. */
  readonly part: number
  /** The index of the chunk in its part, from 0. */
  readonly index: number
  /** Where the chunk begins in the document, in UTF-16 code units. */
  readonly offset: number
  /** Its length in UTF-16 code units. */
  readonly length: number
  /** The text. */
  readonly text: string
  /** What the sender says of the chunk, each as JSON text: a text or a list of texts. Not part of the id. */
  readonly attributes: { readonly [key: string]: string }
  /** The page on which it begins, from 1; null where the document has no pages. */
  readonly page: number | null
  /** Where the chunk begins in the document, in Unicode code points; null where unknown. Not part of the id. */
  readonly start: number | null
  /** Where pages begin in the chunk after its own beginning, in UTF-16 code units of the document. Not part of the id. */
  readonly pages: readonly number[]
}

/** A Chunk to be written: fields with a default may be left out. */
export type ChunkInit = Defaulted<Chunk, 'part' | 'index' | 'offset' | 'length' | 'attributes' | 'page' | 'start' | 'pages'>

/** What one part of a document consists of. */
export interface ContentsPart {
  /** The index of the part. */
  readonly part: number
  /** Whether it is the last part. */
  readonly last: boolean
  /** Its chunks, by the version that sent them. */
  readonly emissions: readonly Emissions[]
}

/** A ContentsPart to be written: fields with a default may be left out. */
export interface ContentsPartInit extends Defaulted<Omit<ContentsPart, 'emissions'>, 'last'> {
  readonly emissions: readonly EmissionsInit[]
}

/** What the newest version of a document consists of, for the processor that cuts the next version. Kept in a compacted topic. */
export interface Contents {
  /** The id of the removal, where it is one. */
  readonly cause: string
  /** The parts that were cut so far. */
  readonly parts: readonly ContentsPart[]
  /** What the version before consists of: its chunks are not sent again. */
  readonly base: readonly Emissions[]
  /** The ids of the last removals before: one that is delivered again removes nothing newer. */
  readonly removals: readonly string[]
  /** The units that every chunk of it must pass; null from a chunk-text of before, which did not say. */
  readonly units: readonly string[] | null
}

/** A Contents to be written: fields with a default may be left out. */
export interface ContentsInit extends Defaulted<Omit<Contents, 'parts' | 'base'>, 'cause' | 'removals' | 'units'> {
  readonly parts?: readonly ContentsPartInit[] | undefined
  readonly base?: readonly EmissionsInit[] | undefined
}

/** What something is. */
export interface Definition {
  /** The name of the thing. */
  readonly entity: string
  /** What it is. */
  readonly definition: string
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
}

/** A Definition to be written: fields with a default may be left out. */
export interface DefinitionInit extends Omit<Definition, 'grounding'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A batch of definitions of one chunk. */
export interface Definitions {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The definitions. */
  readonly facts: readonly Definition[]
}

/** A Definitions to be written: fields with a default may be left out. */
export interface DefinitionsInit extends Defaulted<Omit<Definitions, 'run' | 'facts'>, 'model'> {
  readonly run: RunInit
  readonly facts: readonly DefinitionInit[]
}

/** Chunks that one version of a document sent to the extractors. */
export interface Emissions {
  /** The time of that version. */
  readonly versionTime: number
  /** 6 bytes for each chunk: the beginning of the SHA-256 of <chunkId>@<versionTime>. */
  readonly keys: Uint8Array
}

/** A Emissions to be written: fields with a default may be left out. */
export type EmissionsInit = Emissions

/** An entity and a text that says something of it, for embeddings. */
export interface EntityContext {
  /** The entity. */
  readonly entity: Term
  /** The text. */
  readonly context: string
  /** The chunk it comes from. */
  readonly chunkId: string
  /** The IRIs of the classes of the entity, as far as the extractor knows them. Not part of the id. */
  readonly rdfType: readonly string[]
  /** What the sender says of the entity, each as JSON text: a text or a list of texts. Not part of the id. */
  readonly attributes: { readonly [key: string]: string }
}

/** A EntityContext to be written: fields with a default may be left out. */
export interface EntityContextInit extends Defaulted<Omit<EntityContext, 'entity'>, 'chunkId' | 'rdfType' | 'attributes'> {
  readonly entity: TermInit
}

/** A batch of entity contexts, at most 5. */
export interface EntityContexts {
  /** The contexts. */
  readonly entities: readonly EntityContext[]
}

/** A EntityContexts to be written: fields with a default may be left out. */
export interface EntityContextsInit {
  readonly entities: readonly EntityContextInit[]
}

/** Who, what, when and on whose behalf. Every payload travels in a copy of this record, graphmill.<Payload>Envelope, with the payload as its last field. */
export interface Envelope {
  /** Names the content: a hash for outputs, a caller's id or a UUIDv7 for sources. */
  readonly id: string
  /** The name of the payload, such as Chunk. */
  readonly type: string
  /** The processor or program that made the message. */
  readonly source: string
  /** When it was made, in milliseconds since 1970-01-01 UTC. */
  readonly time: number
  /** The tenant. */
  readonly workspace: string
  /** The flow within the workspace. */
  readonly flow: string
  /** Where the triples of the document belong. */
  readonly collection: string
  /** The document that this is about; empty for requests without one. */
  readonly documentId: string
  /** The chunk that this is about; empty before chunking. For a document with a version: <documentId>/<16 hexadecimal digits of the hash of its text>, and /<n> for the n-th repeat of that text, from 2; otherwise <documentId>/<part>/<index>. */
  readonly chunkId: string
  /** The id of the request that this answers or belongs to. */
  readonly correlationId: string
  /** The id of the message whose handling made this one; empty for sources. */
  readonly causationId: string
  /** The response topic for replies to this request. */
  readonly replyTo: string | null
  /** After this moment the work is of no use to anybody. */
  readonly deadline: number | null
  /** W3C trace context. */
  readonly traceparent: string | null
  /** The version of the document: the SHA-256 of its text in hexadecimal, the first 32 digits. Empty where nobody said it. */
  readonly version: string
  /** When the version was loaded, in milliseconds since 1970. Of two versions of a document the one with the later time is the newer. 0 where nobody said it. */
  readonly versionTime: number
}

/** A Envelope to be written: fields with a default may be left out. */
export type EnvelopeInit = Defaulted<Envelope, 'documentId' | 'chunkId' | 'correlationId' | 'causationId' | 'replyTo' | 'deadline' | 'traceparent' | 'version' | 'versionTime'>

/** Why something could not be done. */
export interface Error {
  /** A code of docs/errors.md. */
  readonly type: string
  /** One sentence for people. */
  readonly message: string
}

/** A Error to be written: fields with a default may be left out. */
export type ErrorInit = Error

/** How the items of a reply are looked for in the term `text`. */
export interface GroundingRequest {
  /** The keys whose values must stand in the text, as far as an item has them; if empty, all texts and numbers of the item must. */
  readonly names: readonly string[]
  /** The keys whose values are looked for as a sentence of the text, and need not be found. */
  readonly sentences: readonly string[]
  /** Where the text begins in the document, in UTF-16 code units. */
  readonly offset: number
  /** The same in Unicode code points; null where unknown. */
  readonly start: number | null
  /** Where pages of the document begin, in UTF-16 code units; the first may begin before the text. Empty where there are no pages. */
  readonly pages: readonly number[]
  /** The number of the first of these pages, from 1. */
  readonly firstPage: number
}

/** A GroundingRequest to be written: fields with a default may be left out. */
export type GroundingRequestInit = Defaulted<GroundingRequest, 'names' | 'sentences' | 'offset' | 'start' | 'pages' | 'firstPage'>

/** Whether a fact stands in its chunk. */
export interface Grounding {
  /** exact, normalized or fuzzy: the weakest match of the values that must stand in the text; ungrounded if one of them was not found. */
  readonly status: string
  /** The values that were found. */
  readonly spans: readonly Span[]
  /** Where the chunk begins, so that its places can be counted from there; null where unknown. */
  readonly chunk: ChunkPlace | null
}

/** A Grounding to be written: fields with a default may be left out. */
export interface GroundingInit extends Omit<Grounding, 'spans' | 'chunk'> {
  readonly spans?: readonly SpanInit[] | undefined
  readonly chunk?: ChunkPlaceInit | null | undefined
}

/** What a replica has of the limits of a model that replicas share. The newest lease of a replica counts, and its shares until 15 s after it was read. Kept in a compacted topic, with the key <workspace or *>/<model>/<replica>. */
export interface LimitLease {
  /** The model: <provider> <destination> <name>. The limits of all workspaces have an empty workspace in the envelope. */
  readonly model: string
  /** A process; another one each time it starts. */
  readonly replica: string
  /** Counts the leases of the replica, from 1. */
  readonly number: number
  /** The share of the limits that it could use now, from 0 to 1; 0 when it has no calls. */
  readonly wants: number
  /** The smallest share that is of use to it: that of one call. */
  readonly least: number
  /** The share of the limits that it uses at most, from 0 to 1. A share that grows counts when the replica has read this lease back and all shares add up to at most 1. */
  readonly has: number
  /** What it has used of the budget of this period and of the one before. */
  readonly budgets: readonly BudgetUse[]
  /** HMAC-SHA-256 of the other fields and the workspace with the context key, in base64url; empty without a key. */
  readonly signature: string
}

/** A LimitLease to be written: fields with a default may be left out. */
export interface LimitLeaseInit extends Defaulted<Omit<LimitLease, 'budgets'>, 'signature'> {
  readonly budgets?: readonly BudgetUseInit[] | undefined
}

/** Records of one partition that the broker deleted before a processor had read them. */
export interface LostRecords {
  /** The processor that was to read them. */
  readonly processor: string
  /** The topic. */
  readonly topic: string
  /** The partition. */
  readonly partition: number
  /** The place of the first of them; null when the group of the processor had no position, so that some may have been read. */
  readonly first: string | null
  /** Where the processor goes on. */
  readonly next: string
  /** How many; null when that is not known. */
  readonly count: number | null
  /** All of them were older than this. */
  readonly before: number
  /** In the status of a flow: when it was found. Elsewhere 0: the envelope says it. */
  readonly time: number
}

/** A LostRecords to be written: fields with a default may be left out. */
export type LostRecordsInit = Defaulted<LostRecords, 'first' | 'count' | 'time'>

/** A value of a datatype property of an ontology. */
export interface OntologyAttribute {
  /** The name of the individual. */
  readonly entity: string
  /** The IRI of the property. */
  readonly propertyIri: string
  /** The lexical form of the value. */
  readonly value: string
  /** The IRI of the datatype; null means xsd:string. */
  readonly datatype: string | null
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
  /** Whether the value is in the entity context of its individual, if it is a definition: then the attribute has none of its own. Not part of the id. */
  readonly isInContext: boolean
  /** For a definition that came in a later reply part than the individual: the IRI of its class. Then its entity context begins with the individual's name. Not part of the id. */
  readonly typeIri: string | null
}

/** A OntologyAttribute to be written: fields with a default may be left out. */
export interface OntologyAttributeInit extends Defaulted<Omit<OntologyAttribute, 'grounding'>, 'datatype' | 'isInContext' | 'typeIri'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A batch of attributes found in one chunk. */
export interface OntologyAttributes {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The ids of the ontologies that the facts were checked against, joined by a blank. */
  readonly ontology: string
  /** Names the content of those ontologies. */
  readonly version: string
  /** The attributes. */
  readonly facts: readonly OntologyAttribute[]
}

/** A OntologyAttributes to be written: fields with a default may be left out. */
export interface OntologyAttributesInit extends Defaulted<Omit<OntologyAttributes, 'run' | 'facts'>, 'model' | 'ontology' | 'version'> {
  readonly run: RunInit
  readonly facts: readonly OntologyAttributeInit[]
}

/** A batch of individuals found in one chunk. */
export interface OntologyEntities {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The ids of the ontologies that the facts were checked against, joined by a blank. */
  readonly ontology: string
  /** Names the content of those ontologies. */
  readonly version: string
  /** The individuals. */
  readonly facts: readonly OntologyEntity[]
}

/** A OntologyEntities to be written: fields with a default may be left out. */
export interface OntologyEntitiesInit extends Defaulted<Omit<OntologyEntities, 'run' | 'facts'>, 'model' | 'ontology' | 'version'> {
  readonly run: RunInit
  readonly facts: readonly OntologyEntityInit[]
}

/** An individual of a class of an ontology. */
export interface OntologyEntity {
  /** The name of the individual. */
  readonly entity: string
  /** The IRI of its class. */
  readonly typeIri: string
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
  /** Definitions of it that came with it, for its entity context. Not part of the id. */
  readonly definitions: readonly string[]
  /** Whether its entity context is published with the whole reply, and not made of this fact. Not part of the id. */
  readonly isInContext: boolean
}

/** A OntologyEntity to be written: fields with a default may be left out. */
export interface OntologyEntityInit extends Defaulted<Omit<OntologyEntity, 'grounding'>, 'definitions' | 'isInContext'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A relation between two individuals by a property of an ontology. */
export interface OntologyRelationship {
  /** The name of the subject. */
  readonly subject: string
  /** The IRI of the property. */
  readonly propertyIri: string
  /** The name of the object. */
  readonly object: string
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
}

/** A OntologyRelationship to be written: fields with a default may be left out. */
export interface OntologyRelationshipInit extends Omit<OntologyRelationship, 'grounding'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A batch of relations found in one chunk. */
export interface OntologyRelationships {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The ids of the ontologies that the facts were checked against, joined by a blank. */
  readonly ontology: string
  /** Names the content of those ontologies. */
  readonly version: string
  /** The relations. */
  readonly facts: readonly OntologyRelationship[]
}

/** A OntologyRelationships to be written: fields with a default may be left out. */
export interface OntologyRelationshipsInit extends Defaulted<Omit<OntologyRelationships, 'run' | 'facts'>, 'model' | 'ontology' | 'version'> {
  readonly run: RunInit
  readonly facts: readonly OntologyRelationshipInit[]
}

/** What was started, what is done. Nobody but the reader of these decides that something is done. */
export interface Progress {
  /** loading (a source begins to publish it), document (it has published all parts), part (a part was chunked), chunk (an extractor has begun with a chunk that no part entry announces), reply (a part of a run was handled), spent (an attempt that failed has used tokens), superseded (the newest version of the document no longer has the chunk, and the model is not asked about it any more: the unit ends, and counts for no version), dead (a message was dead-lettered), replayed (it was brought back), removed (a document was removed), erased (its texts were deleted from the topics), late (a part of a version came after a newer version, and was passed over), failed (a document could not be read, or not be published whole), paused (a flow waits for its operator), lost (the broker deleted records before they were read), waiting (a processor waits for something; not repeated when it goes on). Entries of the last two kinds may be of no document: then they are of the whole flow. */
  readonly kind: string
  /** part, late, and dead where it was a part that died: which part of the document. */
  readonly part: number | null
  /** document: how many parts it has. */
  readonly parts: number | null
  /** part: how many chunks it has. */
  readonly chunks: number | null
  /** part: the units of work that are expected for every chunk. chunk: those that the extractor has begun. */
  readonly units: readonly string[]
  /** reply, spent, superseded, dead: the unit of work; null where unknown. */
  readonly unit: string | null
  /** reply, spent: the run. */
  readonly run: Run | null
  /** reply: the place of the part in its run. */
  readonly seq: number
  /** reply: whether it is the last part of the run. */
  readonly last: boolean
  /** reply: why the unit is only partial, as the prompt says it: truncated, refused, no_items (nothing in the reply looked like an item), no_facts (items came, and none was accepted), thoughts (items left before the model marked them as thoughts), max_cost. The reader of these adds no_facts where the extractor refused all items of a run. */
  readonly incomplete: string | null
  /** reply: facts published from this part, by kind. */
  readonly facts: { readonly [key: string]: number }
  /** reply: items rejected, by reason: the prompt's on the last part, the extractor's own on each. */
  readonly rejected: { readonly [key: string]: number }
  /** reply: repaired items of the run, on the last part. */
  readonly repaired: number
  /** reply: repeated items of the run, on the last part. */
  readonly duplicates: number
  /** reply: tokens of the run, on the last part. spent: those of the attempt, by reason and model. */
  readonly usage: Usage | null
  /** reply, spent: the model. */
  readonly model: string | null
  /** dead, waiting: the topic of the message. */
  readonly topic: string | null
  /** loading, document, failed: the name of the document for people. */
  readonly title: string | null
  /** dead, failed, paused, waiting, or a reply that is an error: why. */
  readonly error: Error | null
  /** lost: which records. */
  readonly lost: LostRecords | null
  /** waiting: when the other side may be asked again, where it has said so. */
  readonly until: number | null
  /** reply: facts published from this part that do not stand in the text. */
  readonly ungrounded: number
  /** removed: why. erased: by whom, and how many messages. */
  readonly reason: string | null
  /** part: the chunks, when their ids are not <documentId>/<part>/<index>: in order, the first 6 bytes of the SHA-256 of each id in UTF-8. */
  readonly keys: Uint8Array
}

/** A Progress to be written: fields with a default may be left out. */
export interface ProgressInit extends Defaulted<Omit<Progress, 'run' | 'usage' | 'error' | 'lost'>, 'part' | 'parts' | 'chunks' | 'units' | 'unit' | 'seq' | 'last' | 'incomplete' | 'facts' | 'rejected' | 'repaired' | 'duplicates' | 'model' | 'topic' | 'title' | 'until' | 'ungrounded' | 'reason' | 'keys'> {
  readonly run?: RunInit | null | undefined
  readonly usage?: UsageInit | null | undefined
  readonly error?: ErrorInit | null | undefined
  readonly lost?: LostRecordsInit | null | undefined
}

/** A request to run a prompt. */
export interface PromptRequest {
  /** A prompt of the catalogue. */
  readonly promptId: string
  /** The terms of the template, each as JSON text. */
  readonly terms: { readonly [key: string]: string }
  /** Whether the reply comes in parts while the model writes. */
  readonly streaming: boolean
  /** Echoed in every part of the reply; at most 4 KiB. */
  readonly context: { readonly [key: string]: string }
  /** For jsonl prompts: how the items are looked for in the term `text`; null if they are not. Not part of the id. */
  readonly grounding: GroundingRequest | null
  /** For jsonl prompts: whether the last part of the reply holds all items again, before those that are new. Not part of the id. */
  readonly repeat: boolean
}

/** A PromptRequest to be written: fields with a default may be left out. */
export interface PromptRequestInit extends Defaulted<Omit<PromptRequest, 'grounding'>, 'streaming' | 'context' | 'repeat'> {
  readonly grounding?: GroundingRequestInit | null | undefined
}

/** One part of a run. */
export interface PromptResponse {
  /** The prompt that was run. */
  readonly promptId: string
  /** The attempt that this part belongs to. */
  readonly run: Run
  /** The place of this part in its run, from 0. */
  readonly seq: number
  /** For text prompts: the text, or the next piece of it. */
  readonly text: string | null
  /** For json prompts the value as JSON text; for jsonl prompts always a JSON array. */
  readonly object: string | null
  /** Whether this is the last part of the run. */
  readonly endOfStream: boolean
  /** stop, length, tool_calls, content_filter or error; on the last part. */
  readonly finishReason: string | null
  /** Whether the reply stayed cut off. */
  readonly truncated: boolean
  /** Items accepted so far in this run; on the last part the total. */
  readonly accepted: number
  /** Items rejected so far in this run; on the last part the total. */
  readonly rejected: number
  /** The rejected items by reason, on the last part. */
  readonly rejections: { readonly [key: string]: number }
  /** Accepted items that were repaired; on the last part the total. */
  readonly repaired: number
  /** Accepted items equal to an earlier one; on the last part the total. */
  readonly duplicates: number
  /** Why a reply counts as partial: truncated, repetition (the model repeated itself without end, and was stopped), refused, no_items (nothing in it looked like an item), no_facts (items came, and none was accepted), thoughts (items left before the model marked them as thoughts), max_cost; on the last part. */
  readonly incomplete: string | null
  /** Tokens of the whole run; on the last part. */
  readonly usage: Usage | null
  /** The model as the server names it. */
  readonly model: string | null
  /** Why there is no reply. */
  readonly error: Error | null
  /** The context of the request. */
  readonly context: { readonly [key: string]: string }
  /** Why the reply stayed cut off, where that is known; on the last part. */
  readonly cause: Error | null
  /** The last so many of the accepted items were rejected at first and came back valid when the model was asked again; on the last part. */
  readonly reasked: number
  /** How JSON was asked for: native, fallback, text-based, openai, ollama, openai_oo or ollama_oo; plain where nothing was said; on the last part. */
  readonly outputMode: string | null
  /** For each item of the object where it stands in the document; empty where the request did not ask. Not part of the id. */
  readonly groundings: readonly Grounding[]
  /** How many of the items, the first ones, came in earlier parts; -1 where the items of this part come again; null where the request did not ask for it. Not part of the id. */
  readonly repeated: number | null
}

/** A PromptResponse to be written: fields with a default may be left out. */
export interface PromptResponseInit extends Defaulted<Omit<PromptResponse, 'run' | 'usage' | 'error' | 'cause' | 'groundings'>, 'promptId' | 'seq' | 'text' | 'object' | 'endOfStream' | 'finishReason' | 'truncated' | 'accepted' | 'rejected' | 'rejections' | 'repaired' | 'duplicates' | 'incomplete' | 'model' | 'context' | 'reasked' | 'outputMode' | 'repeated'> {
  readonly run: RunInit
  readonly usage?: UsageInit | null | undefined
  readonly error?: ErrorInit | null | undefined
  readonly cause?: ErrorInit | null | undefined
  readonly groundings?: readonly GroundingInit[] | undefined
}

/** Items that a model wrote and that were not accepted. */
export interface Rejected {
  /** The prompt. */
  readonly promptId: string
  /** The run. */
  readonly run: Run | null
  /** The model as the server names it. */
  readonly model: string | null
  /** The items. */
  readonly items: readonly Rejection[]
}

/** A Rejected to be written: fields with a default may be left out. */
export interface RejectedInit extends Defaulted<Omit<Rejected, 'run' | 'items'>, 'promptId' | 'model'> {
  readonly run?: RunInit | null | undefined
  readonly items: readonly RejectionInit[]
}

/** One record of a reply that was not accepted. */
export interface Rejection {
  /** invalid_json, schema, not_finite, too_deep, too_large, broken, placeholder (its texts are an ellipsis), thought (it had left as an item before the model marked it as a thought), echo_of_example (it is an example of the prompt and does not stand in the text), or a reason of the extractor, such as ungrounded. */
  readonly reason: string
  /** The line of the reply on which it begins, from 1; 0 where unknown. */
  readonly line: number
  /** The record, at most 200 characters. */
  readonly text: string
  /** What is wrong with it, in one sentence. */
  readonly message: string
}

/** A Rejection to be written: fields with a default may be left out. */
export type RejectionInit = Defaulted<Rejection, 'line' | 'text' | 'message'>

/** How two things are related. */
export interface Relationship {
  /** The name of the subject. */
  readonly subject: string
  /** The relationship. */
  readonly predicate: string
  /** The name of the object, or a literal value. */
  readonly object: string
  /** Whether the object is an entity (else a literal). */
  readonly objectEntity: boolean
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
}

/** A Relationship to be written: fields with a default may be left out. */
export interface RelationshipInit extends Defaulted<Omit<Relationship, 'grounding'>, 'objectEntity'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A batch of relationships of one chunk. */
export interface Relationships {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The relationships. */
  readonly facts: readonly Relationship[]
}

/** A Relationships to be written: fields with a default may be left out. */
export interface RelationshipsInit extends Defaulted<Omit<Relationships, 'run' | 'facts'>, 'model'> {
  readonly run: RunInit
  readonly facts: readonly RelationshipInit[]
}

/** What a document no longer states: everything that its versions up to the version of this message have stated, except for what is kept. The newest message of a document is the whole truth about it. Kept in a compacted topic. */
export interface Retractions {
  /** superseded (a new version was processed), removed, erased or collection (the document was removed with its collection). */
  readonly reason: string
  /** What the document consists of now, sorted: 6 bytes each, the beginning of the SHA-256 of <chunkId>@<versionTime>, and of <documentId>@<versionTime> for what the document itself states. Empty after a removal. */
  readonly kept: Uint8Array
  /** Whether what has no versionTime is withdrawn, too. True for removals, and for all that follow one. */
  readonly unversioned: boolean
}

/** A Retractions to be written: fields with a default may be left out. */
export type RetractionsInit = Defaulted<Retractions, 'kept' | 'unversioned'>

/** Rows of one row schema, found in one chunk. */
export interface Rows {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The row schema. */
  readonly schemaName: string
  /** The rows, by field, each value as text by TrustGraph's rules. */
  readonly values: readonly { readonly [key: string]: string }[]
  /** The same rows, each as a JSON object with typed values. */
  readonly typed: readonly string[]
  /** As TrustGraph's; not measured. */
  readonly confidence: number
  /** The chunk. */
  readonly sourceSpan: SourceSpan
  /** Where each row stands in the document; empty where nobody looked. Not part of the id. */
  readonly groundings: readonly Grounding[]
}

/** A Rows to be written: fields with a default may be left out. */
export interface RowsInit extends Defaulted<Omit<Rows, 'run' | 'sourceSpan' | 'groundings'>, 'model' | 'typed' | 'confidence'> {
  readonly run: RunInit
  readonly sourceSpan?: SourceSpanInit | undefined
  readonly groundings?: readonly GroundingInit[] | undefined
}

/** One attempt at a prompt request: its first call, continuations and reasks together. */
export interface Run {
  /** A UUIDv7; a replay from the cache keeps it. */
  readonly id: string
  /** When the attempt began. */
  readonly startedAt: number
}

/** A Run to be written: fields with a default may be left out. */
export type RunInit = Run

/** Where in the document something was found. */
export interface SourceSpan {
  /** In UTF-16 code units. */
  readonly offset: number
  /** In UTF-16 code units. */
  readonly length: number
  /** The beginning of the span, at most 100 characters. */
  readonly text: string
}

/** A SourceSpan to be written: fields with a default may be left out. */
export type SourceSpanInit = Defaulted<SourceSpan, 'offset' | 'length' | 'text'>

/** Where a value of a fact stands in the document. */
export interface Span {
  /** The key of the item whose value it is, such as subject. */
  readonly field: string
  /** exact (letter by letter), normalized (apart from case, punctuation, white space, hyphens and plurals) or fuzzy (most of its words, in their order; for a definition the sentence that has most of its words). */
  readonly match: string
  /** Where it begins in the document, in UTF-16 code units. */
  readonly offset: number
  /** Its length in UTF-16 code units. */
  readonly length: number
  /** Where it begins in the document, in Unicode code points, as Web Annotation and Python count; null where unknown. */
  readonly start: number | null
  /** Where it ends, in code points; the code point there is no longer part of it. */
  readonly end: number | null
  /** The page on which it begins, from 1; null where the document has no pages. */
  readonly page: number | null
  /** The text there; empty if it has over 500 characters. */
  readonly text: string
}

/** A Span to be written: fields with a default may be left out. */
export type SpanInit = Defaulted<Span, 'start' | 'end' | 'page' | 'text'>

/** The tokens of a run's calls of one kind; null where the server did not report them. */
export interface Spent {
  /** first, continuation, longer (again with a doubled output limit), reask, split, or cached: the reply was remembered and nothing was spent. */
  readonly reason: string
  /** The model as the server names it. */
  readonly model: string
  /** How many calls. */
  readonly calls: number
  /** Tokens of the prompts. */
  readonly promptTokens: number | null
  /** Tokens that the model wrote. */
  readonly completionTokens: number | null
}

/** A Spent to be written: fields with a default may be left out. */
export type SpentInit = Defaulted<Spent, 'model' | 'calls' | 'promptTokens' | 'completionTokens'>

/** What is known of a document: the newest of each documentId counts, by epoch and revision. Kept in a compacted topic, from which the ledger goes on after a restart. */
export interface Status {
  /** When the ledger took the document up, in milliseconds since 1970, or later than that where its clock went back. Of two statuses of a document the one of the later epoch is the newer. */
  readonly epoch: number
  /** Within an epoch: the higher, the newer. */
  readonly revision: number
  /** queued, running, done, partial, failed or removed; flow in the status of the whole flow. */
  readonly state: string
  /** The name of the document for people. */
  readonly title: string
  /** Why it failed. */
  readonly error: Error | null
  /** Chunks that are known so far. */
  readonly chunks: number
  /** Units of chunks that are expected; the next three are parts of them. */
  readonly expected: number
  /** Units of chunks that are done. */
  readonly done: number
  /** Units of chunks whose replies stayed cut off, empty, or died in part. */
  readonly partial: number
  /** Units of chunks that were given up. */
  readonly dead: number
  /** Units of chunks whose replies stayed cut off. */
  readonly truncated: number
  /** Why units are partial or dead, counted. */
  readonly incomplete: { readonly [key: string]: number }
  /** Facts of complete runs, by kind. */
  readonly facts: { readonly [key: string]: number }
  /** Items rejected in complete runs, by reason. */
  readonly rejected: { readonly [key: string]: number }
  /** Items repaired in complete runs. */
  readonly repaired: number
  /** Repeated items in complete runs. */
  readonly duplicates: number
  /** Model calls of complete runs, by what they were for: first, continuation, reask and so on. */
  readonly calls: { readonly [key: string]: number }
  /** Tokens of complete runs, by model. */
  readonly tokens: { readonly [key: string]: Tokens }
  /** All that the ledger needs to go on from here: see src/progress/snapshot.ts. */
  readonly ledger: Uint8Array
  /** Only in the status of the whole flow, whose documentId is `(flow)`: the newest gaps. */
  readonly lost: readonly LostRecords[]
  /** Only there: what processors wait for, or waited for lately. */
  readonly waiting: readonly Waiting[]
  /** Facts of complete runs that do not stand in the text. */
  readonly ungrounded: number
  /** Where the triples of the document belong. */
  readonly collection: string
  /** The newest version, which the state is of; empty where nobody said it. */
  readonly version: string
  /** When the newest version was loaded; 0 where nobody said it. */
  readonly versionTime: number
  /** The version that readers of the store see: the last one that was processed. Empty where there is none yet. */
  readonly currentVersion: string
  /** When that version was loaded, or removed; 0 where there is none. */
  readonly currentTime: number
  /** The last versions, from the newest; empty where nobody said them. */
  readonly versions: readonly Version[]
  /** Why a store could not withdraw what the document no longer states. */
  readonly notWithdrawn: Error | null
}

/** A Status to be written: fields with a default may be left out. */
export interface StatusInit extends Defaulted<Omit<Status, 'error' | 'tokens' | 'lost' | 'waiting' | 'versions' | 'notWithdrawn'>, 'title' | 'chunks' | 'expected' | 'done' | 'partial' | 'dead' | 'truncated' | 'incomplete' | 'facts' | 'rejected' | 'repaired' | 'duplicates' | 'calls' | 'ledger' | 'ungrounded' | 'collection' | 'version' | 'versionTime' | 'currentVersion' | 'currentTime'> {
  readonly error?: ErrorInit | null | undefined
  readonly tokens?: { readonly [key: string]: TokensInit } | undefined
  readonly lost?: readonly LostRecordsInit[] | undefined
  readonly waiting?: readonly WaitingInit[] | undefined
  readonly versions?: readonly VersionInit[] | undefined
  readonly notWithdrawn?: ErrorInit | null | undefined
}

/** A part of a triple. */
export interface Term {
  /** i (IRI), b (blank node), l (literal) or t (quoted triple). */
  readonly type: string
  /** The IRI, for type i. */
  readonly iri: string | null
  /** The label, for type b. */
  readonly id: string | null
  /** The lexical form, for type l. */
  readonly value: string | null
  /** The datatype IRI, for type l; absent means xsd:string. */
  readonly datatype: string | null
  /** The language tag, for type l. */
  readonly language: string | null
  /** The quoted triple, for type t. */
  readonly triple: Triple | null
}

/** A Term to be written: fields with a default may be left out. */
export interface TermInit extends Defaulted<Omit<Term, 'triple'>, 'iri' | 'id' | 'value' | 'datatype' | 'language'> {
  readonly triple?: TripleInit | null | undefined
}

/** A request to a model without a prompt of the catalogue. */
export interface TextCompletionRequest {
  /** The system message; empty for none. */
  readonly system: string
  /** The user's message. */
  readonly prompt: string
  /** Whether the reply comes in parts while the model writes. */
  readonly streaming: boolean
  /** As JSON text: what goes to the server as response_format. */
  readonly responseFormat: string | null
  /** As JSON text: a JSON Schema that the reply must fit. */
  readonly schema: string | null
  /** Echoed in every part of the reply; at most 4 KiB. */
  readonly context: { readonly [key: string]: string }
  /** completion, or list-models. */
  readonly operation: string
}

/** A TextCompletionRequest to be written: fields with a default may be left out. */
export type TextCompletionRequestInit = Defaulted<TextCompletionRequest, 'system' | 'streaming' | 'responseFormat' | 'schema' | 'context' | 'operation'>

/** One part of a reply. */
export interface TextCompletionResponse {
  /** The attempt that this part belongs to. */
  readonly run: Run
  /** The place of this part in its run, from 0. */
  readonly seq: number
  /** The text, or the next piece of it. */
  readonly response: string
  /** Whether this is the last part of the run. */
  readonly endOfStream: boolean
  /** stop, length, tool_calls, content_filter or error; on the last part. */
  readonly finishReason: string | null
  /** Tokens; on the last part. */
  readonly usage: Usage | null
  /** The model as the server names it. */
  readonly model: string | null
  /** Why there is no reply. */
  readonly error: Error | null
  /** The context of the request. */
  readonly context: { readonly [key: string]: string }
  /** How JSON was asked for: native, fallback, text-based, openai, ollama, openai_oo or ollama_oo; plain where nothing was said; on the last part. */
  readonly outputMode: string | null
  /** The answer to list-models: each model as a JSON object with TrustGraph's fields. */
  readonly models: readonly string[]
}

/** A TextCompletionResponse to be written: fields with a default may be left out. */
export interface TextCompletionResponseInit extends Defaulted<Omit<TextCompletionResponse, 'run' | 'usage' | 'error'>, 'seq' | 'response' | 'endOfStream' | 'finishReason' | 'model' | 'context' | 'outputMode' | 'models'> {
  readonly run: RunInit
  readonly usage?: UsageInit | null | undefined
  readonly error?: ErrorInit | null | undefined
}

/** A text document or a part of a long one (at most 512 KiB, cut at a paragraph end). */
export interface TextDocument {
  /** The name of the document for people, such as a file name. */
  readonly title: string
  /** Where it came from; empty if nowhere. */
  readonly uri: string
  /** text/plain, text/markdown, text/html or application/pdf: what the text was taken from. */
  readonly mediaType: string
  /** The index of this part, from 0. */
  readonly part: number
  /** Where the part begins in the document, in UTF-16 code units. */
  readonly offset: number
  /** The text. */
  readonly text: string
  /** Where the pages of the document begin whose text stands in this part, in UTF-16 code units of the document; the first may begin before the part. Empty where there are no pages. */
  readonly pages: readonly number[]
  /** The number of the first of these pages, from 1. */
  readonly firstPage: number
  /** Where the part begins in the document, in Unicode code points; null where unknown. */
  readonly start: number | null
  /** Whether this is the last part of a document that has a version. */
  readonly last: boolean
  /** Whether every chunk is extracted again, also those that the version before had. */
  readonly again: boolean
  /** Why the document is removed: removed, erased or collection. The text is empty then. Null for a document. */
  readonly removed: string | null
}

/** A TextDocument to be written: fields with a default may be left out. */
export type TextDocumentInit = Defaulted<TextDocument, 'title' | 'uri' | 'mediaType' | 'part' | 'offset' | 'pages' | 'firstPage' | 'start' | 'last' | 'again' | 'removed'>

/** Tokens of many calls together. */
export interface Tokens {
  /** Tokens of the prompts. */
  readonly promptTokens: number
  /** Tokens that the model wrote. */
  readonly completionTokens: number
  /** Calls whose tokens the server did not report. */
  readonly unreported: number
}

/** A Tokens to be written: fields with a default may be left out. */
export type TokensInit = Defaulted<Tokens, 'promptTokens' | 'completionTokens' | 'unreported'>

/** A subject that a chunk is about. */
export interface Topic {
  /** The name of the topic. */
  readonly topic: string
  /** What it is. */
  readonly definition: string
  /** Where it stands in the document; null where nobody looked. Not part of the id. */
  readonly grounding: Grounding | null
}

/** A Topic to be written: fields with a default may be left out. */
export interface TopicInit extends Omit<Topic, 'grounding'> {
  readonly grounding?: GroundingInit | null | undefined
}

/** A batch of topics of one chunk. */
export interface Topics {
  /** The run that found these facts. */
  readonly run: Run
  /** The model as the server names it. */
  readonly model: string | null
  /** The topics. */
  readonly facts: readonly Topic[]
}

/** A Topics to be written: fields with a default may be left out. */
export interface TopicsInit extends Defaulted<Omit<Topics, 'run' | 'facts'>, 'model'> {
  readonly run: RunInit
  readonly facts: readonly TopicInit[]
}

/** An RDF statement. */
export interface Triple {
  /** Subject. */
  readonly s: Term
  /** Predicate. */
  readonly p: Term
  /** Object. */
  readonly o: Term
  /** The IRI of the named graph; null is the default graph. */
  readonly g: string | null
}

/** A Triple to be written: fields with a default may be left out. */
export interface TripleInit extends Defaulted<Omit<Triple, 's' | 'p' | 'o'>, 'g'> {
  readonly s: TermInit
  readonly p: TermInit
  readonly o: TermInit
}

/** A batch of triples, at most 50. */
export interface Triples {
  /** The triples. */
  readonly triples: readonly Triple[]
}

/** A Triples to be written: fields with a default may be left out. */
export interface TriplesInit {
  readonly triples: readonly TripleInit[]
}

/** Tokens; null where the server did not report them. */
export interface Usage {
  /** Tokens of the prompt. */
  readonly promptTokens: number | null
  /** Tokens that the model wrote. */
  readonly completionTokens: number | null
  /** Both together. */
  readonly totalTokens: number | null
  /** The same by reason and model; empty where that is not known. */
  readonly spent: readonly Spent[]
}

/** A Usage to be written: fields with a default may be left out. */
export interface UsageInit extends Defaulted<Omit<Usage, 'spent'>, 'promptTokens' | 'completionTokens' | 'totalTokens'> {
  readonly spent?: readonly SpentInit[] | undefined
}

/** A version of a document, or its removal. */
export interface Version {
  /** The hash of the text; empty for a removal. */
  readonly version: string
  /** When it was loaded or removed. */
  readonly versionTime: number
  /** pending (not processed yet, or not completely), current (what readers see), superseded (a newer one came), late (it came after a newer one, and was passed over), removed (the document is removed), or removal (it was loaded again since). */
  readonly state: string
}

/** A Version to be written: fields with a default may be left out. */
export type VersionInit = Defaulted<Version, 'version'>

/** What a processor waits for. */
export interface Waiting {
  /** The processor. */
  readonly processor: string
  /** The topic whose messages wait. */
  readonly topic: string
  /** Why; its remedy is in docs/errors.md. */
  readonly error: Error
  /** When it was last reported: about every half minute while it lasts. */
  readonly time: number
  /** When the other side may be asked again, where it has said so. */
  readonly until: number | null
}

/** A Waiting to be written: fields with a default may be left out. */
export interface WaitingInit extends Defaulted<Omit<Waiting, 'error'>, 'until'> {
  readonly error: ErrorInit
}

/** Every message by name, as it is read. */
export interface Payloads {
  readonly Chunk: Chunk
  readonly Contents: Contents
  readonly Definitions: Definitions
  readonly EntityContexts: EntityContexts
  readonly LimitLease: LimitLease
  readonly OntologyAttributes: OntologyAttributes
  readonly OntologyEntities: OntologyEntities
  readonly OntologyRelationships: OntologyRelationships
  readonly Progress: Progress
  readonly PromptRequest: PromptRequest
  readonly PromptResponse: PromptResponse
  readonly Rejected: Rejected
  readonly Relationships: Relationships
  readonly Retractions: Retractions
  readonly Rows: Rows
  readonly Status: Status
  readonly TextCompletionRequest: TextCompletionRequest
  readonly TextCompletionResponse: TextCompletionResponse
  readonly TextDocument: TextDocument
  readonly Topics: Topics
  readonly Triples: Triples
}

/** Every message by name, as it is written. */
export interface PayloadInits {
  readonly Chunk: ChunkInit
  readonly Contents: ContentsInit
  readonly Definitions: DefinitionsInit
  readonly EntityContexts: EntityContextsInit
  readonly LimitLease: LimitLeaseInit
  readonly OntologyAttributes: OntologyAttributesInit
  readonly OntologyEntities: OntologyEntitiesInit
  readonly OntologyRelationships: OntologyRelationshipsInit
  readonly Progress: ProgressInit
  readonly PromptRequest: PromptRequestInit
  readonly PromptResponse: PromptResponseInit
  readonly Rejected: RejectedInit
  readonly Relationships: RelationshipsInit
  readonly Retractions: RetractionsInit
  readonly Rows: RowsInit
  readonly Status: StatusInit
  readonly TextCompletionRequest: TextCompletionRequestInit
  readonly TextCompletionResponse: TextCompletionResponseInit
  readonly TextDocument: TextDocumentInit
  readonly Topics: TopicsInit
  readonly Triples: TriplesInit
}
