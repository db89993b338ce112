// Bodies of requests. An extra field that contradicts a field that the provider sets itself is refused, never overridden.
import { isDeepStrictEqual } from 'node:util'
import { providerError } from './provider-error.ts'

export type Body = Readonly<Record<string, unknown>>

/** A copy without the fields that are undefined. */
export function present(fields: object): Body {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** Throws `llm_request_invalid` when an extra has another value than the field that is set. `path` goes before its name. */
export function refuseConflict(set: Body, extras: Body, path = ''): void {
  const conflict = Object.keys(set).find(
    (name) => extras[name] !== undefined && !isDeepStrictEqual(extras[name], set[name]),
  )
  if (conflict)
    throw providerError(
      'llm_request_invalid',
      `The extra field ${path}${conflict} contradicts the request's own.`,
    )
}

/** The field `stop`, if there is any stop: the declared ones first, each once. An extra that is no list of strings is ignored. */
export function stopField(
  declared: readonly string[] = [],
  extra: unknown,
): { readonly stop?: readonly string[] } {
  const list = typeof extra === 'string' ? [extra] : extra
  const isValid = Array.isArray(list) && list.every((stop) => typeof stop === 'string')
  const stop = [...new Set([...declared, ...(isValid ? (list as string[]) : [])])]
  return stop.length > 0 ? { stop } : {}
}
