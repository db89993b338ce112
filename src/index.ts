// The public API of graphmill: what a program needs to write processors, run them, ask prompts and models, and read streams of JSON.

export { processors } from '../processors/index.ts'
// brokers
export type { Broker, Delivery, OutgoingBytes, Subscription, TopicRange, TopicSpec } from './broker/broker.ts'
export { type ConnectOptions, connect } from './broker/connect.ts'
export { createMemoryCluster, type MemoryCluster, type MemoryClusterOptions } from './broker/memory/memory.ts'
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
  type ErrorCode,
  errorTable,
  GraphmillError,
  type GraphmillErrorOptions,
  type Retry,
} from './errors.ts'
export { type Extraction, ExtractionIncomplete, type ExtractOptions, extract } from './extraction/extract.ts'
// processors
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
export { type AskPromptOptions, PromptClient, type PromptClientOptions } from './flow/prompt-client.ts'
export { type FlowRuntime, type FlowRuntimeOptions, run } from './flow/run.ts'
export { defineSink, type SinkOptions } from './flow/sink.ts'
// streams of JSON
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
export { type AnthropicOptions, createAnthropic, listAnthropicModels } from './llm/anthropic/anthropic.ts'
export type { SpanSettings } from './llm/call-span.ts'
export { createGemini, type GeminiOptions, listGeminiModels } from './llm/gemini/gemini.ts'
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
export {
  type AttemptRecord,
  fullJitter,
  isTransient,
  type ReaskContext,
} from './llm/structured-output/attempts.ts'
export { StructuredOutputInvalid } from './llm/structured-output/invalid-error.ts'
// models
export { type AnswerJsonOptions, answerJson, type JsonAnswer } from './llm/structured-output/json-answer.ts'
export type { ProviderUsage } from './llm/usage.ts'
// messages
export type { Header, Message } from './messages/envelope.ts'
export type {
  Chunk,
  Definition,
  Definitions,
  EntityContext,
  EntityContexts,
  Error as MessageError,
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
  Status,
  Term,
  TextCompletionRequest,
  TextCompletionResponse,
  TextDocument,
  Tokens,
  Topic,
  Topics,
  Triple,
  Triples,
  Usage as MessageUsage,
} from './messages/generated.ts'
// other parts of a flow
export { createLogger } from './observe/log.ts'
// ontologies
export { type Ontologies, openOntologies } from './ontology/ontologies.ts'
export type { OntologyOptions } from './ontology/worker-client.ts'
export { loadCatalogue } from './prompt/catalogue/catalogue.ts'
export type { Catalogue, Prompt } from './prompt/catalogue/prompt.ts'
export { openFolderStore } from './rdf/folder-store.ts'
export {
  openFileStore,
  openStreamStore,
  type StoreOptions,
  type TripleStore,
} from './rdf/store.ts'
export type { TripleFormat } from './rdf/write.ts'
