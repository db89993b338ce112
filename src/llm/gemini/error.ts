// Google's refusals: the status word, the reasons and the wait are in the details of the error, and the HTTP status is not enough.
import { isObject } from '../../is-object.ts'
import { jsonValue } from '../../json-value.ts'
import {
  type ProviderError,
  type Refusal,
  type RefusalCode,
  refusalError,
  serverError,
} from '../provider-error.ts'
import type { Peer } from '../transport.ts'

type Fields = Readonly<Record<string, unknown>>

/** The error for an answer that is not 2xx. When the message is about the form of the reply, its `param` is `format`. */
export function geminiRefusal(refusal: Refusal): ProviderError {
  const body = jsonValue(refusal.text)
  // A stream that is not sent as events is a list.
  const first: unknown = Array.isArray(body) ? body[0] : body
  const error = isObject(first) && isObject(first['error']) ? first['error'] : {}
  const message = String(error['message'] ?? '')
  const details = Array.isArray(error['details']) ? error['details'].filter(isObject) : []
  return refusalError(refusal, {
    code: codeOf(refusal.status, String(error['status'] ?? ''), message, details),
    retryAfterMs: retryDelay(details),
    param: form.test(message) ? 'format' : undefined,
  })
}

const form = /schema|json mode|response_?mime_?type/i
const noCredit = /credits are depleted|spending cap/i
const overflow = /token count.*exceeds|exceeds the maximum number of (input )?tokens/i

/** Undefined when the HTTP status says it all. */
function codeOf(
  status: number,
  word: string,
  message: string,
  details: readonly Fields[],
): RefusalCode | undefined {
  const says = (text: string) => details.some((detail) => JSON.stringify(detail).includes(text))
  if (status === 400) {
    if (says('API_KEY_') || /^api key (not valid|expired|not found)/i.test(message))
      return 'llm_authentication'
    // The project, its country or its billing, which only a person can change.
    if (word === 'FAILED_PRECONDITION') return 'llm_authentication'
    if (overflow.test(message)) return 'context_overflow'
  }
  // A file that the key may not read is a fault of the request, not of the key.
  if (status === 403 && /permission to access the file/i.test(message)) return 'llm_request_invalid'
  if (status === 404 && word === 'NOT_FOUND') return 'llm_model_unknown'
  if (status === 429 && (says('PerDay') || noCredit.test(message))) return 'llm_quota_exhausted'
  return undefined
}

/** The `retryDelay` of google.rpc.RetryInfo, such as `47.4s`, in milliseconds. */
function retryDelay(details: readonly Fields[]): number | undefined {
  const delay = details.map(({ retryDelay: given }) => given).find((given) => typeof given === 'string')
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(delay ?? '')?.[1]
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000)
}

/** The error for a prompt that a filter refused. There is no reply then. */
export function promptBlocked(peer: Peer, feedback: Fields): ProviderError {
  const reason = String(feedback['blockReason'])
  return serverError('llm_prompt_blocked', peer, `refused the prompt: a filter blocked it (${reason}).`, {
    details: { blockReason: reason },
  })
}
