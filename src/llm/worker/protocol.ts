// What the thread of the models and the one who started it say to each other; errors travel as data, and are errors again.
import { type ErrorCode, GraphmillError, toGraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest } from '../llm.ts'
import { type Category, ProviderError } from '../provider-error.ts'
import type { ModelSpec } from '../providers.ts'

/** What the thread is told of a call. */
export type Order = { readonly id: number } & (
  | { readonly spec: ModelSpec; readonly request: CompletionRequest }
  /** So many characters were taken: as many more may come. */
  | { readonly taken: number }
  | { readonly abort: true }
)

/** What the thread says of a call: events as they come, then that it is over, or what went wrong. */
export type Report = { readonly id: number } & (
  | { readonly event: CompletionEvent }
  | { readonly over: true }
  | { readonly error: ErrorData }
)

/** Characters of a call that may be on their way before the first of them are taken. */
export const mostOnTheWay = 1024 * 1024

export interface ErrorData {
  readonly code: ErrorCode
  readonly message: string
  readonly retryAfterMs: number | undefined
  readonly circuit: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  readonly stack: string | undefined
  readonly cause: CauseData | undefined
}

/** What led to an error, as plain errors; their `code` is such as ECONNREFUSED, or a number. */
interface CauseData {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly code: string | number | undefined
  readonly cause: CauseData | undefined
}

/** Of a chain of causes so many are kept. */
const mostCauses = 5

export function dataOf(thrown: unknown): ErrorData {
  const { code, message, retryAfterMs, circuit, details, stack, cause } = toGraphmillError(thrown)
  return { code, message, retryAfterMs, circuit, details, stack, cause: causeData(cause, mostCauses) }
}

function causeData(cause: unknown, left: number): CauseData | undefined {
  if (!(cause instanceof Error) || left === 0) return undefined
  const { name, message, stack } = cause
  const { code } = cause as { readonly code?: unknown }
  const plain = typeof code === 'string' || typeof code === 'number' ? code : undefined
  return { name, message, stack, code: plain, cause: causeData(cause.cause, left - 1) }
}

function causeOf({ name, message, stack, code, cause }: CauseData): Error {
  const error = new Error(message, cause && { cause: causeOf(cause) })
  return Object.assign(error, { name, ...(stack && { stack }), ...(code !== undefined && { code }) })
}

export function errorOf(data: ErrorData): GraphmillError {
  const { code, message, retryAfterMs, circuit, details, stack, cause } = data
  const options = {
    details,
    ...(cause && { cause: causeOf(cause) }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...(circuit !== undefined && { circuit }),
  }
  const category = details['category'] as Category | undefined
  const error = category
    ? new ProviderError(code, category, message, options)
    : new GraphmillError(code, message, options)
  if (stack !== undefined) error.stack = stack
  return error
}
