// What Ollama's words mean where its status does not tell: an over-long prompt and a bad `format` come as 500, too.
import { GraphmillError } from '../../errors.ts'
import { type ProviderErrorCode, providerError } from '../provider-error.ts'

const overflow = /exceed\w*\b.*\bcontext|context\b.*\bexceed|prompt (is )?too long/i
const badFormat =
  /\bgrammar\b|\bformat\b.*\b(invalid|json|schema)\b|\b(invalid|parse|parsing)\b.*\b(format|schema)\b/i

/** The same failure under the code that Ollama's message stands for; anything else as it is. */
export function recoded(thrown: unknown): unknown {
  if (!(thrown instanceof GraphmillError)) return thrown
  const { category: _, ...details } = thrown.details
  const code = codeOf(thrown.code, details['server'])
  if (!code) return thrown
  return providerError(code, thrown.message, {
    cause: thrown,
    details,
    ...(thrown.circuit === undefined ? {} : { circuit: thrown.circuit }),
  })
}

function codeOf(code: string, said: unknown): ProviderErrorCode | undefined {
  if (typeof said !== 'string' || (code !== 'llm_unavailable' && code !== 'llm_request_invalid'))
    return undefined
  if (overflow.test(said)) return 'context_overflow'
  return badFormat.test(said) ? 'llm_request_invalid' : undefined
}
