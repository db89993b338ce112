// Anthropic's refusals by their `error.type`, which says more than the status, and is all that an error inside a stream has.
import { GraphmillError } from '../../errors.ts'
import { type Category, ProviderError, type ProviderErrorCode, providerError } from '../provider-error.ts'

/** Anthropic's own errors that the general table does not know, or puts elsewhere. */
interface Meaning {
  readonly code: ProviderErrorCode
  /** Default: that of the code. */
  readonly category?: Category
}

const overflow = /prompt is too long|exceeds? (the )?(context|model's maximum)/i
const noCredit = /credit balance is too low|reached your specified (\w+ )?API usage limits/i

const aboutFormat = /\bschemas?\b|\bgrammar\b|output_config|output format|structured output/i

/**
 * The same failure under the code that Anthropic's words stand for; when they are about the form of the reply, that becomes its
 * `param`. Anything else is returned as it is.
 */
export function recoded(thrown: unknown): unknown {
  if (!(thrown instanceof GraphmillError)) return thrown
  const { status, type, server: said = '' } = thrown.details as Readonly<Record<string, string | number>>
  const meaning = meaningOf(Number(status), String(type), String(said))
  if (!meaning) return thrown
  const { message, circuit, retryAfterMs } = thrown
  const { category: _, ...known } = thrown.details
  const { code, category } = meaning
  const isAboutFormat = code === 'llm_request_invalid' && aboutFormat.test(String(said))
  const details = { ...known, ...(isAboutFormat && { param: 'format' }) }
  const options = { cause: thrown, details, circuit, retryAfterMs }
  return category
    ? new ProviderError(code, category, message, options)
    : providerError(code, message, options)
}

function meaningOf(status: number, type: string, said: string): Meaning | undefined {
  // The server is up and has too many calls: fewer calls help, and there is no reason to stop all of them.
  if (type === 'overloaded_error' || status === 529)
    return { code: 'llm_rate_limited', category: 'provider_unavailable' }
  if (type === 'billing_error' || status === 402 || noCredit.test(said))
    return { code: 'llm_quota_exhausted', category: 'provider_authentication' }
  if (overflow.test(said)) return { code: 'context_overflow' }
  switch (type) {
    case 'rate_limit_error':
      return { code: 'llm_rate_limited' }
    case 'authentication_error':
    case 'permission_error':
      return { code: 'llm_authentication' }
    case 'not_found_error':
      return /\bmodel\b/i.test(said) ? { code: 'llm_model_unknown' } : undefined
    case 'invalid_request_error':
      return { code: 'llm_request_invalid' }
    default:
      return undefined
  }
}
