// Which refusals mean that a server does not take `response_format`, and which schemas it was refused for. What was refused
// once is not tried again by this provider.
import { GraphmillError } from '../../errors.ts'
import { flatJson } from '../cache/canonical.ts'
import type { JsonSchema } from '../llm.ts'
import { ProviderError } from '../provider-error.ts'

export interface Refused {
  readonly thrown: unknown
  readonly schema: JsonSchema
  /** The caller's extras. */
  readonly extras: Readonly<Record<string, unknown>> | undefined
}

export interface Refusals {
  /** Whether this schema need not be tried. */
  has(schema: JsonSchema): boolean
  /**
   * Goes on with `fallback` when the failure is such a refusal, and throws it again when not. It is remembered, for all
   * schemas or for this one, unless the server refuses the fallback's request too: then it was about something else.
   */
  goOn<R>(refused: Refused, fallback: () => Promise<R>): Promise<R>
}

export function createRefusals(): Refusals {
  let all = false
  const schemas = new Set<string>()

  function remember(words: string, schema: JsonSchema): void {
    if (/invalid (json )?schema/i.test(words)) schemas.add(flatJson(schema))
    else all = true
  }

  return {
    has: (schema) => all || (schemas.size > 0 && schemas.has(flatJson(schema))),
    async goOn({ thrown, schema, extras }, fallback) {
      const words = refusalOf(thrown)
      // A grammar of the caller's own is what a refusal of grammars is about.
      if (words === undefined || (extras && 'grammar' in extras && !/format/i.test(words))) throw thrown
      try {
        const result = await fallback()
        remember(words, schema)
        return result
      } catch (second) {
        const refusedToo = second instanceof ProviderError && second.category === 'provider_invalid_request'
        if (!refusedToo) remember(words, schema)
        throw second
      }
    },
  }
}

/** Whether a server refused a request because of the form of reply that it asks for. */
export function isOutputRefusal(thrown: unknown): boolean {
  return refusalOf(thrown) !== undefined
}

/** The server's words, where they are about structured output. */
function refusalOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof GraphmillError)) return undefined
  const { status, param, server } = thrown.details as { status?: number; param?: string; server?: string }
  const words = `${param ?? ''} ${server ?? ''}`
  // A router that has no server for such a request answers as if the path were wrong.
  const isRefusal =
    thrown.code === 'llm_request_invalid' || status === 404 || status === 500 || status === 501
  return isRefusal && (about.test(words) || param === 'format') ? words : undefined
}

const about = /response[_ .-]?format|json[_ -]?(schema|mode|object)|structured[_ ]?output|guided|grammar/i

/** Whether a server refused the content blocks of a body. */
export function isUnsupportedBlock(error: unknown, body: string): error is ProviderError {
  if (!(error instanceof ProviderError) || error.category !== 'provider_invalid_request') return false
  if (!/"content":\[/.test(body)) return false
  return /content.*(block|part|type|array|list|string)|image|audio|media.?type/i.test(
    String(error.details['server'] ?? ''),
  )
}
