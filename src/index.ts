// The public API of graphmill, by what it is for. What is not here is internal. Everything here has a comment where it is declared, and
// the build makes dist/api.md of them: the comments between the groups are its headings.

// Extracting

export type { SkippedFile } from './documents/files.ts'
export type {
  DocumentEvent,
  EndEvent,
  ExtractedRow,
  ExtractionEvent,
  FactEvent,
  FactKinds,
  FailedEvent,
  Origin,
  ProgressEvent,
  RejectedEvent,
  SkippedEvent,
  TriplesEvent,
} from './extraction/events.ts'
export { type Extraction, ExtractionIncomplete, type ExtractOptions, extract } from './extraction/extract.ts'
export type { DocumentSource, Source, Sources } from './extraction/sources.ts'
export type {
  DocumentResult,
  ErrorResult,
  ExtractionCounts,
  ExtractionProgress,
  ExtractionSummary,
  FailedSource,
  UnitCounts,
  Waiting,
} from './extraction/summary.ts'
export type { SubprocessLimits as DocumentLimits } from './subprocess/subprocess.ts'

// Triples and stores

export type { Term, Triple } from './messages/generated.ts'
export { openFolderStore } from './rdf/folder-store.ts'
export { openGraphStore } from './rdf/graph-store.ts'
export { openSparqlStore, type SparqlStoreOptions } from './rdf/sparql-store.ts'
export { openFileStore, openStreamStore, type StoreOptions, type TripleStore } from './rdf/store.ts'
export {
  createEncoder,
  type Encoder,
  type EncoderOptions,
  type GraphFormat,
  type TripleFormat,
} from './rdf/write.ts'

// Models

export { type AnthropicOptions, createAnthropic, listAnthropicModels } from './llm/anthropic/anthropic.ts'
export {
  type CacheOptions,
  openCache as openReplyCache,
  type ReplyCache,
} from './llm/cache/reply-cache.ts'
export type { SpanSettings } from './llm/call-span.ts'
export { createGemini, type GeminiOptions, listGeminiModels } from './llm/gemini/gemini.ts'
export type { Price } from './llm/limits/prices.ts'
export {
  createRateLimiter,
  type Pause,
  type RateLimiter,
  type RateLimiterOptions,
} from './llm/limits/rate-limiter.ts'
export type {
  CompletionEvent,
  CompletionRequest,
  FinishReason,
  JsonFormat,
  JsonSchema,
  Llm,
  Sampling,
  TextMessage,
  Usage,
} from './llm/llm.ts'
export { createOffline } from './llm/offline/offline.ts'
export { createOllama, listOllamaModels, type OllamaOptions } from './llm/ollama/ollama.ts'
export { createOpenAi, type OpenAiOptions } from './llm/openai/openai.ts'
export { type Category, ProviderError } from './llm/provider-error.ts'
export type { ProviderUsage } from './llm/usage.ts'
export type { RunLimits } from './prompt/engine/reply.ts'

// Prompts, tables and ontologies

export { type Ontologies, openOntologies } from './ontology/ontologies.ts'
export type { OntologyOptions } from './ontology/worker-client.ts'
export { loadCatalogue } from './prompt/catalogue/catalogue.ts'
export type { Catalogue, Prompt } from './prompt/catalogue/prompt.ts'
export { loadRowSchemas } from './rows/load.ts'
export type { RowSchema } from './rows/row-schema.ts'

// Processors

export { processors } from '../processors/index.ts'
export {
  defineExtractor,
  defineUnitExtractor,
  type Extractor,
  type ExtractorOptions,
  type Fact,
  type Item,
  type UnitExtractorOptions,
} from './flow/extractor.ts'
export type { InputPort, InputPorts, OutputPort, OutputPorts } from './flow/ports.ts'
export {
  type AnyProcessor,
  type Clock,
  type Context,
  type Deferral,
  defineProcessor,
  type FlowSettings,
  type Ids,
  type Output,
  type Outputs,
  type Processor,
  type Scope,
} from './flow/processor.ts'
export { defineSink, type SinkOptions } from './flow/sink.ts'

// Flows on a broker

export type {
  Broker,
  Delivery,
  GroupBacklog,
  OutgoingBytes,
  Subscription,
  TopicRange,
  TopicSpec,
} from './broker/broker.ts'
export { type ConnectOptions, connect } from './broker/connect.ts'
export { createMemoryCluster, type MemoryCluster, type MemoryClusterOptions } from './broker/memory/memory.ts'
export { type EraseDocumentsOptions, eraseDocuments } from './extraction/erase-documents.ts'
export {
  type FlowPlace,
  type LoadDocumentOptions,
  loadDocument,
  removeDocument,
} from './extraction/load-document.ts'
export type { Erasure, FoundMessages } from './flow/erasure.ts'
export type { LoadedDocument } from './flow/load-document.ts'
export { type AskPromptOptions, PromptClient, type PromptClientOptions } from './flow/prompt-client.ts'
export { type FlowRuntime, type FlowRuntimeOptions, run } from './flow/run.ts'
export { createLogger } from './observe/log.ts'

// Messages

export type { Header, Message } from './messages/envelope.ts'
export type {
  Chunk,
  Definition,
  Definitions,
  EntityContext,
  EntityContexts,
  Error as MessageError,
  Grounding,
  OntologyAttribute,
  OntologyAttributes,
  OntologyEntities,
  OntologyEntity,
  OntologyRelationship,
  OntologyRelationships,
  PayloadInits,
  Payloads,
  Progress,
  PromptRequest,
  PromptResponse,
  Rejected,
  Rejection,
  Relationship,
  Relationships,
  Rows,
  Run,
  Span,
  Status,
  TextCompletionRequest,
  TextCompletionResponse,
  TextDocument,
  Tokens,
  Topic,
  Topics,
  Triples,
  Usage as MessageUsage,
} from './messages/generated.ts'

// Streams of JSON and items

export { readConcatenatedJson } from './formats/concatenated.ts'
export type {
  ByteSource,
  Format as StreamFormat,
  FormatEvent,
  FormatOptions,
  FormatRepair,
} from './formats/format.ts'
export { readJsonLines, readNdjson } from './formats/json-lines.ts'
export { readJsonSeq } from './formats/json-seq.ts'
export { type ParsedFormat, parseFormat, readFormat } from './formats/read-format.ts'
export type { ItemEvent, ItemsEnd, RejectReason, RepairName, Thoughts } from './items/item.ts'
export { type ItemsSummary, type ModelText, type ParseItemsOptions, parseItems } from './items/parse-items.ts'

// Structured output

export { type AnthropicProviderOptions, createAnthropicProvider } from './complete/anthropic/anthropic.ts'
export { type CompleteRequest, complete } from './complete/complete.ts'
export { createGeminiProvider, type GeminiProviderOptions } from './complete/gemini/gemini.ts'
export { createLlmProvider, type LlmProviderOptions } from './complete/llm-provider.ts'
export { createOpenAiProvider, type OpenAiProviderOptions } from './complete/openai/openai.ts'
export {
  type AssistantBlock,
  type CallOptions,
  type ContentBlock,
  type ImageBlock,
  type Message as ChatMessage,
  type OutputPath,
  type Provider,
  type ProviderRequest,
  type Response,
  type RetryPolicy,
  type RuntimeConfig,
  type TokenEvent,
  type Tool,
  type ToolCall,
  type ToolChoice,
  textOf,
  type UserBlock,
} from './complete/provider.ts'
export { type AnswerMode, answerModes, type ResolvedMode } from './config/models.ts'
export {
  type AttemptRecord,
  fullJitter,
  isTransient,
  type ReaskContext,
} from './llm/structured-output/attempts.ts'
export { StructuredOutputInvalid } from './llm/structured-output/invalid-error.ts'
export { type AnswerJsonOptions, answerJson, type JsonAnswer } from './llm/structured-output/json-answer.ts'

// Errors

export {
  type ErrorCode,
  errorTable,
  GraphmillError,
  type GraphmillErrorOptions,
  type Retry,
} from './errors.ts'
