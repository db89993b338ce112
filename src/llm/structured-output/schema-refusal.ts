// Which errors mean that a server does not take a schema, and which schemas it refused. What was refused once is not tried
// again.
import { GraphmillError } from '../../errors.ts'
import { flatJson } from '../cache/canonical.ts'
import type { JsonSchema } from '../llm.ts'
import { ProviderError } from '../provider-error.ts'

export interface RefusedCall {
  readonly thrown: unknown
  readonly schema: JsonSchema
  /** The caller's extras. */
  readonly extras: Readonly<Record<string, unknown>> | undefined
}

export interface Refusals {
  /** Whether this schema need not be tried. */
  has(schema: JsonSchema): boolean
  /**
   * Calls `fallback` when the failure is such a refusal, and throws it again when it is not. The refusal is remembered, for
   * all schemas or for this one, unless the server refuses the fallback's request too: then it was about something else.
   */
  goOn<R>(refused: RefusedCall, fallback: () => Promise<R>): Promise<R>
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
      // A refusal of grammars is about the caller's own grammar.
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

/** The server's words, when they are about structured output. */
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
