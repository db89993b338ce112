// The contract between graphmill and a language model: a request in, a stream of deltas out, then exactly one end.
import type { AnswerMode, ProviderName, ResolvedMode } from '../config/models.ts'

/** A JSON Schema, as an object. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** A message of a conversation with a model. */
export interface TextMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** Sampling parameters. A parameter that is not set is not sent. */
export interface Sampling {
  readonly temperature?: number
  /** The largest reply, in tokens. */
  readonly maxTokens?: number
  readonly topP?: number
  readonly seed?: number
  readonly frequencyPenalty?: number
  readonly presencePenalty?: number
  readonly stop?: readonly string[]
}

/** The prompt behind a request. Only the `offline` model reads it: it is never on the wire, and not a part of cache keys. */
export interface RequestOrigin {
  readonly promptId: string
  readonly terms: Readonly<Record<string, unknown>>
  readonly schema?: JsonSchema | undefined
}

/** What a text-completion service has answered. */
export interface ServiceReply {
  readonly text: string
  readonly usage: Usage
  readonly model: string | undefined
}

/** Asks the text-completion service of a flow. Throws `llm_unavailable` after the time. */
export type AskService = (
  asked: { readonly system: string; readonly prompt: string; readonly timeoutMs: number },
  signal: AbortSignal,
) => Promise<ServiceReply>

/** What a model is asked. */
export interface CompletionRequest {
  readonly messages: readonly TextMessage[]
  readonly sampling?: Sampling
  /** Further fields of the request's body, such as `response_format` or `grammar`. They are sent unchanged. */
  readonly extras?: Readonly<Record<string, unknown>>
  readonly origin?: RequestOrigin
  /** The text-completion service of the flow, for a model that is reached through it. */
  readonly service?: AskService
  /** The `traceparent` of what the call is made for: its span is a child of it. Never on the wire. */
  readonly traceparent?: string | undefined
}

/** Why a reply ended. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'error'

/** Tokens. A count is null when the server's report lacks it, or is malformed. */
export interface Usage {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly totalTokens: number | null
}

/** A piece of the reply, or its end. */
export type CompletionEvent =
  | { readonly type: 'delta'; readonly kind: 'content' | 'reasoning'; readonly text: string }
  | {
      readonly type: 'end'
      readonly finishReason: FinishReason
      readonly usage: Usage
      /** The model as the server names it. */
      readonly model: string
      /** The last body or chunk, verbatim. */
      readonly raw: unknown
    }

/** How a provider is asked for JSON: by fields of the request's body, to be sent as `extras`. */
export interface JsonFormat {
  /** The output modes that are named after this format: with a schema, and for any object. Default: none is; `native` uses it. */
  readonly schemaMode?: ResolvedMode
  readonly objectMode?: ResolvedMode
  /** A schema must describe an object at its root. */
  readonly objectsOnly: boolean
  /** JSON mode: the reply is any JSON object. Default: there is no such mode. */
  readonly object?: Readonly<Record<string, unknown>>
  /** The reply fits `schema`. Without `named`, a format that gives the schema a name or `strict` derives them from it. */
  schema(
    schema: JsonSchema,
    named?: { readonly name: string; readonly strict: boolean },
  ): Readonly<Record<string, unknown>>
  /** The same without `strict`, for a server that refuses it; undefined when the fields for this schema are not strict. */
  loose?(schema: JsonSchema): Readonly<Record<string, unknown>> | undefined
  /** The fields for a `response_format` that a caller wrote for OpenAI's API. */
  translate(responseFormat: JsonSchema): Readonly<Record<string, unknown>>
}

/** A model. A program may implement it itself: `stream` and `ready` are the work. */
export interface Llm {
  readonly provider: ProviderName
  /** The name of the model. */
  readonly model: string
  /** Where the text goes, for display: an address without credentials, or `in this process`. */
  readonly destination: string
  /** The model runs in this process: no text leaves it, and calls cost nothing. Default false. */
  readonly isLocal?: boolean
  /** The model is reached through the text-completion service of the flow. Default false. */
  readonly usesService?: boolean
  /** How this model is asked for JSON; false when it can be asked only in the prompt. Default: its provider's. */
  readonly jsonFormat?: JsonFormat | false
  /** The mode that `auto` means for this model, in `answerJson`. Default: that of `jsonFormat`, else `text-based`. */
  readonly jsonType?: string
  /** The output mode, unless the call or the prompt has one: `--output-mode`. Default: chosen for the model. */
  readonly outputMode?: AnswerMode
  /** Sampling parameters, unless the call or the prompt has some: `--temperature`. Default: none. */
  readonly sampling?: Sampling
  /** What else replies depend on, such as a context length. It is a part of cache keys. Default: nothing. */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** The key of this model's circuit: `llm:<provider> <destination> <model>`. */
  readonly circuit: string
  /**
   * Deltas as the server sends them, then exactly one `end`. A stream that breaks off throws `llm_unavailable`.
   * Nothing is retried. Aborting `signal` or leaving the iterator cancels the request at the server.
   */
  stream(request: CompletionRequest, signal: AbortSignal): AsyncIterable<CompletionEvent>
  /**
   * Whether the server is known to constrain replies to a JSON Schema, so that `auto` may rely on it. False when the server
   * can't be asked. Default: it is not known to.
   */
  constrains?(signal: AbortSignal): Promise<boolean>
  /** The ids of the models that the server lists; none if it has no list. Default: it can't be asked. */
  listModels?(signal: AbortSignal): Promise<readonly string[]>
  /** A cheap check of key, model and server. Throws `llm_authentication`, `llm_model_unknown`, `llm_unavailable`. */
  ready(signal: AbortSignal): Promise<void>
}
