// The body of a request from the fields that a wire manages and the caller's extras, by OpenArmature's rule: an extra that names a
// managed field is merged (stops), dropped (the same value) or refused; others pass untouched. Keys are sorted.
import { isSameJson, sorted } from '../llm/cache/canonical.ts'
import { invalid, type ProviderError } from '../llm/provider-error.ts'
import type { RuntimeConfig } from './provider.ts'

type Fields = Readonly<Record<string, unknown>>

export interface ManagedBody {
  /** Undefined fields are neither sent nor managed. `stream` is always managed, so an extra cannot switch it on. */
  readonly managed: Fields
  readonly config: RuntimeConfig
  readonly stops: {
    readonly name: string
    /** Whether the server also takes one stop as a string. */
    readonly orString: boolean
  }
}

/** The JSON of the body. Throws `provider_invalid_request` when an extra contradicts a managed field, or is not JSON. */
export function managedBody({ managed: fields, config, stops }: ManagedBody): string {
  const managed = sorted(jsonOf(fields)) as Fields
  const extras = jsonOf(config.extras ?? {})
  const declared = config.stopSequences ?? undefined
  const body: Record<string, unknown> = { ...managed }
  for (const [name, value] of Object.entries(extras)) {
    if (name === stops.name && declared) continue
    if (name === 'stream' && managed['stream'] === undefined) {
      if (value !== false) throw contradiction(name)
    } else if (!Object.hasOwn(managed, name)) {
      Object.defineProperty(body, name, { value: sorted(value), enumerable: true })
    } else if (!isSameJson(value, managed[name])) throw contradiction(name)
  }
  if (declared) body[stops.name] = mergedStops(declared, extras[stops.name], stops.orString)
  return JSON.stringify(Object.fromEntries(Object.entries(body).sort(([a], [b]) => (a < b ? -1 : 1))))
}

/** The error for an extra that differs from a managed field: `provider_invalid_request`. */
export function contradiction(name: string): ProviderError {
  return invalid(`The extra field ${name} contradicts the request's own.`)
}

/** The declared ones first, each once. Extras of another form count as absent. */
function mergedStops(declared: readonly string[], extra: unknown, orString: boolean): readonly string[] {
  const list = orString && typeof extra === 'string' ? [extra] : extra
  const isValid = Array.isArray(list) && list.every((stop) => typeof stop === 'string')
  return [...new Set([...declared, ...(isValid ? (list as string[]) : [])])]
}

/** A copy as plain JSON, without undefined fields. */
export function jsonOf(fields: Fields): Fields {
  try {
    return JSON.parse(JSON.stringify(fields)) as Fields
  } catch (cause) {
    throw invalid('The request holds a value that is not JSON.', cause)
  }
}
