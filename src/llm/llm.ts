// The contract between graphmill and a language model: a request in, a stream of deltas out, then exactly one end.
import type { AnswerMode, ProviderName, ResolvedMode } from '../config/models.ts'

export type JsonSchema = Readonly<Record<string, unknown>>

export interface TextMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

/** Sampling parameters. What is not set is not sent. */
export interface Sampling {
  readonly temperature?: number
  /** The most tokens that the model may write. */
  readonly maxTokens?: number
  readonly topP?: number
  readonly seed?: number
  readonly frequencyPenalty?: number
  readonly presencePenalty?: number
  readonly stop?: readonly string[]
}

/** Where a request comes from. Only the `offline` model reads it; it is never on the wire and never in a cache key. */
export interface RequestOrigin {
  readonly promptId: string
  readonly terms: Readonly<Record<string, unknown>>
  readonly schema?: JsonSchema | undefined
}

export interface CompletionRequest {
  readonly messages: readonly TextMessage[]
  readonly sampling?: Sampling
  /** Further fields for the body of the request, such as `response_format` or `grammar`, forwarded untouched. */
  readonly extras?: Readonly<Record<string, unknown>>
  readonly origin?: RequestOrigin
}

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'error'

/** Tokens; a count that the server did not report (or malformed) is null. */
export interface Usage {
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly totalTokens: number | null
}

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

/** How a provider is asked for JSON. Each member gives fields for the body of a request: its `extras`. */
export interface JsonFormat {
  /** The output modes that mean this format: with a schema, and with any object. */
  readonly schemaMode: ResolvedMode
  readonly objectMode: ResolvedMode
  /** A schema must describe an object at its root. */
  readonly objectsOnly: boolean
  /** JSON mode: the reply is any JSON object. */
  readonly object: Readonly<Record<string, unknown>>
  /** The reply fits `schema`. Without `named`, a format that gives the schema a name or `strict` derives them from it. */
  schema(
    schema: JsonSchema,
    named?: { readonly name: string; readonly strict: boolean },
  ): Readonly<Record<string, unknown>>
  /** What a caller's own `response_format`, as OpenAI's API has it, is in this format. */
  translate(responseFormat: JsonSchema): Readonly<Record<string, unknown>>
}

export interface Llm {
  readonly provider: ProviderName
  /** The model that is asked for. */
  readonly model: string
  /** Where the text goes, for people: an address without credentials, or `in this process`. */
  readonly destination: string
  /** It runs in this process: no text leaves it, and a call costs nothing. Default false. */
  readonly isLocal?: boolean
  /** How this model is asked for JSON; false: it can't be asked, except in words. Default: OpenAI's `response_format`. */
  readonly jsonFormat?: JsonFormat | false
  /** What `answerJson` takes for `auto` with this model: a name of its modes. Default: the mode of `jsonFormat`, else `text-based`. */
  readonly jsonType?: string
  /** How this model is asked for JSON where neither the call nor the prompt says so: `--output-mode`. */
  readonly outputMode?: AnswerMode
  /** What its requests are sampled with where neither the call nor the prompt says so: `--temperature`. Default: nothing. */
  readonly sampling?: Sampling
  /** What its requests say of themselves beside all that, such as a context length: replies depend on it. Default: nothing. */
  readonly defaults?: Readonly<Record<string, unknown>>
  /** The key of this model's circuit: `llm:<provider> <destination> <model>`. */
  readonly circuit: string
  /**
   * Deltas as the server sends them, then exactly one `end`. A stream that breaks off throws `llm_unavailable`.
   * Nothing is retried here. Aborting `signal`, or returning the iterator, cancels the request upstream.
   */
  stream(request: CompletionRequest, signal: AbortSignal): AsyncIterable<CompletionEvent>
  /**
   * Whether the server is one that keeps a reply to a JSON Schema, so that `auto` may rely on it. Where there is none of it,
   * or the server cannot be asked, it is not.
   */
  constrains?(signal: AbortSignal): Promise<boolean>
  /** One cheap call that tells whether `stream` would be accepted: throws `llm_authentication`, `llm_model_unknown`, `llm_unavailable`. */
  ready(signal: AbortSignal): Promise<void>
}
