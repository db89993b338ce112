// Terms as text: what N-Quads, TriG and Turtle have in common, and the only place that escapes. What no RDF syntax can hold (a literal
// as subject, a relative IRI) is refused with `message_invalid`.

import { hash } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import { safeIri } from './iri.ts'
import type { Term, Triple } from './term.ts'
import { rdf, xsd } from './vocabulary.ts'

/** Only an object may be a literal or a quoted triple, and a predicate is always an IRI. */
export type TriplePlace = 'subject' | 'predicate' | 'object'

/** How deep triples may be quoted. */
export const deepestQuote = 64

/** How an IRI is written. Throws `message_invalid` if it has no scheme; see `absoluteIri`. */
export type IriNotation = (iri: string | null) => string

/** IRIs that are remembered, and characters of one. */
const [maxRemembered, maxLength] = [500, 200]

/** The same notation, which remembers what it wrote last: most IRIs stand several times in a batch, and vocabularies in all. */
export function remembering(notation: IriNotation): IriNotation {
  const texts = new Map<string | null, string>()
  return (iri) => {
    const known = texts.get(iri)
    if (known !== undefined) return known
    const text = notation(iri)
    if (text.length > maxLength) return text
    if (texts.size >= maxRemembered) texts.clear()
    texts.set(iri, text)
    return text
  }
}

/** `<iri>`, the notation of N-Quads. */
export const bracketed: IriNotation = remembering((iri) => `<${absoluteIri(iri)}>`)

/** The text of a triple without graph and full stop: subject, predicate and object, parted by spaces. */
export function tripleText({ s, p, o }: Triple, notation: IriNotation): string {
  return `${termText(s, 'subject', notation)} ${termText(p, 'predicate', notation)} ${termText(o, 'object', notation)}`
}

/**
 * A term as text; a quoted triple is written as the triple term of RDF 1.2.
 *
 * @throws `message_invalid` for what may not stand in that place, and for terms with missing or ill-formed fields.
 */
export function termText(term: Term, place: TriplePlace, notation: IriNotation): string {
  if (term.type === 'i') return notation(term.iri)
  if (term.type === 'b' && place !== 'predicate') return `_:${blankLabel(term.id)}`
  if (term.type === 'l' && place === 'object') return literalText(term, notation)
  if (term.type === 't' && place === 'object' && term.triple !== null) {
    return `<<( ${tripleText(term.triple, notation)} )>>`
  }
  throw misplaced(term, place)
}

/** An IRI without illegal characters; `message_invalid` if it has no scheme. */
export function absoluteIri(iri: string | null): string {
  const safe = safeIri(iri ?? '')
  if (/^[A-Za-z][A-Za-z0-9+.-]*:/.test(safe)) return safe
  throw invalid(`Not an absolute IRI: ${JSON.stringify(safe.slice(0, 200))}.`)
}

/** A label that is legal everywhere: the given one, or its hash. */
export function blankLabel(id: string | null): string {
  if (!id) throw invalid('A blank node has no label.')
  return /^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(id) ? id : `x${hash('sha256', id)}`
}

/** The text, language and datatype of a literal, checked, the datatype in that notation; xsd:string is no datatype. */
export function literalParts(
  term: Term,
  notation: IriNotation = absoluteIri,
): { value: string; language: string; datatype: string } {
  const { value, language, datatype } = term
  if (value === null) throw invalid('A literal has no value.')
  if (language) {
    if (!/^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$/.test(language)) {
      throw invalid(`Not a language tag: ${JSON.stringify(language.slice(0, 200))}.`)
    }
    return { value: value.toWellFormed(), language, datatype: '' }
  }
  if (datatype === rdf.langString || datatype === rdf.dirLangString) {
    throw invalid('A language-tagged literal has no language.')
  }
  const plain = !datatype || datatype === xsd.string
  return { value: value.toWellFormed(), language: '', datatype: plain ? '' : notation(datatype) }
}

/** The refusal of a term that may not stand in that place. */
export function misplaced(term: Term, place: TriplePlace): GraphmillError {
  return invalid(`A term of type ${JSON.stringify(term.type)} cannot be the ${place} of a triple.`)
}

function literalText(term: Term, notation: IriNotation): string {
  const { value, language, datatype } = literalParts(term, notation)
  const text = `"${escapeText(value)}"`
  if (language) return `${text}@${language}`
  return datatype ? `${text}^^${datatype}` : text
}

const escapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
}

// Quote, backslash, C0 and C1 controls, the separators at which some readers split lines, and the noncharacters.
const escapable = /["\\\0-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]/
const everyEscapable = new RegExp(escapable, 'g')

function escapeText(text: string): string {
  if (!escapable.test(text)) return text
  return text.replace(everyEscapable, (character) => escapes[character] ?? codeEscape(character))
}

function codeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
}

/** The refusal of triples that are quoted in quoted triples, and so on, more than `deepestQuote` times. */
export function tooDeep(): GraphmillError {
  return invalid(`Triples are quoted more than ${deepestQuote} deep.`)
}

function invalid(message: string): GraphmillError {
  return new GraphmillError('message_invalid', message)
}
