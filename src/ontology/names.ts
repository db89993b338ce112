// Finds the element that a model means by a name for a class or a property: by its exact key, or by a name that only one element of the
// kind has (another case, spaces for hyphens, a prefix, the label, the IRI). When two match, none is found.
import type { Elements, Ontology, OntologyClass, OntologyElement, OntologyProperty } from './ontology.ts'

export type Finder<E extends OntologyElement> = (written: string) => E | undefined

/** One finder for each kind. */
export interface Names {
  readonly classes: Finder<OntologyClass>
  readonly objectProperties: Finder<OntologyProperty>
  readonly datatypeProperties: Finder<OntologyProperty>
}

export function createNames(ontology: Ontology): Names {
  return {
    classes: finder(ontology.classes),
    objectProperties: finder(ontology.objectProperties),
    datatypeProperties: finder(ontology.datatypeProperties),
  }
}

function finder<E extends OntologyElement>(elements: Elements<E>): Finder<E> {
  const keys = new Map([...elements.values()].map((element) => [element.key, element]))
  const folded = table(elements, ({ key, name, ontology }) => [key, name, `${ontology}:${name}`])
  const labels = table(elements, ({ label, synonyms }) => (label === null ? synonyms : [label, ...synonyms]))
  return (written) =>
    keys.get(written) ??
    elements.get(written) ??
    folded.get(fold(written)) ??
    labels.get(fold(written)) ??
    undefined
}

/** By folded name; null when several elements have it. */
function table<E extends OntologyElement>(
  elements: Elements<E>,
  names: (element: E) => readonly string[],
): ReadonlyMap<string, E | null> {
  const found = new Map<string, E | null>()
  for (const element of elements.values())
    for (const name of new Set(names(element).map(fold)))
      if (name !== '') found.set(name, found.has(name) ? null : element)
  return found
}

/** Without case, spaces, hyphens and underscores. */
export function fold(name: string): string {
  return name
    .normalize('NFC')
    .toLowerCase()
    .replace(/[\s_-]+/g, '')
}
