// Errors as data that can be sent to another thread, and as errors again.
import { type ErrorCode, GraphmillError, toGraphmillError } from '../errors.ts'

export interface ErrorData {
  readonly code: ErrorCode
  readonly message: string
  readonly retryAfterMs: number | undefined
  readonly circuit: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  readonly stack: string | undefined
  readonly cause: CauseData | undefined
}

/** What led to an error, as plain errors. Their `code` is a text such as ECONNREFUSED, or a number. */
interface CauseData {
  readonly name: string
  readonly message: string
  readonly stack: string | undefined
  readonly code: string | number | undefined
  readonly cause: CauseData | undefined
}

/** Causes of a chain that are kept. */
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
  const { code, message, stack, cause } = data
  const error = new GraphmillError(code, message, { ...data, cause: cause && causeOf(cause) })
  if (stack !== undefined) error.stack = stack
  return error
}
