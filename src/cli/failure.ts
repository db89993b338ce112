// What a person reads of an error: what happened, what caused it, its code, and what to do.
import type { GraphmillError } from '../errors.ts'

/** Causes that are shown, at most. */
const mostCauses = 3

/** `message (cause: …) [code]`; what to do is the error's `remedy`. */
export function failureText(error: GraphmillError): string {
  const causes = causesOf(error)
  const why = causes.length > 0 ? ` (cause: ${causes.join('; ')})` : ''
  return `${error.message}${why} [${error.code}]`
}

/** What the causes say that was not said before, outermost first, each in its first line. */
function causesOf(error: GraphmillError): string[] {
  const found: string[] = []
  let cause: unknown = error.cause
  while (cause instanceof Error && found.length < mostCauses) {
    // Some connection errors have a code and no words.
    const words = cause.message || ((cause as NodeJS.ErrnoException).code ?? cause.name)
    const text = words.trim().split('\n')[0]!
    if (![error.message, ...found].some((said) => said.includes(text))) found.push(text)
    cause = cause.cause
  }
  return found
}
