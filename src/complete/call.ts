// What every provider does with a call, whatever its wire: the attempts, the path of structured output, the check of the value.

import { type Attempt, mergedConfig, runAttempts } from '../llm/call-retry.ts'
import type { CallOptions, OutputPath, ProviderRequest, Response } from '../llm/provider.ts'
import { textOf } from '../llm/provider.ts'
import { parsedContent, withDirective } from '../llm/structured-output/response-format.ts'
import type { Refusals } from '../llm/structured-output/schema-refusal.ts'
import { type CheckedRequest, checkRequest } from './check.ts'

/** What a server answered, in the contract's words. */
export type Reading = Pick<Response, 'message' | 'finishReason' | 'usage' | 'model' | 'raw'>

/** One exchange with the server. */
export interface Exchange {
  /** Those of this attempt: with what reasks added and, on the fallback path, the directive. */
  readonly request: ProviderRequest
  /** Absent without a schema. */
  readonly path: OutputPath | undefined
  readonly checked: CheckedRequest
  readonly how: CallOptions
  readonly signal: AbortSignal
}

export interface Wire {
  /** Whether the server is thought to constrain output to a schema. */
  readonly native: boolean
  readonly refusals: Refusals
  /** Refuses a request that this wire cannot carry. */
  readonly accept: (request: ProviderRequest, how: CallOptions) => void
  readonly exchange: (exchange: Exchange) => Promise<Reading>
}

/** `complete` of a provider with this wire. */
export async function completeOn(
  wire: Wire,
  request: ProviderRequest,
  how: CallOptions = {},
): Promise<Response> {
  const checked = checkRequest(request, how)
  wire.accept(request, how)
  const signal = how.signal ?? new AbortController().signal
  return runAttempts({ policy: how.retry, signal, onAttempt: how.onAttempt }, (attempt) => {
    const own = requestOf(request, attempt)
    return alongPath(wire, { request: own, how, checked }, (path) =>
      answer(wire, { request: onPath(own, path, checked), path, checked, how, signal }, attempt),
    )
  })
}

/** The request of an attempt: what reasks added, and the attempt's own config. */
function requestOf(request: ProviderRequest, { added, override }: Attempt): ProviderRequest {
  const messages = [...request.messages, ...added]
  return { ...request, messages, config: mergedConfig(request.config, override) }
}

function onPath(request: ProviderRequest, path: OutputPath | undefined, checked: CheckedRequest) {
  const { responseSchema, tools } = checked
  if (path !== 'fallback' || !responseSchema) return request
  return { ...request, messages: withDirective(request.messages, responseSchema.schema, tools.size > 0) }
}

/** The path that the caller chose; else native, until the server refuses it. */
async function alongPath(
  { native, refusals }: Wire,
  call: Pick<Exchange, 'request' | 'how' | 'checked'>,
  go: (path: OutputPath | undefined) => Promise<Response>,
): Promise<Response> {
  const schema = call.checked.responseSchema?.schema
  if (!schema) return go(undefined)
  if (call.how.outputMode) return go(call.how.outputMode)
  if (!native || refusals.has(schema)) return go('fallback')
  try {
    return await go('native')
  } catch (thrown) {
    const refused = { thrown, schema, extras: call.request.config?.extras }
    return refusals.goOn(refused, () => go('fallback'))
  }
}

async function answer(wire: Wire, exchange: Exchange, attempt: Attempt): Promise<Response> {
  const { checked, how, path } = exchange
  const reading = await wire.exchange(exchange)
  const { message, finishReason, usage } = reading
  const text = textOf(message)
  const calls = finishReason === 'tool_calls' || (message.toolCalls !== undefined && text === '')
  const parsed =
    checked.responseSchema && !calls
      ? await parsedContent(text, checked.responseSchema, how.refine, { finishReason, usage })
      : undefined
  const attempts = [...attempt.earlier, attempt.record]
  return { ...reading, parsed, ...(path && { outputMode: path }), attempts }
}
