// Which other elements a prompt needs for each element of a list, by index. A selection is closed over these.
import type { ListedElement } from './element-list.ts'
import type { Clause } from './ontology.ts'

export interface Needs {
  /** Superclasses, inverses. */
  readonly all: readonly number[]
  /** The classes of each clause of a domain or range: one of each clause is enough. */
  readonly ends: readonly (readonly number[])[]
}

/** The needs of all elements, in their order. */
export function needsOf(elements: readonly ListedElement[]): readonly Needs[] {
  const places = new Map(elements.map(({ kind, element }, place) => [`${kind} ${element.iri}`, place]))
  const placesOf = (kind: ListedElement['kind'], iris: readonly string[]) =>
    iris.map((iri) => places.get(`${kind} ${iri}`)).filter((place) => place !== undefined)
  const endsOf = (clauses: readonly Clause[]) => clauses.map((clause) => placesOf('class', clause))
  return elements.map(({ kind, element }) => {
    if (kind === 'class') return { all: placesOf(kind, element.parents), ends: [] }
    const { inverses, domain, range } = element
    return { all: placesOf(kind, inverses), ends: endsOf(kind === 'object' ? [...domain, ...range] : domain) }
  })
}

/** Classes from the roots down, those with many subclasses first. */
export function mostGeneral(elements: readonly ListedElement[], needs: readonly Needs[]): readonly number[] {
  const below = elements.map((): number[] => [])
  const roots: number[] = []
  for (const [place, { kind }] of elements.entries()) {
    if (kind !== 'class') continue
    if (needs[place]!.all.length === 0) roots.push(place)
    for (const parent of needs[place]!.all) below[parent]!.push(place)
  }
  const order = new Set(roots.sort((a, b) => below[b]!.length - below[a]!.length || a - b))
  for (const place of order) for (const each of below[place]!) order.add(each)
  return [...order]
}
