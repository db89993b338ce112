// Ranks elements by the similarity of their vectors to the chunk's (cosine), for flows with embeddings: one vector per chunk.
import { clauseText } from './check.ts'
import { shortIri } from './datatypes.ts'
import type { ListedElement } from './element-list.ts'
import { maxRanked } from './lexical.ts'
import type { Ontology } from './ontology.ts'
import type { VectorCache } from './vector-cache.ts'

/** Ranks elements for a text: their indices, best first. Throws what embedding throws; the next call tries again. */
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

/** The text of an element that is embedded: its names, its comment and its place in the ontology. */
function elementText(ontology: Ontology, { kind, element }: ListedElement): string {
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

/** Vectors of different lengths have no similarity. */
function dot(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return 0
  let sum = 0
  for (let place = 0; place < a.length; place++) sum += a[place]! * b[place]!
  return sum
}
