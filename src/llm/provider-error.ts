// What a model server's refusal means: from HTTP answers to graphmill's error codes, with OpenArmature's category in `details`.
// Messages quote the server.
import { type ErrorCode, GraphmillError, type GraphmillErrorOptions } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import { redactCut } from '../redact.ts'

const categories = {
  llm_authentication: 'provider_authentication',
  llm_unavailable: 'provider_unavailable',
  llm_model_unknown: 'provider_invalid_model',
  llm_model_loading: 'provider_model_not_loaded',
  llm_rate_limited: 'provider_rate_limit',
  llm_quota_exhausted: 'provider_rate_limit',
  llm_response_invalid: 'provider_invalid_response',
  llm_request_invalid: 'provider_invalid_request',
  llm_prompt_blocked: 'provider_invalid_request',
  llm_address_wrong: 'provider_invalid_request',
  context_overflow: 'provider_invalid_request',
  llm_call_too_long: 'provider_invalid_response',
  reply_too_large: 'provider_invalid_response',
  certificate_refused: 'provider_unavailable',
  tls_failed: 'provider_unavailable',
  proxy_refused: 'provider_unavailable',
  proxy_failed: 'provider_unavailable',
} as const satisfies Partial<Record<ErrorCode, string>>

/** OpenArmature's nine categories of error (llm-provider 7). */
export type Category =
  | (typeof categories)[ProviderErrorCode]
  | 'provider_unsupported_content_block'
  | 'structured_output_invalid'

export type ProviderErrorCode = keyof typeof categories

/** An error of a model call. `details.category` holds its category too. */
export class ProviderError extends GraphmillError {
  readonly category: Category

  constructor(code: ErrorCode, category: Category, message: string, options: GraphmillErrorOptions = {}) {
    super(code, message, { ...options, details: { category, ...options.details } })
    this.category = category
  }

  /** OpenArmature's `retry_after`: how long the server asks to wait, in seconds. */
  get retryAfter(): number | undefined {
    return this.retryAfterMs === undefined ? undefined : this.retryAfterMs / 1000
  }
}

/** An error of a model call, with the category of its code. */
export function providerError(
  code: ProviderErrorCode,
  message: string,
  options: GraphmillErrorOptions = {},
): ProviderError {
  return new ProviderError(code, categories[code], message, options)
}

/** A server as errors name it. */
export interface NamedServer {
  /** Its address, without credentials. */
  readonly destination: string
  readonly circuit: string
}

/** An error of a server. The message begins with the server's address. */
export function serverError(
  code: ProviderErrorCode,
  { destination, circuit }: NamedServer,
  message: string,
  options: GraphmillErrorOptions = {},
): ProviderError {
  return providerError(code, `${destination} ${message}`, { circuit, ...options })
}

/**
 * The error for an answer of an unexpected form, with the first 200 characters of it. A web page with status 200 comes from
 * another server than a model's: the address is wrong, and no retry can fix that.
 */
export function unexpectedAnswer(
  { destination, circuit }: NamedServer,
  problem: string,
  answer: string,
  cause?: unknown,
): ProviderError {
  const text = redactCut(answer, 200)
  const [code, what, why] = isPage(answer)
    ? (['llm_address_wrong', 'is a web page', undefined] as const)
    : (['llm_response_invalid', problem, cause] as const)
  const message = `${destination} gave an answer that ${what}: ${text.replace(/\s+/g, ' ').trim()}`
  return new ProviderError(code, 'provider_invalid_response', message, {
    circuit,
    cause: why,
    details: { text },
  })
}

/** Whether an answer is HTML or XML: neither JSON nor an event stream begins with `<`, also after a byte order mark. */
export function isPage(answer: string): boolean {
  return /^\s*</.test(answer)
}

/** The error for an answer that is no completion. */
export function notACompletion(server: NamedServer, answer: string): ProviderError {
  return unexpectedAnswer(server, 'is no completion', answer)
}

/** Why a connection failed, as an error of a model call. Everything else is returned as it is. */
export function asProviderError(thrown: unknown, circuit: string): unknown {
  if (!(thrown instanceof GraphmillError) || !Object.hasOwn(categories, thrown.code)) return thrown
  return providerError(thrown.code as ProviderErrorCode, thrown.message, { cause: thrown.cause, circuit })
}

/** The error for a request that can't be sent. */
export function invalid(message: string, cause?: unknown): ProviderError {
  return providerError('llm_request_invalid', message, { cause })
}

/** An HTTP answer that is not 2xx. */
export interface Refusal extends NamedServer {
  readonly status: number
  readonly headers: Headers
  /** The body, as far as it was read. */
  readonly text: string
}

/** What a server says in the body of a refusal. */
interface ServerWords {
  readonly message: string
  readonly code: string
  readonly type: string
  readonly param: string
}

/** What a provider knows of a refusal, beyond what all servers say in the same way. */
export interface KnownRefusal {
  readonly code?: RefusalCode | undefined
  readonly retryAfterMs?: number | undefined
  readonly param?: string | undefined
}

/** The error for a refusal. `details` holds the category, the status, and the server's type, param and message. */
export function refusalError(refusal: Refusal, known: KnownRefusal = {}): ProviderError {
  const { status, headers } = refusal
  const words = wordsOf(jsonValue(refusal.text), refusal.text)
  const code = known.code ?? codeOf(status, words)
  return serverError(code, refusal, `${verbs[code]} (${status})${quoted(words.message)}`, {
    retryAfterMs: known.retryAfterMs ?? retryAfter(headers, Date.now()),
    details: { status, type: words.type, param: known.param ?? words.param, server: words.message },
  })
}

/** The error for an error object inside an answer that began well, such as an event stream. */
export function embeddedError(body: unknown, server: NamedServer): GraphmillError {
  const words = wordsOf({ error: body })
  const message = `broke off its reply${quoted(words.message)}`
  return serverError(embeddedCode(words), server, message, {
    details: { type: words.type, server: words.message },
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
  llm_prompt_blocked: 'refused the prompt, which its filter blocked',
  llm_address_wrong: 'takes no requests at this path',
  context_overflow: 'refused a prompt longer than its context',
} as const satisfies Partial<Record<ProviderErrorCode, string>>

export type RefusalCode = keyof typeof verbs

function codeOf(status: number, words: ServerWords): RefusalCode {
  if (status >= 300 && status < 400) return 'llm_address_wrong'
  if (status === 401 || status === 403) return 'llm_authentication'
  if (status === 402) return 'llm_quota_exhausted'
  if (status === 429) return isQuota(words) ? 'llm_quota_exhausted' : 'llm_rate_limited'
  if (status === 503 && isLoading(words)) return 'llm_model_loading'
  if (status >= 500 || status === 408) return 'llm_unavailable'
  if (isUnknownModel(status, words)) return 'llm_model_unknown'
  if (isOverflow(words)) return 'context_overflow'
  if (words.code === 'content_filter') return 'llm_prompt_blocked'
  // This path takes no request at all.
  if (status === 404 || status === 405) return 'llm_address_wrong'
  return 'llm_request_invalid'
}

/** A status number alone says little here: what is not clearly something else counts as an unavailable server. */
function embeddedCode(words: ServerWords): RefusalCode {
  if (isQuota(words)) return 'llm_quota_exhausted'
  if (words.code === '429' || words.code === 'rate_limit_exceeded') return 'llm_rate_limited'
  if (isOverflow(words)) return 'context_overflow'
  if (words.code === 'content_filter') return 'llm_prompt_blocked'
  return 'llm_unavailable'
}

// A message that only mentions a quota may mean a limit per minute (Gemini), so only code and type count.
function isQuota({ code, type }: ServerWords): boolean {
  return [code, type].some((word) => /insufficient_(quota|balance)|billing_/.test(word))
}

function isLoading({ message, code, type }: ServerWords): boolean {
  return /\bload(ing|ed)\b/i.test(message) || /not_loaded|loading/.test(`${code} ${type}`)
}

function isUnknownModel(status: number, { message, code }: ServerWords): boolean {
  if (code === 'model_not_found' || code === 'DeploymentNotFound') return true
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

/** The words of an error body: OpenAI's error object, a plain string, FastAPI's `detail`, a bare message, or any text. */
function wordsOf(value: unknown, text = ''): ServerWords {
  const body = isObject(value) ? value : undefined
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

/** How long a server asks to wait, in milliseconds: `retry-after-ms`, or Retry-After as seconds or as a date. */
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

function asText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}
