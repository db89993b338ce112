// Terms as they travel: a map from name to JSON text, decoded at the edge, once.

import { GraphmillError } from '../../errors.ts'

/** Decoded terms. */
export type Terms = Readonly<Record<string, unknown>>

/**
 * The values of terms that came as JSON text.
 *
 * @throws GraphmillError `terms_invalid`, naming the term and showing the quoted form of a plain string.
 * @example decodeTerms({ text: '"hello"', limit: '3' }) // { text: 'hello', limit: 3 }
 */
export function decodeTerms(terms: Readonly<Record<string, string>>): Terms {
  return Object.fromEntries(Object.entries(terms).map(([name, text]) => [name, decodeTerm(name, text)]))
}

function decodeTerm(name: string, text: unknown): unknown {
  if (typeof text !== 'string')
    throw new GraphmillError('terms_invalid', `the term "${name}" is not JSON text`, {
      details: { term: name },
    })
  try {
    return JSON.parse(text)
  } catch (cause) {
    const [given, quoted] = [shortened(text), JSON.stringify(shortened(text))]
    throw new GraphmillError(
      'terms_invalid',
      `the term "${name}" is not JSON: ${name}=${given}; a plain string needs quotes: ${name}=${quoted}`,
      { cause, details: { term: name } },
    )
  }
}

/** At most 80 characters, and never half of a surrogate pair. */
function shortened(text: string): string {
  return text.length <= 80
    ? text
    : `${text
        .slice(0, 79)
        .toWellFormed()
        .replace(/\uFFFD$/, '')}…`
}
