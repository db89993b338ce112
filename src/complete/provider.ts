// OpenArmature's provider contract as types: the request of a completion, and its response. One model per provider, no state,
// no loop over tools; no argument is ever changed. Names are the specification's in camel case (`toolCallId` is
// `tool_call_id`, `responseSchema` is `response_schema`, …); on the wire they are the server's own.
import type { SpanSettings } from '../llm/call-span.ts'
import type { FinishReason, JsonSchema } from '../llm/llm.ts'
import type { AttemptPolicy, AttemptRecord } from '../llm/structured-output/attempts.ts'
import type { ProviderUsage } from '../llm/usage.ts'

export interface TextBlock {
  readonly type: 'text'
  /** Not empty. */
  readonly text: string
  /** Opaque, bound to a provider; never sent to an OpenAI-compatible server. */
  readonly signature?: string
}

/** An image for the model. Its bytes or its address are sent as they are, without a look at the image itself. */
export interface ImageBlock {
  readonly type: 'image'
  readonly source:
    | { readonly type: 'url'; readonly url: string }
    | { readonly type: 'inline'; readonly base64Data: string }
  /** Such as `image/png`. Required with an inline source; without meaning beside a URL. */
  readonly mediaType?: string | undefined
  /** How closely the model looks at it. Left out where a server has no such setting. */
  readonly detail?: 'auto' | 'low' | 'high' | undefined
}

/** What a model thought before it answered. Not sent back to an OpenAI-compatible server. */
export interface ThinkingBlock {
  readonly type: 'thinking'
  readonly text: string
  readonly signature?: string
}

/** A thought that the provider withholds. Opaque; goes back only to the provider that made it. */
export interface RedactedThinkingBlock {
  readonly type: 'redacted_thinking'
  readonly data: string
}

/** A part of what the user says. */
export type UserBlock = TextBlock | ImageBlock
/** A part of what the model said. */
export type AssistantBlock = TextBlock | ThinkingBlock | RedactedThinkingBlock
/** A part of a message. */
export type ContentBlock = UserBlock | AssistantBlock

/** Only as the first message. */
export interface SystemMessage {
  readonly role: 'system'
  readonly content: string
}

export interface UserMessage {
  readonly role: 'user'
  /** Not empty; a list of one text block is the same as its text. */
  readonly content: string | readonly UserBlock[]
}

export interface AssistantMessage {
  readonly role: 'assistant'
  /** Empty, null or absent only beside tool calls. */
  readonly content?: string | readonly AssistantBlock[] | null
  readonly toolCalls?: readonly ToolCall[]
}

export interface ToolMessage {
  readonly role: 'tool'
  readonly content: string
  /** The id of an earlier assistant message's call. */
  readonly toolCallId: string
}

/** A message of a conversation. */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/** A function that the model asked for. */
export interface ToolCall {
  /** Verbatim from the provider. */
  readonly id: string
  readonly name: string
  /** Null only in a reply that ended with `error` and whose arguments could not be parsed; the text is in `raw`. */
  readonly arguments: Readonly<Record<string, unknown>> | null
  readonly signature?: string
}

/** A function that the model may ask for. */
export interface Tool {
  /** Unique in a request. */
  readonly name: string
  readonly description: string
  /** A JSON Schema whose root is an object. */
  readonly parameters: JsonSchema
}

/** Whether the model must ask for a function, and for which. */
export type ToolChoice = 'auto' | 'required' | 'none' | { readonly type: 'tool'; readonly name: string }

/** What is absent, undefined or null is not sent. */
export interface RuntimeConfig {
  readonly temperature?: number | null | undefined
  readonly maxTokens?: number | null | undefined
  readonly topP?: number | null | undefined
  readonly seed?: number | null | undefined
  readonly frequencyPenalty?: number | null | undefined
  readonly presencePenalty?: number | null | undefined
  readonly stopSequences?: readonly string[] | null | undefined
  /** Further fields for the root of the request's body, forwarded untouched; one that contradicts a managed field is refused. */
  readonly extras?: Readonly<Record<string, unknown>> | undefined
}

/** What is asked. `responseSchema` is a JSON Schema whose root is an object. */
export interface ProviderRequest {
  readonly messages: readonly Message[]
  readonly tools?: readonly Tool[] | undefined
  readonly toolChoice?: ToolChoice | undefined
  readonly config?: RuntimeConfig | undefined
  readonly responseSchema?: JsonSchema | undefined
}

/** How structured output was asked for: in `response_format`, or by a directive in the system message. */
export type OutputPath = 'native' | 'fallback'

/** When a failed call is made again. */
export interface RetryPolicy extends AttemptPolicy {
  /** Laid over the base config: the first entry for the second attempt, and so on; the last entry for all later attempts. */
  readonly perAttemptOverride?: readonly RuntimeConfig[]
}

/** How it is asked. */
export interface CallOptions {
  /** Without it there is exactly one attempt. */
  readonly retry?: RetryPolicy | undefined
  /** Consume the reply as a stream; what is returned is the same. Default false. */
  readonly stream?: boolean | undefined
  /** With `stream`: receives every delta as it arrives. Not awaited. */
  readonly onToken?: ((event: TokenEvent) => void) | undefined
  /** Receives every attempt when it has ended. */
  readonly onAttempt?: ((attempt: AttemptRecord) => void) | undefined
  /** The path for a `responseSchema`, without the provider's own choice: a refused `native` is then an error. */
  readonly outputMode?: OutputPath | undefined
  /**
   * A further check of a value that fits the schema: returns the value to use, or throws what is wrong with it, which becomes
   * a `structured_output_invalid`.
   */
  readonly refine?: ((value: unknown) => unknown) | undefined
  /** What the spans of the call record; they exist when the program has set up an OpenTelemetry SDK. */
  readonly trace?: SpanSettings | undefined
  readonly signal?: AbortSignal | undefined
}

/** A piece of the reply while it arrives. */
export interface TokenEvent {
  readonly deltaKind: 'content' | 'reasoning'
  readonly delta: string
  /** From 0 in every attempt. */
  readonly chunkIndex: number
  /** The same for all deltas of an attempt, different for the next attempt. */
  readonly callId: string
}

/** What `complete` resolves to. */
export interface Response<T = unknown> {
  /** `content` is what the model wrote, verbatim: text, blocks when it also thought, null when it only calls tools. */
  readonly message: AssistantMessage & { readonly content: string | readonly AssistantBlock[] | null }
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
  /** The server's body, parsed and otherwise untouched; for a stream, put together from its chunks. */
  readonly raw: Readonly<Record<string, unknown>>
  /** The checked value; undefined without a schema, and when the model calls tools. */
  readonly parsed: T
  /** The model as the server names it. */
  readonly model: string
  /** The path that was taken; absent without a schema. */
  readonly outputMode?: OutputPath
  /** All attempts of this call, this one last. */
  readonly attempts: readonly AttemptRecord[]
}

/** A model as `complete` asks it. */
export interface Provider {
  readonly model: string
  /**
   * One cheap probe; success means that `complete` would not raise `provider_authentication`, `provider_invalid_model`,
   * `provider_model_not_loaded` or `provider_unavailable` now. Never called by `complete`.
   */
  ready(signal?: AbortSignal): Promise<void>
  /** One completion. Every failure is a `ProviderError` with one of the nine categories; an abort is the signal's reason. */
  complete(request: ProviderRequest, options?: CallOptions): Promise<Response>
}

/** The text of a message, without images and what the model thought. */
export function textOf(message: { readonly content?: Message['content'] }): string {
  const { content } = message
  if (typeof content === 'string') return content
  return (content ?? []).map((block) => (block.type === 'text' ? block.text : '')).join('')
}
