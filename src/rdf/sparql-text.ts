// Triples as requests of SPARQL 1.1 Update and of the Graph Store Protocol.
import { absoluteIri, bracketed, type IriNotation, remembering, tripleText } from './notation.ts'
import type { Triple } from './term.ts'

/** How triples are sent: as `INSERT DATA`, which is atomic per batch, or as one POST per graph of a batch. */
export const storeProtocols = ['update', 'graph-store'] as const

export type StoreProtocol = (typeof storeProtocols)[number]

/** Triples of one request, and characters of it, at most. */
const maxTriples = 5000
const maxLength = 2 * 1024 * 1024

export interface StoreRequest {
  /** Added to the query of the address. */
  readonly query?: string
  readonly body: string
  /** Default: that of the store. */
  readonly timeoutMs?: number
}

/** A triple as text, in its graph. */
export interface GraphLine {
  readonly graph: string | null
  readonly text: string
}

export const contentTypes: { readonly [P in StoreProtocol]: string } = {
  update: 'application/sparql-update; charset=utf-8',
  'graph-store': 'application/n-triples; charset=utf-8',
}

// SPARQL resolves IRIs, so that `e/a/../b` would join `e/b`: there `.` and `..` are written `%2E` and `%2E%2E`.
const unresolved: IriNotation = remembering((iri) => {
  const dots = /(?<=\/|^[^:/]*:)\.{1,2}(?=[/?#]|$)/g
  return `<${absoluteIri(iri).replace(dots, (found) => found.replaceAll('.', '%2E'))}>`
})

export const notations: { readonly [P in StoreProtocol]: IriNotation } = {
  update: unresolved,
  'graph-store': bracketed,
}

/** The requests for a batch. An empty batch gives a request that changes nothing. */
export const requests: { readonly [P in StoreProtocol]: (lines: readonly GraphLine[]) => StoreRequest[] } = {
  update(lines) {
    const blocks = byGraph(lines).map(([graph, text]) =>
      graph === null ? text : `GRAPH ${unresolved(graph)} {\n${text}}\n`,
    )
    return [{ body: `INSERT DATA {\n${blocks.map(guardEscapes).join('')}}` }]
  },
  'graph-store'(lines) {
    const graphs: [string | null, string][] = lines.length === 0 ? [[null, '']] : byGraph(lines)
    return graphs.map(([graph, body]) => ({
      query: graph === null ? 'default' : `graph=${encodeURIComponent(graph)}`,
      body,
    }))
  },
}

/** The triples as lines. */
export function graphLines(triples: readonly Triple[], notation: IriNotation): GraphLine[] {
  return triples.map((each) => ({
    graph: each.g ? absoluteIri(each.g) : null,
    text: `${tripleText(each, notation)} .\n`,
  }))
}

/** Lists of one request each. Lines of one unit stay together. */
export function parts(units: readonly (readonly GraphLine[])[]): GraphLine[][] {
  const lists: GraphLine[][] = []
  let length = 0
  for (const unit of units) {
    const unitLength = unit.reduce((sum, { text }) => sum + text.length, 0)
    const last = lists.at(-1)
    if (last && last.length + unit.length <= maxTriples && length + unitLength <= maxLength)
      last.push(...unit)
    else {
      lists.push([...unit])
      length = 0
    }
    length += unitLength
  }
  return lists
}

/** Each line once. */
function byGraph(lines: readonly GraphLine[]): [string | null, string][] {
  const graphs = new Map<string | null, Set<string>>()
  for (const { graph, text } of lines) {
    const known = graphs.get(graph)
    if (known) known.add(text)
    else graphs.set(graph, new Set([text]))
  }
  return [...graphs].map(([graph, texts]) => [graph, [...texts].join('')])
}

// SPARQL decodes `\uXXXX` before anything else, and stores differ in whether `\\u0022` contains one. When the `u` itself is escaped, all
// of them read a backslash and a `u`.
function guardEscapes(text: string): string {
  return text.replace(/\\(?:\\([uU])?|.)/g, (whole, letter: string | undefined) =>
    letter ? `\\\\\\u00${letter === 'u' ? '75' : '55'}` : whole,
  )
}
