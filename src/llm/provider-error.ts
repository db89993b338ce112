// What a model server's refusal means: one table from HTTP answers to our error codes, with OpenArmature's category in `details`.
// Messages quote the server.
import { type ErrorCode, GraphmillError, type GraphmillErrorOptions } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { redactCut } from '../redact.ts'

/** OpenArmature's nine categories of error (llm-provider 7). */
export type Category =
  | 'provider_authentication'
  | 'provider_unavailable'
  | 'provider_invalid_model'
  | 'provider_model_not_loaded'
  | 'provider_rate_limit'
  | 'provider_invalid_response'
  | 'provider_invalid_request'
  | 'provider_unsupported_content_block'
  | 'structured_output_invalid'

const categories = {
  llm_authentication: 'provider_authentication',
  llm_unavailable: 'provider_unavailable',
  llm_model_unknown: 'provider_invalid_model',
  llm_model_loading: 'provider_model_not_loaded',
  llm_rate_limited: 'provider_rate_limit',
  llm_quota_exhausted: 'provider_rate_limit',
  llm_response_invalid: 'provider_invalid_response',
  llm_request_invalid: 'provider_invalid_request',
  llm_address_wrong: 'provider_invalid_request',
  context_overflow: 'provider_invalid_request',
  llm_call_too_long: 'provider_invalid_response',
  reply_too_large: 'provider_invalid_response',
  certificate_refused: 'provider_unavailable',
  tls_failed: 'provider_unavailable',
  proxy_refused: 'provider_unavailable',
  proxy_failed: 'provider_unavailable',
} as const satisfies Partial<Record<ErrorCode, Category>>

export type ProviderErrorCode = keyof typeof categories

/** An error of a model call; its category is in `details.category` too. */
export class ProviderError extends GraphmillError {
  readonly category: Category

  constructor(code: ErrorCode, category: Category, message: string, options: GraphmillErrorOptions = {}) {
    super(code, message, { ...options, details: { category, ...options.details } })
    this.category = category
  }

  /** OpenArmature's `retry_after`: how long the server asks us to wait, in seconds. */
  get retryAfter(): number | undefined {
    return this.retryAfterMs === undefined ? undefined : this.retryAfterMs / 1000
  }
}

/** An error of a model server, of its code's category. */
export function providerError(
  code: ProviderErrorCode,
  message: string,
  options: GraphmillErrorOptions = {},
): ProviderError {
  return new ProviderError(code, categories[code], message, options)
}

/** What a connection failed for, as an error of a model server; anything else as it is. */
export function asProviderError(thrown: unknown, circuit: string): unknown {
  if (!(thrown instanceof GraphmillError) || !Object.hasOwn(categories, thrown.code)) return thrown
  return providerError(thrown.code as ProviderErrorCode, thrown.message, { cause: thrown.cause, circuit })
}

/** An error that keeps a request from being sent. */
export function invalid(message: string, cause?: unknown): ProviderError {
  return providerError('llm_request_invalid', message, { cause })
}

/** An HTTP answer that is not 2xx. */
export interface Refusal {
  readonly status: number
  readonly headers: Headers
  /** The body, as far as it was read. */
  readonly text: string
  /** Whom the message names: an address without credentials. */
  readonly destination: string
  readonly circuit: string
}

/** What a server says in the body of a refusal, whatever its shape. */
export interface ServerWords {
  readonly message: string
  readonly code: string
  readonly type: string
  readonly param: string
}

/** The error that a refusal stands for. `details` holds category, status, and the server's param and message. */
export function refusalError(refusal: Refusal): GraphmillError {
  const { status, headers, destination, circuit } = refusal
  const words = wordsOf(refusal.text)
  const code = codeOf(status, words)
  const wait = retryAfter(headers, Date.now())
  return providerError(code, `${destination} ${verbs[code]} (${status})${quoted(words.message)}`, {
    circuit,
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
    details: { status, param: words.param, server: words.message },
  })
}

/** The error that came inside an answer that began well, such as an event stream. */
export function embeddedError(body: unknown, destination: string, circuit: string): GraphmillError {
  const words = wordsOf(JSON.stringify({ error: body }))
  const code = embeddedCode(words)
  return providerError(code, `${destination} broke off its reply${quoted(words.message)}`, {
    circuit,
    details: { server: words.message },
  })
}

const verbs = {
  llm_authentication: 'refused the key',
  llm_unavailable: 'had an error',
  llm_model_unknown: 'does not have the model',
  llm_model_loading: 'is still loading the model',
  llm_rate_limited: 'is limiting the rate of calls',
  llm_quota_exhausted: 'says that the quota is used up',
  llm_response_invalid: 'gave an answer that is no completion',
  llm_request_invalid: 'refused the request',
  llm_address_wrong: 'takes no requests at this path',
  context_overflow: 'refused a prompt longer than its context',
} as const satisfies Partial<Record<ProviderErrorCode, string>>

/** What a server that answers may mean. */
type RefusalCode = keyof typeof verbs

function codeOf(status: number, words: ServerWords): RefusalCode {
  if (status >= 300 && status < 400) return 'llm_address_wrong'
  if (status === 401 || status === 403) return 'llm_authentication'
  if (status === 402) return 'llm_quota_exhausted'
  if (status === 429) return isQuota(words) ? 'llm_quota_exhausted' : 'llm_rate_limited'
  if (status === 503 && isLoading(words)) return 'llm_model_loading'
  if (status >= 500 || status === 408) return 'llm_unavailable'
  if (isUnknownModel(status, words)) return 'llm_model_unknown'
  if (isOverflow(words)) return 'context_overflow'
  // No request is any better off there.
  if (status === 404 || status === 405) return 'llm_address_wrong'
  return 'llm_request_invalid'
}

/** A number alone says little here: what is not plainly something else is a server that is away. */
function embeddedCode(words: ServerWords): RefusalCode {
  if (isQuota(words)) return 'llm_quota_exhausted'
  if (words.code === '429' || words.code === 'rate_limit_exceeded') return 'llm_rate_limited'
  if (isOverflow(words)) return 'context_overflow'
  return 'llm_unavailable'
}

// A 429 that only speaks of a quota may be a limit per minute (Gemini); the code is what counts.
function isQuota({ code, type }: ServerWords): boolean {
  return [code, type].some((word) => /insufficient_(quota|balance)|billing_/.test(word))
}

function isLoading({ message, code, type }: ServerWords): boolean {
  return /\bload(ing|ed)\b/i.test(message) || /not_loaded|loading/.test(`${code} ${type}`)
}

function isUnknownModel(status: number, { message, code }: ServerWords): boolean {
  if (code === 'model_not_found') return true
  return (
    status === 404 &&
    /model/i.test(message) &&
    /not (be )?(found|exist|available)|unknown|no such/i.test(message)
  )
}

function isOverflow({ message, code, type }: ServerWords): boolean {
  if ([code, type].some((word) => /context_length_exceeded|exceed_context_size/.test(word))) return true
  return /maximum context length|exceeds? the (available |model's )?(maximum )?context|prompt is too long/i.test(
    message,
  )
}

/** The words of an error body: OpenAI's object, a plain string, FastAPI's `detail`, a bare message, or text. */
export function wordsOf(text: string): ServerWords {
  const body = objectOf(text)
  const nested = body?.['error'] ?? body?.['detail'] ?? body
  const error = isObject(nested) ? nested : {}
  const said = error['message'] ?? (typeof nested === 'string' ? nested : undefined)
  const message = typeof said === 'string' ? said : isObject(body) ? JSON.stringify(nested) : text
  return {
    message: redactCut(message.replace(/\s+/g, ' ').trim(), 500),
    code: asText(error['code']),
    type: asText(error['type']),
    param: asText(error['param']),
  }
}

/** How long a server asks us to wait, in milliseconds: `retry-after-ms`, or Retry-After as seconds or as a date. */
export function retryAfter(headers: Headers, now: number): number | undefined {
  const exact = headers.get('retry-after-ms')
  const value = exact ?? headers.get('retry-after')
  if (value === null || value.trim() === '') return undefined
  const amount = Number(value)
  const wait = Number.isNaN(amount) ? Date.parse(value) - now : amount * (exact === null ? 1000 : 1)
  return Number.isFinite(wait) ? Math.max(0, Math.ceil(wait)) : undefined
}

function quoted(message: string): string {
  return message === '' ? '.' : `: ${message}`
}

function objectOf(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}
