// Terms as they travel: a map from name to JSON text, decoded at the edge, once.

import { GraphmillError } from '../../errors.ts'
import { parseLenient } from '../../formats/python-json.ts'

/** Decoded terms. */
export type Terms = Readonly<Record<string, unknown>>

/** The JSON texts of terms that are no texts: TrustGraph's templates distinguish 1 from 1.0, which decoded terms do not. */
const jsonTexts = new WeakMap<Terms, Readonly<Record<string, string>>>()

/** The JSON text that a decoded term came as; undefined for texts, and for terms that did not come as JSON. */
export function jsonTextOf(terms: Terms, name: string): string | undefined {
  const texts = jsonTexts.get(terms)
  return texts && typeof terms[name] !== 'string' && Object.hasOwn(texts, name) ? texts[name] : undefined
}

/** The terms with others over them. */
export function overrideTerms(terms: Terms, others: Terms): Terms {
  const all = { ...terms, ...others }
  jsonTexts.set(all, { ...jsonTexts.get(terms), ...jsonTexts.get(others) })
  return all
}

/**
 * The values of terms that came as JSON text.
 *
 * @throws GraphmillError `terms_invalid`, naming the term and showing the quoted form of a plain string.
 * @example decodeTerms({ text: '"hello"', limit: '3' }) // { text: 'hello', limit: 3 }
 */
export function decodeTerms(terms: Readonly<Record<string, string>>): Terms {
  const decoded = Object.fromEntries(
    Object.entries(terms).map(([name, text]) => [name, decodeTerm(name, text)]),
  )
  jsonTexts.set(decoded, terms)
  return decoded
}

function decodeTerm(name: string, text: unknown): unknown {
  if (typeof text !== 'string')
    throw new GraphmillError('terms_invalid', `the term "${name}" is not JSON text`, {
      details: { term: name },
    })
  try {
    return parseLenient(text)
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
