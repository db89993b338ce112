// The payloads of requests and replies, as TrustGraph's records and back. What only our own readers know stands in the body's field
// `graphmill`.
import { errorTable } from '../errors.ts'
import { parseLenient } from '../formats/python-json.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import type { Message } from '../messages/envelope.ts'
import type { Error as ErrorPayload, Usage } from '../messages/generated.ts'
import { ownFields, type TrustGraphRecord } from './records.ts'
import type { Asked } from './request-id.ts'

export type CallType = 'PromptRequest' | 'PromptResponse' | 'TextCompletionRequest' | 'TextCompletionResponse'

export function isCall(type: string): type is CallType {
  return isRequest(type) || type === 'PromptResponse' || type === 'TextCompletionResponse'
}

export const isRequest = (type: string) => type === 'PromptRequest' || type === 'TextCompletionRequest'

/** What of a payload does not stand in the body. */
export interface Around {
  readonly run: { readonly id: string; readonly startedAt: number }
  readonly seq: number
  /** What the id says; undefined for a request that is none of ours. */
  readonly asked: Asked | undefined
}

export function payloadOfCall(
  type: CallType,
  record: TrustGraphRecord,
  own: TrustGraphRecord,
  around: Around,
): unknown {
  const { run, seq, asked } = around
  switch (type) {
    case 'PromptRequest':
      return promptRequest(record, own, asked)
    case 'PromptResponse':
      return promptResponse(record, own, around)
    case 'TextCompletionRequest':
      return completionRequest(record, asked)
    case 'TextCompletionResponse':
      return { ...completionResponse(record, asked), run, seq }
    default:
      return type satisfies never
  }
}

/** The fields of a request that only our prompt processor knows. TrustGraph's answers ours whole, and in items. */
function promptRequest(record: TrustGraphRecord, own: TrustGraphRecord, asked: Asked | undefined) {
  return {
    promptId: record['id'],
    terms: record['terms'],
    streaming: own['streaming'] === undefined ? record['streaming'] : own['streaming'] === true,
    context: asked?.context ?? {},
    repeat: own['repeat'] === true,
    grounding: isObject(own['grounding']) ? { ...groundingDefaults, ...own['grounding'] } : null,
  }
}

const groundingDefaults = { names: [], sentences: [], offset: 0, start: null, pages: [], firstPage: 1 }

/** The fields of a reply that only our readers know. */
const replyFields = {
  finishReason: null,
  truncated: false,
  accepted: 0,
  rejected: 0,
  rejections: {},
  repaired: 0,
  duplicates: 0,
  reasked: 0,
  incomplete: null,
  cause: null,
  outputMode: null,
  groundings: [],
  repeated: null,
} as const

function promptResponse(record: TrustGraphRecord, own: TrustGraphRecord, { run, seq, asked }: Around) {
  const carried = Object.entries(replyFields).map(([name, otherwise]) => [name, own[name] ?? otherwise])
  return {
    promptId: typeof own['promptId'] === 'string' ? own['promptId'] : (asked?.promptId ?? ''),
    run,
    seq,
    text: record['text'],
    object: typeof record['object'] === 'string' ? strictJson(record['object']) : null,
    endOfStream: record['end_of_stream'],
    usage: ourUsage(record, own['spent']),
    model: record['model'],
    error: ourError(record['error'] as ErrorPayload | null),
    context: asked?.context ?? {},
    ...Object.fromEntries(carried),
  }
}

/** Python writes NaN, Infinity and halves of surrogate pairs into JSON. A text that is no JSON even so is left to its reader. */
function strictJson(text: string): string {
  const whole = text.replace(escapes, (found, half?: string) => (half ? '\\ufffd' : found))
  if (!/NaN|Infinity/.test(whole)) return whole
  try {
    return JSON.stringify(parseLenient(whole))
  } catch {
    return whole
  }
}

/** The escapes of JSON: a surrogate pair, half of one, or any other. */
const escapes = /\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)/gs

function completionRequest(record: TrustGraphRecord, asked: Asked | undefined) {
  const { operation, system, prompt, streaming, schema } = record
  // The word `json` counts only with a schema, and a schema only with the word.
  const wanted = record['response_format'] === 'json' && isObject(schema) ? JSON.stringify(schema) : null
  const context = asked?.context ?? {}
  return { operation, system, prompt, streaming, responseFormat: null, schema: wanted, context }
}

function completionResponse(record: TrustGraphRecord, asked: Asked | undefined) {
  return {
    response: record['response'] ?? '',
    endOfStream: record['end_of_stream'],
    finishReason: null,
    usage: ourUsage(record, undefined),
    model: record['model'],
    error: ourError(record['error'] as ErrorPayload | null),
    context: asked?.context ?? {},
    outputMode: null,
    models: (record['models'] as unknown[]).map((model) => JSON.stringify(model)),
  }
}

/**
 * `isOurs`: a request of a processor of ours, which our prompt processor may answer in parts. Fields that have a default may be missing.
 */
export function recordOfCall(message: Message<CallType>, isOurs: boolean): TrustGraphRecord {
  switch (message.type) {
    case 'PromptRequest': {
      const { promptId, terms, streaming, grounding, repeat } = message.payload
      if (!isOurs) return { id: promptId, terms, streaming }
      // In a stream, TrustGraph's prompt processor would send raw text.
      return {
        id: promptId,
        terms,
        streaming: false,
        graphmill: { streaming, ...(grounding && { grounding }), ...(repeat && { repeat }) },
      }
    }
    case 'PromptResponse': {
      const { payload } = message
      const { error, text, object, endOfStream, model } = payload
      const own = { promptId: payload.promptId, spent: payload.usage?.spent ?? [], ...pick(payload) }
      const answer = { error: theirError(error), text, object, end_of_stream: endOfStream }
      return { ...answer, ...theirUsage(payload.usage), model, ...ownFields(own) }
    }
    case 'TextCompletionRequest': {
      const { operation, system, prompt, streaming, schema } = message.payload
      const format = schema ? 'json' : null
      const wanted = schema ? jsonValue(schema) : null
      return { operation, system, prompt, streaming, response_format: format, schema: wanted }
    }
    case 'TextCompletionResponse': {
      const { error, response, usage, model, endOfStream, models } = message.payload
      const answer = { error: theirError(error), response: error ? null : (response ?? ''), model }
      return {
        ...answer,
        end_of_stream: endOfStream,
        ...theirUsage(usage),
        models: (models ?? []).map(jsonValue),
      }
    }
    default:
      return message satisfies never
  }
}

function pick(payload: Message<'PromptResponse'>['payload']): Record<string, unknown> {
  return Object.fromEntries(
    Object.keys(replyFields).map((name) => [name, payload[name as keyof typeof replyFields]]),
  )
}

/** TrustGraph has one type for all errors, and shows only the message. */
function theirError(error: ErrorPayload | null): ErrorPayload | null {
  // Types of TrustGraph's have a hyphen.
  if (!error || error.type.includes('-')) return error
  return { type: 'llm-error', message: `${error.type}: ${error.message}` }
}

function ourError(error: ErrorPayload | null): ErrorPayload | null {
  const [, code, message] = /^([a-z_]+): (.*)$/s.exec(error?.message ?? '') ?? []
  if (error?.type !== 'llm-error' || !code || !Object.hasOwn(errorTable, code)) return error
  return { type: code, message: message! }
}

function ourUsage(record: TrustGraphRecord, spent: unknown): Usage | null {
  const count = (value: unknown) => (Number.isSafeInteger(value) ? (value as number) : null)
  const [promptTokens, completionTokens] = [count(record['in_token']), count(record['out_token'])]
  const calls = Array.isArray(spent) ? (spent as Usage['spent']) : []
  if (promptTokens === null && completionTokens === null && calls.length === 0) return null
  return { promptTokens, completionTokens, totalTokens: null, spent: calls }
}

function theirUsage(usage: Usage | null) {
  return { in_token: usage?.promptTokens ?? null, out_token: usage?.completionTokens ?? null }
}
