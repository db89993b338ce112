// Ollama's refusals by their words, since the status is not enough: an overlong prompt and a bad `format` may come as 500.
import { GraphmillError } from '../../errors.ts'
import { type ProviderErrorCode, providerError } from '../provider-error.ts'

const overflow = /exceed\w*\b.*\bcontext|context\b.*\bexceed|prompt (is )?too long/i
const badFormat =
  /\bgrammar\b|\bformat\b.*\b(invalid|json|schema)\b|\b(invalid|parse|parsing)\b.*\b(format|schema)\b/i

/**
 * The same failure under the code that Ollama's message stands for. When the message is about `format`, that becomes its
 * `param`. Anything else is returned as it is.
 */
export function recoded(thrown: unknown): unknown {
  if (!(thrown instanceof GraphmillError)) return thrown
  const { category: _, ...details } = thrown.details
  const { message, circuit, retryAfterMs } = thrown
  const said = details['server']
  if (typeof said !== 'string') return thrown
  const code = codeOf(thrown.code, said)
  const isAboutFormat = details['param'] === undefined && /\bformat\b/i.test(said)
  if (!code && !isAboutFormat) return thrown
  return providerError(code ?? (thrown.code as ProviderErrorCode), message, {
    cause: code ? thrown : thrown.cause,
    details: { ...details, ...(isAboutFormat && { param: 'format' }) },
    circuit,
    retryAfterMs,
  })
}

function codeOf(code: string, said: string): ProviderErrorCode | undefined {
  if (code !== 'llm_unavailable' && code !== 'llm_request_invalid') return undefined
  if (overflow.test(said)) return 'context_overflow'
  return badFormat.test(said) ? 'llm_request_invalid' : undefined
}
