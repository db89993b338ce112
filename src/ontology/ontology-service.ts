// Answers questions about one version of the ontologies: the terms for a chunk's prompt, verdicts on a model's items, the ontology's own
// triples. It runs in a worker thread; see `worker.ts`.
import { batchLength } from '../batches.ts'
import type { EmbeddingsCall } from '../observe/ontology-metrics.ts'
import type { Triple } from '../rdf/term.ts'
import { createCheck, type ItemCheck, type OntologyItem, type Verdict } from './check.ts'
import type { OntologyTerms } from './element-list.ts'
import { createEmbed, type Embed, type EmbeddingsServer, endpointOf } from './embeddings.ts'
import { createLexicalRanking } from './lexical.ts'
import type { LoadedOntology } from './load.ts'
import type { Ontology } from './ontology.ts'
import { schemaTriples } from './schema-triples.ts'
import { createSelector, type Selector } from './select.ts'
import { createVectorCache } from './vector-cache.ts'
import { createVectorRanking } from './vectors.ts'

/** Triples of one message, and characters of their objects. */
const tripleLimits = {
  maxItems: 50,
  maxSize: 100_000,
  sizeOf: ({ o }: Triple) => (o.value ?? o.iri ?? '').length,
}

export interface OntologyServiceOptions {
  /** Tokens of a prompt that the selection may take. */
  readonly budget: number
  /** Default: elements are ranked by words. */
  readonly embeddings?: EmbeddingsServer & { readonly cacheDir: string }
}

/** Called with every request that the embeddings server has answered. */
export type OnEmbedded = (call: EmbeddingsCall) => void

/** The facts about a version that need no question. */
export interface OntologySummary {
  readonly ids: readonly string[]
  readonly version: string
  readonly classes: number
  readonly relations: number
  readonly attributes: number
  /** Notes on what was left out because extraction cannot use it, as sentences. */
  readonly notes: readonly string[]
}

export interface OntologyService {
  readonly summary: OntologySummary
  /** The terms for a chunk's prompt. */
  select(text: string, signal?: AbortSignal): Promise<OntologyTerms>
  /** A verdict for each item. */
  check(items: readonly OntologyItem[], signal?: AbortSignal): Promise<Verdict[]>
  /** The ontology's own triples from index `from` on, as many as a message may hold; empty after the last. */
  triples(from: number, signal?: AbortSignal): Promise<Triple[]>
}

export function createOntologyService(
  { ontology, notes }: LoadedOntology,
  { budget, embeddings }: OntologyServiceOptions,
  onEmbedded: OnEmbedded = () => undefined,
): OntologyService {
  const selector = createSelector(ontology, budget)
  const judge: ItemCheck = createCheck(ontology)
  const rank = createRanking(ontology, selector, embeddings, onEmbedded)
  let triples: Triple[] | undefined

  return {
    summary: {
      ids: ontology.ids,
      version: ontology.version,
      classes: ontology.classes.size,
      relations: ontology.objectProperties.size,
      attributes: ontology.datatypeProperties.size,
      notes,
    },
    select: async (text) => selector.whole ?? selector.select(await rank(text)),
    check: async (items) => items.map(judge),
    async triples(from) {
      triples ??= schemaTriples(ontology)
      return triples.slice(from, from + batchLength(triples, tripleLimits, from))
    },
  }
}

function createRanking(
  ontology: Ontology,
  selector: Selector,
  embeddings: OntologyServiceOptions['embeddings'],
  onEmbedded: OnEmbedded,
): (text: string) => readonly number[] | Promise<readonly number[]> {
  if (selector.whole) return () => []
  if (embeddings) {
    const { cacheDir, ...server } = embeddings
    const space = `${endpointOf(server.url).href} ${server.model}`
    const cache = createVectorCache({ folder: cacheDir, space, embed: timedEmbed(server, onEmbedded) })
    return createVectorRanking(ontology, selector.elements, cache)
  }
  const ranking = createLexicalRanking(selector.elements)
  // The first searches are slow, until their code is compiled: no chunk should wait for that.
  const sample = selector.elements
    .filter((_, place) => place % 100 === 0)
    .map(({ element }) => element.comment ?? element.name)
  for (let count = 0; count < 3; count++)
    selector.select(ranking(sample.join(' ').slice(count * 1000, count * 1000 + 2000)))
  return ranking
}

function timedEmbed(server: EmbeddingsServer, onEmbedded: OnEmbedded): Embed {
  const embed = createEmbed(server)
  return async (texts) => {
    const start = performance.now()
    const vectors = await embed(texts)
    const seconds = (performance.now() - start) / 1000
    onEmbedded({ model: server.model, texts: texts.length, seconds })
    return vectors
  }
}
