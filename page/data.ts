// What the page is given as JSON: entities and predicates by their index, facts as short lists.

/** From where to where in the document, in characters; null where unknown. */
export type PageSource = readonly [
  text: string,
  document: string,
  start: number | null,
  end: number | null,
  page: string | null,
]

/** The object is the index of an entity in a relationship, and a text otherwise. */
export type PageFact = readonly [
  subject: number,
  predicate: number,
  object: number | string,
  kind: number,
  sources: readonly PageSource[],
  isUngrounded: 0 | 1,
]

export interface PageData {
  readonly kinds: readonly string[]
  readonly entities: readonly (readonly [name: string, iri: string])[]
  readonly predicates: readonly string[]
  readonly facts: readonly PageFact[]
}
