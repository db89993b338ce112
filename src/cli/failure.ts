// An error as text for people: what happened, its causes and its code.
import type { GraphmillError } from '../errors.ts'

/** The most causes that are shown. */
const mostCauses = 3

/** `message (cause: …) [code]`, without the remedy. */
export function failureText(error: GraphmillError): string {
  const causes = causesOf(error)
  const why = causes.length > 0 ? ` (cause: ${causes.join('; ')})` : ''
  return `${error.message}${why} [${error.code}]`
}

/** The first line of each cause, outermost first, unless it was already said. */
function causesOf(error: GraphmillError): string[] {
  const found: string[] = []
  let cause: unknown = error.cause
  while (cause instanceof Error && found.length < mostCauses) {
    // Some connection errors have a code and no message.
    const words = cause.message || ((cause as NodeJS.ErrnoException).code ?? cause.name)
    const text = words.trim().split('\n')[0]!
    if (![error.message, ...found].some((said) => said.includes(text))) found.push(text)
    cause = cause.cause
  }
  return found
}
