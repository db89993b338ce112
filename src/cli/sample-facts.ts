// The facts that `extract` shows for a first look at what it has written.
import { createGraphBuilder, factText, type GraphFact } from '../rdf/graph.ts'
import type { TripleStore } from '../rdf/store.ts'

/** Triples that are looked at, at most. */
const mostTriples = 20_000
const shown = 10
/** Characters of a line, at most. */
const width = 100

export interface SampledStore extends TripleStore {
  /** Up to ten facts, as lines: relationships first, and not all of one entity. */
  sample(): string[]
}

/** The same store, which remembers its first triples. */
export function sampled(store: TripleStore): SampledStore {
  const builder = createGraphBuilder()
  let looked = 0
  return {
    ...store,
    async write(triples, ...rest) {
      await store.write(triples, ...rest)
      builder.add(triples.slice(0, mostTriples - looked))
      looked = Math.min(mostTriples, looked + triples.length)
    },
    sample() {
      const graph = builder.build()
      return pick(graph.facts).map((fact) => {
        const line = factText(fact, graph).replace(/\s+/g, ' ')
        return line.length > width ? `${line.slice(0, width - 1)}…` : line
      })
    },
  }
}

function pick(facts: readonly GraphFact[]): GraphFact[] {
  const times = new Map<string, number>()
  const rank = new Map(
    facts.map((fact) => {
      const before = times.get(fact.subject) ?? 0
      times.set(fact.subject, before + 1)
      return [fact, before + (fact.kind === 'relationship' ? 0 : 1000) + (fact.isUngrounded ? 500 : 0)]
    }),
  )
  return [...facts].sort((a, b) => rank.get(a)! - rank.get(b)!).slice(0, shown)
}
