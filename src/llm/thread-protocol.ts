// What the thread of the models and the one who started it say to each other; errors travel as data, and are errors again.
import { coded, type ErrorCode, GraphmillError } from '../errors.ts'
import type { CompletionEvent, CompletionRequest } from './llm.ts'
import type { OllamaOptions } from './ollama.ts'
import type { OpenAiOptions } from './openai.ts'
import { type Category, ProviderError } from './provider-error.ts'

/** Which model it is. */
export type ModelSpec =
  | ({ readonly provider: 'openai' } & Omit<OpenAiOptions, 'fetch'>)
  | ({ readonly provider: 'ollama' } & Omit<OllamaOptions, 'fetch' | 'onWarning'>)

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

/** A coded error without its cause, which the stack tells. */
export interface ErrorData {
  readonly code: ErrorCode
  readonly message: string
  readonly retryAfterMs: number | undefined
  readonly circuit: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  readonly stack: string | undefined
}

export function dataOf(thrown: unknown): ErrorData {
  const { code, message, retryAfterMs, circuit, details, stack } = coded(thrown)
  return { code, message, retryAfterMs, circuit, details, stack }
}

export function errorOf({ code, message, retryAfterMs, circuit, details, stack }: ErrorData): GraphmillError {
  const options = {
    details,
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
