// Quads of two stores that are the same but for run ids and times.
import { hash } from 'node:crypto'
import { Parser, type Quad, type Term } from 'n3'

const word = (name: string) => `http://www.w3.org/ns/prov#${name}`
const named = /^https:\/\/trustgraph\.ai\/(subgraph|activity|annotation|span)\//

/**
 * The quads of N-Quads as texts, sorted, without those of support. A node whose IRI is a hash of a run or a time is named after what is
 * said of it. The runs of one unit over one chunk count as one: a killed process leaves one whose facts another run has, too. Of other
 * nodes, two that are the same stay two, as when an emission that was to be withdrawn is still there.
 */
export function canonicalQuads(text: string): string[] {
  const all = new Parser({ format: 'N-Quads' }).parse(text)
  const keyOf = ({ subject, predicate, object, graph }: Quad) =>
    JSON.stringify([subject, predicate, object, graph].map(textOf))
  const quads = [...new Map(all.map((quad) => [keyOf(quad), quad])).values()].filter(
    ({ graph }) => !graph.value.startsWith('urn:graphmill:support'),
  )
  const runs = runsOf(quads)
  const nameOf = namesOf(quads, runs)
  const once = new Set<string>()
  const others: string[] = []
  for (const quad of quads) {
    const line = lineOf(quad, nameOf)
    if (isTime(quad) || runs.has(quad.subject.value)) once.add(line)
    else others.push(line)
  }
  return [...once, ...others].sort()
}

const textOf = (term: Term) =>
  term.termType === 'Literal' ? `${term.value} ${term.datatype.value} ${term.language}` : `<${term.value}>`

const isTime = ({ predicate }: Quad) => predicate.value === word('startedAtTime')

function lineOf(quad: Quad, nameOf: (term: Term) => string): string {
  const { subject, predicate, object, graph } = quad
  return `${nameOf(subject)} ${predicate.value} ${isTime(quad) ? 'time' : nameOf(object)} ${graph.value}`
}

/** Names of the subgraphs and activities of runs: by the chunk and the unit. */
function runsOf(quads: readonly Quad[]): Map<string, string> {
  const valuesOf = (name: string) =>
    new Map(
      quads
        .filter(({ predicate }) => predicate.value === name)
        .map(({ subject, object }) => [subject.value, object.value]),
    )
  const labels = valuesOf('http://www.w3.org/2000/01/rdf-schema#label')
  const chunks = valuesOf(word('wasDerivedFrom'))
  const runs = new Map<string, string>()
  for (const [node, activity] of valuesOf(word('wasGeneratedBy'))) {
    if (!node.includes('/subgraph/')) continue
    const run = `${labels.get(activity)} of ${chunks.get(node)}`
    runs.set(node, `subgraph ${run}`).set(activity, `activity ${run}`)
  }
  return runs
}

function namesOf(quads: readonly Quad[], runs: ReadonlyMap<string, string>): (term: Term) => string {
  let names = new Map<string, string>()
  const nameOf = (term: Term) =>
    runs.get(term.value) ?? (named.test(term.value) ? (names.get(term.value) ?? 'node') : textOf(term))
  for (let round = 0; round < 5; round++) {
    const said = new Map<string, Set<string>>()
    const add = (node: string, what: string) => said.set(node, (said.get(node) ?? new Set()).add(what))
    for (const quad of quads) {
      const { subject, predicate, object } = quad
      if (named.test(subject.value)) add(subject.value, lineOf(quad, nameOf))
      if (named.test(object.value)) add(object.value, `of ${predicate.value} ${nameOf(subject)}`)
    }
    names = new Map([...said].map(([node, all]) => [node, hash('sha1', [...all].sort().join('\n'))]))
  }
  return nameOf
}
