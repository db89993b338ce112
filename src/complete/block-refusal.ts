// A server's refusal of content blocks, such as images. The words of its error distinguish it from other refusals.
import { ProviderError } from '../llm/provider-error.ts'
import type { ProviderRequest } from './provider.ts'

/** Returns `error`, as a `provider_unsupported_content_block` when it says that the server does not take the blocks of this request. */
export function blockRefusal(error: unknown, { messages }: ProviderRequest): unknown {
  if (!(error instanceof ProviderError) || error.category !== 'provider_invalid_request') return error
  if (!messages.some(({ content }) => Array.isArray(content) && content.length > 0)) return error
  const said = String(error.details['server'] ?? '')
  if (
    !/content.*(block|part|type|array|list|string)|image|audio|(media|mime).?type|file.?uri|the file|fetch.*url/i.test(
      said,
    )
  )
    return error
  const { code, message, retryAfterMs, circuit, details } = error
  const category = 'provider_unsupported_content_block'
  return new ProviderError(code, category, message, {
    cause: error,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(circuit === undefined ? {} : { circuit }),
    details: { ...details, category },
  })
}
