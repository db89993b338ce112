// What the cache remembers of a run: the raw texts of its calls in order, and, once it is over, where its parts were cut.
// Items are never stored: they are read again from the texts on every replay.
import { hash } from 'node:crypto'
import { type ErrorCode, errorTable } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import type { CompletionRequest, FinishReason, Llm, Usage } from '../llm.ts'
import { flatJson } from './canonical.ts'

/** Why the model was called. `longer`: again with a doubled output limit. `cached`: it was not; the reply was remembered. */
export type CallReason = 'first' | 'continuation' | 'longer' | 'reask' | 'split' | 'cached'

export interface RecordedCall {
  /** Of the request; see `requestDigest`. */
  readonly digest: string
  /** What the model wrote, without its thoughts. */
  readonly text: string
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly model: string
  /** It gave thoughts too. */
  readonly reasoned: boolean
  /** It failed, and would fail again: after `text`, if it wrote any; how it ended and its tokens are not known then. */
  readonly failure: Failure | null
}

/** A code of the table of errors, and the message that came with it. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
}

export interface RunEntry {
  readonly run: { readonly id: string; readonly startedAt: number }
  readonly calls: readonly RecordedCall[]
  /** The calls do without the server's own constraint, which the run's key has: the server refused it, or could not keep to it. */
  readonly unaided?: boolean
  /** Only of a run that is over: how its reply was read; a reply that is to be read differently makes another run. */
  readonly form?: string
  /** Only of a run that is over: how much each of its parts holds, in items or characters, and whether it was streamed. */
  readonly cut?: { readonly streaming: boolean; readonly cuts: readonly number[] }
}

/** What a request asks, as 32 hexadecimal digits: messages and every parameter, whatever the order of their keys. */
export function requestDigest({ messages, sampling = {}, extras = {} }: CompletionRequest): string {
  return hash('sha256', flatJson({ messages, sampling, extras }), 'hex').slice(0, 32)
}

/** The key of the run that begins with this request. */
export function runKey(workspace: string, llm: Llm, request: CompletionRequest): string {
  const { provider, destination, model, defaults = {} } = llm
  const asked = { provider, destination, model, defaults }
  return flatJson({ version: 1, workspace, ...asked, request: requestDigest(request) })
}

/** The entry that a text holds, or undefined for anything else. */
export function parseEntry(text: string): RunEntry | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isEntry(value) ? value : undefined
  } catch {
    return undefined
  }
}

// The folder may hold what another version, or anybody else, has put there: whatever is read of an entry is looked at first.
function isEntry(value: unknown): value is RunEntry {
  if (!isObject(value)) return false
  const { run, calls, unaided, form, cut } = value
  return (
    isObject(run) &&
    hasTypes(run, { id: 'string', startedAt: 'number' }) &&
    Array.isArray(calls) &&
    calls.every(isCall) &&
    (unaided === undefined || typeof unaided === 'boolean') &&
    (form === undefined || typeof form === 'string') &&
    (cut === undefined || isCut(cut))
  )
}

const finishReasons: readonly unknown[] = [
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'error',
] satisfies FinishReason[]

function isCall(value: unknown): boolean {
  return (
    isObject(value) &&
    hasTypes(value, {
      digest: 'string',
      text: 'string',
      model: 'string',
      reasoned: 'boolean',
    }) &&
    (value['failure'] === null || isFailure(value['failure'])) &&
    finishReasons.includes(value['finishReason']) &&
    isUsage(value['usage'])
  )
}

function isFailure(value: unknown): boolean {
  return (
    isObject(value) &&
    hasTypes(value, { code: 'string', message: 'string' }) &&
    Object.hasOwn(errorTable, String(value['code']))
  )
}

function isUsage(value: unknown): boolean {
  if (!isObject(value)) return false
  const { promptTokens, completionTokens, totalTokens } = value
  return [promptTokens, completionTokens, totalTokens].every((count) => count === null || isCount(count))
}

function isCut(value: unknown): boolean {
  if (!isObject(value)) return false
  const { streaming, cuts } = value
  return typeof streaming === 'boolean' && Array.isArray(cuts) && cuts.every(isCount)
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && value >= 0
}

function hasTypes(
  value: Readonly<Record<string, unknown>>,
  types: Readonly<Record<string, 'string' | 'number' | 'boolean'>>,
): boolean {
  return Object.entries(types).every(([key, type]) => typeof value[key] === type)
}
