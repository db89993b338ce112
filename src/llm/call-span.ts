// The span of one model call, with the attributes of OpenArmature's observability (5.5) and of OpenTelemetry's conventions for
// generative AI. What was asked and answered is recorded only on demand, and never the bytes of an image.
import type { Attributes } from '@opentelemetry/api'
import { startSpan } from '../observe/trace.ts'
import { beyondCut, redact, redactAll } from '../redact.ts'
import { flatJson } from './cache/canonical.ts'
import type { CompletionEvent, FinishReason, Llm, Sampling } from './llm.ts'
import { ProviderError } from './provider-error.ts'
import { StructuredOutputInvalid } from './structured-output/invalid-error.ts'
import type { ProviderUsage } from './usage.ts'

/** What the span of a model call records. */
export interface SpanSettings {
  /** Whether messages, replies, arguments of tools and extra fields are recorded. Default false. */
  readonly payload?: boolean | undefined
  /** The most bytes of each such attribute; the rest is cut off, and a mark says so. At least 256. Default 65,536. */
  readonly maxBytes?: number | undefined
  /** Whether the attributes `gen_ai.*`, and those of the server's cache, are set. Default true. */
  readonly genAi?: boolean | undefined
}

type Fields = Readonly<Record<string, unknown>>

export interface AskedCall {
  /** `gen_ai.system`: the kind of server. */
  readonly system: string
  readonly model: string
  readonly sampling: { readonly [N in keyof Sampling]?: Sampling[N] | null | undefined }
  readonly extras: Fields | undefined
  /** In OpenArmature's form, without the bytes of images. Called only when payload is recorded. */
  readonly messages: () => unknown
  readonly attemptIndex?: number
  readonly retryReason?: string | undefined
  /** The `traceparent` of the cause. Default: the active span. */
  readonly parent?: string | undefined
}

export interface AnsweredCall {
  readonly content: string
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
  /** The server's body or last chunk: its model and id are those of the reply. */
  readonly raw?: unknown
  readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly arguments: unknown }[]
}

export interface CallSpan {
  readonly isRecorded: boolean
  /** Runs `work` with this as the active span. */
  within<T>(work: () => T): T
  answered(answer: AnsweredCall): void
  /** Ends the span; `thrown` says why the call failed. */
  end(thrown?: unknown): void
}

export const spanName = 'openarmature.llm.complete'
const defaultMaxBytes = 65_536

/** The span of a call that begins now. */
export function startCallSpan(asked: AskedCall, settings: SpanSettings = {}): CallSpan {
  const parent = asked.parent === undefined ? {} : { parent: asked.parent }
  const span = startSpan(spanName, {
    kind: 'client',
    ...parent,
    attributes: () => chosen(askedAttributes(asked, settings), settings),
  })
  let isAnswered = false
  const answered = (answer: AnsweredCall) => {
    isAnswered = true
    span.set(() => chosen(answeredAttributes(answer, settings), settings))
  }
  return {
    isRecorded: span.isRecorded,
    within: span.within,
    answered,
    end(thrown) {
      if (thrown === undefined) {
        if (isAnswered) span.succeed()
        return span.end()
      }
      if (thrown instanceof StructuredOutputInvalid) {
        const { outputContent: content, finishReason, usage } = thrown
        answered({ content, finishReason, usage })
      }
      const category = thrown instanceof ProviderError ? thrown.category : undefined
      span.set(() => ({ 'openarmature.error.category': category }))
      span.end(thrown instanceof Error ? thrown : new Error(String(thrown)), category)
    },
  }
}

/** The same model, with a span for each call. */
export function traced(llm: Llm, settings: SpanSettings): Llm {
  return {
    ...llm,
    stream({ traceparent, ...request }, signal) {
      const { sampling = {}, extras, messages } = request
      const asked = { system: llm.provider, model: llm.model, sampling, extras, messages: () => messages }
      const span = startCallSpan({ ...asked, parent: traceparent }, settings)
      const events = llm.stream(request, signal)
      return span.isRecorded ? recorded(events, span, settings) : events
    },
  }
}

async function* recorded(
  events: AsyncIterable<CompletionEvent>,
  span: CallSpan,
  { payload = false, maxBytes = defaultMaxBytes }: SpanSettings,
): AsyncGenerator<CompletionEvent> {
  let failure: unknown
  let [content, bytes] = ['', 0]
  try {
    for await (const event of events) {
      if (event.type === 'end') {
        const { finishReason, usage, model, raw } = event
        const said = payload ? capped(redact(content), maxBytes, bytes) : ''
        span.answered({
          content: said,
          finishReason,
          usage,
          raw: { model, id: fieldOf(raw, 'id') ?? fieldOf(raw, 'responseId') },
        })
      } else if (payload && event.kind === 'content') {
        bytes += Buffer.byteLength(event.text)
        if (content.length <= maxBytes + beyondCut) content += event.text
      }
      yield event
    }
  } catch (thrown) {
    failure = thrown
    throw thrown
  } finally {
    span.end(failure)
  }
}

function askedAttributes(asked: AskedCall, { payload, maxBytes }: SpanSettings): Attributes {
  const { system, model, sampling, extras = {}, attemptIndex = 0, retryReason, messages } = asked
  return {
    'openarmature.llm.model': model,
    'openarmature.llm.attempt_index': attemptIndex,
    'openarmature.llm.retry_reason': retryReason,
    'gen_ai.system': system,
    'gen_ai.request.model': model,
    'gen_ai.request.temperature': sampling.temperature ?? undefined,
    'gen_ai.request.max_tokens': sampling.maxTokens ?? undefined,
    'gen_ai.request.top_p': sampling.topP ?? undefined,
    'gen_ai.request.seed': sampling.seed ?? undefined,
    'gen_ai.request.frequency_penalty': sampling.frequencyPenalty ?? undefined,
    'gen_ai.request.presence_penalty': sampling.presencePenalty ?? undefined,
    'gen_ai.request.stop_sequences': sampling.stop ? [...sampling.stop] : undefined,
    ...(payload && {
      'openarmature.llm.input.messages': shown(flatJson(messages()), maxBytes),
      'openarmature.llm.request.extras':
        Object.keys(extras).length > 0 ? shown(flatJson(extras), maxBytes) : undefined,
    }),
  }
}

function answeredAttributes(answer: AnsweredCall, { payload, maxBytes }: SpanSettings): Attributes {
  const { content, finishReason, usage, raw, toolCalls = [] } = answer
  const { promptTokens, completionTokens, totalTokens, cachedTokens, cacheCreationTokens } = usage
  return {
    'openarmature.llm.finish_reason': finishReason,
    'openarmature.llm.usage.prompt_tokens': promptTokens ?? undefined,
    'openarmature.llm.usage.completion_tokens': completionTokens ?? undefined,
    'openarmature.llm.usage.total_tokens': totalTokens ?? undefined,
    'openarmature.llm.cache_read.input_tokens': cachedTokens ?? undefined,
    'openarmature.llm.cache_creation.input_tokens': cacheCreationTokens ?? undefined,
    'gen_ai.response.model': textField(raw, 'model') ?? textField(raw, 'modelVersion'),
    'gen_ai.response.id': textField(raw, 'id') ?? textField(raw, 'responseId'),
    'gen_ai.response.finish_reasons': [finishReason],
    'gen_ai.usage.input_tokens': promptTokens ?? undefined,
    'gen_ai.usage.output_tokens': completionTokens ?? undefined,
    ...(toolCalls.length > 0 && {
      'openarmature.llm.output.tool_calls.count': toolCalls.length,
      'openarmature.llm.output.tool_calls.names': toolCalls.map(({ name }) => name),
      'openarmature.llm.output.tool_calls.ids': toolCalls.map(({ id }) => id),
    }),
    ...(payload && {
      'openarmature.llm.output.content': content === '' ? undefined : shown(content, maxBytes),
      'openarmature.llm.output.tool_calls':
        toolCalls.length > 0
          ? shown(
              flatJson(toolCalls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given }))),
              maxBytes,
            )
          : undefined,
    }),
  }
}

/** The attributes without secrets; when `genAi` is false, also without `gen_ai.*` and those of the cache. */
function chosen(attributes: Attributes, { genAi = true }: SpanSettings): Attributes {
  const clean = redactAll(attributes)
  if (genAi) return clean
  return Object.fromEntries(
    Object.entries(clean).filter(([name]) => !/^gen_ai\.|\.cache_(read|creation)\./.test(name)),
  )
}

/** A secret is hidden before the text is cut, so that no part of it stays. */
function shown(text: string, most: number | undefined): string {
  return capped(redact(text), most)
}

/** At most `most` bytes of UTF-8: the beginning, and a mark with the length of the whole. No character is cut. */
export function capped(text: string, most = defaultMaxBytes, bytes = Buffer.byteLength(text)): string {
  if (bytes <= most) return text
  const mark = `…[truncated, ${bytes} bytes total]`
  const room = most - Buffer.byteLength(mark)
  // A character has at least one byte.
  const begin = Buffer.from(text.slice(0, room))
  let end = Math.min(room, begin.length)
  while (end < begin.length && (begin[end]! & 0xc0) === 0x80) end--
  return begin.toString('utf8', 0, end) + mark
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Fields)[name] : undefined
}

function textField(value: unknown, name: string): string | undefined {
  const field = fieldOf(value, name)
  return typeof field === 'string' ? field : undefined
}
