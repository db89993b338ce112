// What every provider does with a call, whatever its wire: the check of the request, the attempts, and the checked value.
import { type AskedCall, startCallSpan } from '../llm/call-span.ts'
import type { JsonSchema } from '../llm/llm.ts'
import { watchStringLoop } from '../llm/string-loop.ts'
import type { Attempt } from '../llm/structured-output/attempts.ts'
import type { CheckedSchema } from '../llm/structured-output/checked-schema.ts'
import { directiveFor, withSystemText } from '../llm/structured-output/directive.ts'
import { StructuredOutputInvalid } from '../llm/structured-output/invalid-error.ts'
import type { Refusals, Way } from '../llm/structured-output/schema-refusal.ts'
import { callStructured } from '../llm/structured-output/structured-call.ts'
import { exactValue } from '../llm/structured-output/value.ts'
import { unknownUsage } from '../llm/usage.ts'
import { blockRefusal } from './block-refusal.ts'
import { type CheckedRequest, checkRequest } from './check.ts'
import {
  type CallOptions,
  type OutputPath,
  type ProviderRequest,
  type Response,
  type RuntimeConfig,
  textOf,
} from './provider.ts'
import { recordedMessages } from './recorded-messages.ts'

/** What a server answered, in the contract's words. */
export type ProviderReply = Pick<Response, 'message' | 'finishReason' | 'usage' | 'model' | 'raw'>

/** One exchange with the server. */
export interface Exchange {
  /** That of this attempt: with what reasks added and, on the fallback path, the directive. */
  readonly request: ProviderRequest
  /** Absent without a schema. */
  readonly path: OutputPath | undefined
  /** The native path without `strict`. */
  readonly loose: boolean
  readonly checked: CheckedRequest
  readonly how: CallOptions
  readonly signal: AbortSignal
}

export interface Wire {
  readonly model: string
  /** The kind of server, as `gen_ai.system` names it. */
  readonly system: string
  /** Whether the server is expected to constrain output to a schema. */
  readonly native: boolean
  readonly refusals: Refusals
  /** Whether this schema goes to the server as `strict`, so that it may be sent without. Default: none does. */
  readonly isStrict?: (schema: JsonSchema) => boolean
  /** Refuses a request that this wire cannot carry. */
  readonly accept: (request: ProviderRequest, how: CallOptions) => void
  /** Whether the fallback makes the model call a tool with the value, instead of a directive. Default: never. */
  readonly canForceTool?: (request: ProviderRequest) => boolean
  readonly exchange: (exchange: Exchange) => Promise<ProviderReply>
}

/** `complete` of a provider with this wire. */
export async function completeOn(
  wire: Wire,
  request: ProviderRequest,
  how: CallOptions = {},
): Promise<Response> {
  const { refusals, accept, canForceTool, exchange } = wire
  const checked = checkRequest(request, how)
  accept(request, how)
  const { responseSchema: schema, tools } = checked
  const { retry, onAttempt, refine } = how
  const signal = how.signal ?? new AbortController().signal
  const { reply, value, mode, attempts } = await callStructured({
    schema,
    path: { ways: waysOf(wire, schema?.schema, how), refusals },
    goesOnAtOnce: true,
    onNote: (note) => process.emitWarning(note),
    extrasOf: (attempt) => configOf(request.config, how, attempt)?.extras,
    retry,
    onAttempt,
    signal,
    hasMoreRoom({ usage }, attemptIndex) {
      const [before, after] = [attemptIndex, attemptIndex + 1].map(
        (index) => configOf(request.config, how, { record: { attemptIndex: index } })?.maxTokens,
      )
      return after != null && after > (before ?? usage.completionTokens ?? Number.POSITIVE_INFINITY)
    },
    async ask({ mode: path, aid }, attempt) {
      const transcript = [...request.messages, ...attempt.added]
      const config = configOf(request.config, how, attempt)
      const plain = { ...request, messages: transcript, config }
      const byDirective = schema && path === 'fallback' && !canForceTool?.(plain)
      const asked = byDirective
        ? { ...plain, messages: withSystemText(transcript, directiveFor(schema.schema, tools.size > 0)) }
        : plain
      try {
        const watched = withLoopWatch(how, schema)
        return await exchange({ request: asked, path, loose: aid === 'loose', checked, how: watched, signal })
      } catch (thrown) {
        throw blockRefusal(thrown, asked)
      }
    },
    textOf({ message, finishReason }) {
      const text = textOf(message)
      const isToolCall = finishReason === 'tool_calls' || (message.toolCalls !== undefined && text === '')
      return schema && !isToolCall ? text : undefined
    },
    around: (attempt, work) => inSpan(work, askedCall(wire, request, { how, attempt }), how),
    find: (text) => exactValue(text, schema!.check),
    refine,
  })
  return { ...reply, parsed: value, ...(mode && { outputMode: mode }), attempts }
}

/** With a schema, a streamed reply that repeats itself without end fails as `repetition`. */
function withLoopWatch(how: CallOptions, schema: CheckedSchema | undefined): CallOptions {
  if (!how.stream || !schema) return how
  const loop = watchStringLoop()
  let outputContent = ''
  return {
    ...how,
    onToken(event) {
      how.onToken?.(event)
      if (event.deltaKind !== 'content') return
      outputContent += event.delta
      if (loop.end(event.delta) === undefined) return
      throw new StructuredOutputInvalid({
        code: 'repetition',
        errorMessage: 'it wrote the same again and again',
        outputContent,
        responseSchema: schema.schema,
        finishReason: 'length',
        usage: unknownUsage,
      })
    },
  }
}

interface AttemptOfCall {
  readonly how: CallOptions
  readonly attempt: Attempt
}

function askedCall(
  { model, system }: Wire,
  request: ProviderRequest,
  { how, attempt }: AttemptOfCall,
): AskedCall {
  const { extras, stopSequences: stop, ...sampling } = configOf(request.config, how, attempt) ?? {}
  const { attemptIndex, retryReason } = attempt.record
  return {
    system,
    model,
    sampling: { ...sampling, stop },
    extras,
    messages: () => recordedMessages([...request.messages, ...attempt.added]),
    attemptIndex,
    retryReason,
  }
}

/** Runs an attempt as a span. */
async function inSpan<R extends { readonly reply: ProviderReply }>(
  work: () => Promise<R>,
  asked: AskedCall,
  { trace }: CallOptions,
): Promise<R> {
  const span = startCallSpan(asked, trace)
  try {
    const result = await span.within(work)
    const { message, finishReason, usage, raw } = result.reply
    const { toolCalls = [] } = message
    span.answered({ content: textOf(message), finishReason, usage, raw, toolCalls })
    span.end()
    return result
  } catch (thrown) {
    span.end(thrown)
    throw thrown
  }
}

function waysOf(
  { native, isStrict }: Wire,
  schema: JsonSchema | undefined,
  { outputMode }: CallOptions,
): readonly Way<OutputPath | undefined>[] {
  if (!schema) return [{ aid: 'server', mode: undefined }]
  const inPrompt = { aid: 'prompt', mode: 'fallback' } as const
  if (outputMode === 'fallback' || (!outputMode && !native)) return [inPrompt]
  return [
    { aid: 'server', mode: 'native' },
    ...(isStrict?.(schema) ? [{ aid: 'loose', mode: 'native' } as const] : []),
    ...(outputMode ? [] : [inPrompt]),
  ]
}

/** The attempt's override laid upon `base`: what is absent, undefined or null inherits; extras are joined. */
function configOf(
  base: RuntimeConfig | undefined,
  { retry }: CallOptions,
  { record: { attemptIndex } }: Pick<Attempt, 'record'>,
): RuntimeConfig | undefined {
  const { perAttemptOverride = [] } = retry ?? {}
  const over = attemptIndex > 0 && perAttemptOverride[Math.min(attemptIndex, perAttemptOverride.length) - 1]
  if (!over) return base
  const set = Object.fromEntries(Object.entries(over).filter(([, value]) => value != null))
  const extras = { ...base?.extras, ...over.extras }
  return { ...base, ...set, ...(Object.keys(extras).length > 0 ? { extras } : {}) }
}
