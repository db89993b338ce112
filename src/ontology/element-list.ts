// The elements of an ontology in one fixed order, so that an index names an element, and the description of each for the model.

import { compare } from './builder.ts'
import { shortIri } from './datatypes.ts'
import { fold } from './names.ts'
import type { Clause, Ontology, OntologyClass, OntologyProperty } from './ontology.ts'

export type ListedElement =
  | { readonly kind: 'class'; readonly element: OntologyClass }
  | { readonly kind: 'object' | 'datatype'; readonly element: OntologyProperty }

/** Classes, then relations, then attributes, each in the order of their keys. */
export function listElements(ontology: Ontology): readonly ListedElement[] {
  return [
    ...[...ontology.classes.values()].map((element) => ({ kind: 'class' as const, element })),
    ...[...ontology.objectProperties.values()].map((element) => ({ kind: 'object' as const, element })),
    ...[...ontology.datatypeProperties.values()].map((element) => ({ kind: 'datatype' as const, element })),
  ]
}

/** The description of elements for a prompt, by key. Unknown values are null. */
export interface OntologyTerms {
  readonly classes: Readonly<
    Record<string, { readonly subclass_of: string | null; readonly comment: string | null }>
  >
  readonly object_properties: PropertyTerms
  readonly datatype_properties: PropertyTerms
}

type PropertyTerms = Readonly<
  Record<
    string,
    { readonly domain: string | null; readonly range: string | null; readonly comment: string | null }
  >
>

/** A chosen element, and whether its comment is included. */
interface ChosenElement {
  readonly listed: ListedElement
  readonly full: boolean
}

/** The terms of chosen elements. */
export function termsOf(ontology: Ontology, chosen: readonly ChosenElement[]): OntologyTerms {
  const classes = new Set(
    chosen.flatMap(({ listed }) => (listed.kind === 'class' ? [listed.element.iri] : [])),
  )
  const keyOf = (iri: string) => ontology.classes.get(iri)?.key ?? iri
  /** The keys of the chosen ones among these classes. */
  const keysOf = (iris: readonly string[]) =>
    iris
      .filter((iri) => classes.has(iri))
      .map(keyOf)
      .sort(compare)
  const ofKind = <E extends ListedElement['element']>(kind: ListedElement['kind']) =>
    chosen
      .filter(({ listed }) => listed.kind === kind)
      .map(({ listed, full }) => ({ element: listed.element as E, full }))
      .sort((a, b) => compare(a.element.key, b.element.key))
  const properties = (kind: 'object' | 'datatype') =>
    Object.fromEntries(
      ofKind<OntologyProperty>(kind).map(({ element, full }) => [
        element.key,
        { ...endsOf(element, keysOf), comment: commentOf(element, full) },
      ]),
    )
  return {
    classes: Object.fromEntries(
      ofKind<OntologyClass>('class').map(({ element, full }) => [
        element.key,
        { subclass_of: keysOf(element.parents).join(' and ') || null, comment: commentOf(element, full) },
      ]),
    ),
    object_properties: properties('object'),
    datatype_properties: properties('datatype'),
  }
}

/** The domain and range of a property as texts. When only one is known the other is given as free, since one alone would not be shown. */
function endsOf({ kind, domain, range }: OntologyProperty, keysOf: (iris: readonly string[]) => string[]) {
  const classesText = (clauses: readonly Clause[]) =>
    clauses
      .map((clause) => keysOf(clause).join(' or '))
      .filter((text) => text !== '')
      .join(' and ')
  const from = classesText(domain)
  const to =
    kind === 'object'
      ? classesText(range)
      : range.map((clause) => clause.map(shortIri).join(' or ')).join(' and ')
  if (from === '' && to === '') return { domain: null, range: null }
  return { domain: from || 'anything', range: to || (kind === 'object' ? 'anything' : 'any value') }
}

/** Characters that an element's line takes in a prompt, approximately. */
export function lineLength(ontology: Ontology, { kind, element }: ListedElement, full: boolean): number {
  const keys = (iris: readonly string[]) =>
    iris.reduce((sum, iri) => sum + (ontology.classes.get(iri)?.key ?? shortIri(iri)).length + 5, 0)
  const around =
    kind === 'class'
      ? keys(element.parents) + 12
      : keys(element.domain.flat()) + keys(element.range.flat()) + 14
  return 4 + element.key.length + around + (commentOf(element, full)?.length ?? 0) + 2
}

/** Characters of a comment in a prompt, at most. */
const maxComment = 200

/** The label, when it differs from the key, and the comment. */
function commentOf(
  { key, name, label, comment }: OntologyClass | OntologyProperty,
  full: boolean,
): string | null {
  const telling =
    label !== null && fold(label) !== fold(key) && fold(label) !== fold(name) ? oneLine(label) : ''
  const text = full
    ? [telling, comment === null ? '' : oneLine(comment)].filter((part) => part !== '').join('. ')
    : telling
  return text === '' ? null : shortened(text)
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim()
}

function shortened(text: string): string {
  if (text.length <= maxComment) return text
  const cut = text.slice(0, maxComment)
  const space = cut.lastIndexOf(' ')
  return `${(space > maxComment / 2 ? cut.slice(0, space) : cut).toWellFormed().replace(/[\uFFFD,;:.]+$/, '')} …`
}
