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

/** What a server has refused. */
export class Refusals {
  #all = false
  readonly #schemas = new Set<string>()

  /** Whether this schema need not be tried. */
  has(schema: JsonSchema): boolean {
    return this.#all || (this.#schemas.size > 0 && this.#schemas.has(flatJson(schema)))
  }

  /**
   * Calls `fallback` when the failure is such a refusal, and throws it again when it is not. The refusal is remembered, for
   * all schemas or for this one, unless the server refuses the fallback's request too: then it was about something else.
   */
  async goOn<R>({ thrown, schema, extras }: RefusedCall, fallback: () => Promise<R>): Promise<R> {
    const words = refusalOf(thrown)
    // A refusal of grammars is about the caller's own grammar.
    if (words === undefined || (extras && 'grammar' in extras && !/format/i.test(words))) throw thrown
    let refusedToo = false
    try {
      return await fallback()
    } catch (second) {
      refusedToo = second instanceof ProviderError && second.category === 'provider_invalid_request'
      throw second
    } finally {
      if (!refusedToo && ofSchema.test(words)) this.#schemas.add(flatJson(schema))
      else if (!refusedToo) this.#all = true
    }
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
  // A router without a server for this form answers as if the path were wrong.
  const isRefusal =
    thrown.code === 'llm_request_invalid' || status === 404 || status === 500 || status === 501
  return isRefusal && (about.test(words) || param === 'format') ? words : undefined
}

const about = /response[_ .-]?format|json[_ -]?(schema|mode|object)|structured[_ ]?output|guided|grammar/i
/** What is refused is this schema, not every schema. */
const ofSchema = /invalid (json )?schema|\.schema\b|(grammar|schema)s? (is|are) too|too many/i
