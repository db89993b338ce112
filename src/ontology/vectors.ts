// Elements by the closeness of their vectors to a chunk's (cosine), where embeddings are configured: one vector a chunk.
import { clauseText } from './check.ts'
import { shortIri } from './datatypes.ts'
import type { ListedElement } from './element-list.ts'
import { maxRanked } from './lexical.ts'
import type { Ontology } from './ontology.ts'
import type { VectorCache } from './vector-cache.ts'

/** From a text to the places of elements, best first. Throws what embedding throws; then it may be tried again. */
export type VectorRanking = (text: string) => Promise<readonly number[]>

/** Elements are embedded at the first call. */
export function createVectorRanking(
  ontology: Ontology,
  elements: readonly ListedElement[],
  cache: VectorCache,
): VectorRanking {
  let index: Promise<readonly Float32Array[]> | undefined

  function indexed(): Promise<readonly Float32Array[]> {
    index ??= cache.all(elements.map((listed) => elementText(ontology, listed)))
    index.catch(() => (index = undefined))
    return index
  }

  return async (text) => {
    const vectors = await indexed()
    const query = await cache.one(text)
    return vectors
      .map((vector, place) => ({ place, score: dot(vector, query) }))
      .sort((a, b) => b.score - a.score || a.place - b.place)
      .slice(0, maxRanked)
      .map(({ place }) => place)
  }
}

/** What is embedded of an element: its names, its comment and where it belongs. */
export function elementText(ontology: Ontology, { kind, element }: ListedElement): string {
  const names = [...new Set([spaced(element.name), element.label ?? '', ...element.synonyms])].filter(
    (name) => name !== '',
  )
  const place =
    kind === 'class'
      ? element.parents.map((parent) => `a kind of ${spaced(ontology.classes.get(parent)?.name ?? parent)}`)
      : [
          ...element.domain.map((clause) => `of ${clauseText(clause, ontology)}`),
          ...element.range.map((clause) =>
            kind === 'object' ? `to ${clauseText(clause, ontology)}` : clause.map(shortIri).join(' or '),
          ),
        ]
  return [names.join(', '), element.comment ?? '', ...place]
    .filter((part) => part !== '')
    .join('. ')
    .replace(/\s+/g, ' ')
    .slice(0, 1000)
}

function spaced(name: string): string {
  return name.replace(/[-_]+/g, ' ').replace(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
}

/** Vectors of another length share nothing. */
function dot(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return 0
  let sum = 0
  for (let place = 0; place < a.length; place++) sum += a[place]! * b[place]!
  return sum
}
