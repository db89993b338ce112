// What every provider does with a call, whatever its wire: the check of the request, the attempts, and the checked value.
import type { Attempt } from '../llm/structured-output/attempts.ts'
import { directiveFor, withSystemText } from '../llm/structured-output/directive.ts'
import type { Refusals } from '../llm/structured-output/schema-refusal.ts'
import { callStructured } from '../llm/structured-output/structured-call.ts'
import { exactValue } from '../llm/structured-output/value.ts'
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

/** What a server answered, in the contract's words. */
export type ProviderReply = Pick<Response, 'message' | 'finishReason' | 'usage' | 'model' | 'raw'>

/** One exchange with the server. */
export interface Exchange {
  /** That of this attempt: with what reasks added and, on the fallback path, the directive. */
  readonly request: ProviderRequest
  /** Absent without a schema. */
  readonly path: OutputPath | undefined
  readonly checked: CheckedRequest
  readonly how: CallOptions
  readonly signal: AbortSignal
}

export interface Wire {
  /** Whether the server is expected to constrain output to a schema. */
  readonly native: boolean
  readonly refusals: Refusals
  /** Refuses a request that this wire cannot carry. */
  readonly accept: (request: ProviderRequest, how: CallOptions) => void
  /** Whether the fallback makes the model call a tool with the value, instead of a directive. Default: never. */
  readonly canForceTool?: (request: ProviderRequest) => boolean
  readonly exchange: (exchange: Exchange) => Promise<ProviderReply>
}

/** `complete` of a provider with this wire. */
export async function completeOn(
  { native, refusals, accept, canForceTool, exchange }: Wire,
  request: ProviderRequest,
  how: CallOptions = {},
): Promise<Response> {
  const checked = checkRequest(request, how)
  accept(request, how)
  const { responseSchema: schema, tools } = checked
  const { retry, onAttempt, refine } = how
  const signal = how.signal ?? new AbortController().signal
  const first = schema && (how.outputMode ?? (native ? 'native' : 'fallback'))
  const { reply, value, mode, attempts } = await callStructured({
    schema,
    path: { first, second: first === 'native' && !how.outputMode ? 'fallback' : undefined, refusals },
    extrasOf: (attempt) => configOf(request.config, how, attempt)?.extras,
    retry,
    onAttempt,
    signal,
    async ask(path: OutputPath | undefined, attempt) {
      const transcript = [...request.messages, ...attempt.added]
      const config = configOf(request.config, how, attempt)
      const plain = { ...request, messages: transcript, config }
      const byDirective = schema && path === 'fallback' && !canForceTool?.(plain)
      const asked = byDirective
        ? { ...plain, messages: withSystemText(transcript, directiveFor(schema.schema, tools.size > 0)) }
        : plain
      try {
        return await exchange({ request: asked, path, checked, how, signal })
      } catch (thrown) {
        throw blockRefusal(thrown, asked)
      }
    },
    textOf({ message, finishReason }) {
      const text = textOf(message)
      const isToolCall = finishReason === 'tool_calls' || (message.toolCalls !== undefined && text === '')
      return schema && !isToolCall ? text : undefined
    },
    find: (text) => exactValue(text, schema!.check),
    refine,
  })
  return { ...reply, parsed: value, ...(mode && { outputMode: mode }), attempts }
}

/** The attempt's override laid upon `base`: what is absent, undefined or null inherits; extras are joined. */
function configOf(
  base: RuntimeConfig | undefined,
  { retry }: CallOptions,
  { record: { attemptIndex } }: Attempt,
): RuntimeConfig | undefined {
  const { perAttemptOverride = [] } = retry ?? {}
  const over = attemptIndex > 0 && perAttemptOverride[Math.min(attemptIndex, perAttemptOverride.length) - 1]
  if (!over) return base
  const set = Object.fromEntries(Object.entries(over).filter(([, value]) => value != null))
  const extras = { ...base?.extras, ...over.extras }
  return { ...base, ...set, ...(Object.keys(extras).length > 0 ? { extras } : {}) }
}
