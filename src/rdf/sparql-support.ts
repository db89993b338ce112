// Support in a SPARQL 1.1 store: a triple also stands in a graph of each emission that states it, its copy, and leaves with the last one.
// The names of all copies of one graph begin with the name of its shelf; a register says of which emission each copy is. Nodes of
// provenance belong to one emission, by their IRIs: their triples have no copies, only the nodes are noted.
import { hash } from 'node:crypto'
import { emissionKey } from '../messages/emission.ts'
import type { IriNotation } from './notation.ts'
import { reify } from './reify.ts'
import { type GraphLine, graphLines } from './sparql-text.ts'
import { documentName, type Emission, type Statement, type Withdrawal } from './support.ts'
import type { Triple } from './term.ts'
import { sourceGraph } from './vocabulary.ts'

interface Scope {
  readonly workspace: string
  readonly flow: string
}

const register = 'urn:graphmill:support'
const [ofDocument, loadedAt, onShelf, ofGraph, leaves, noted, loose, looser] = [
  'document',
  'time',
  'shelf',
  'graph',
  'leaves',
  'node',
  'loose',
  'looser',
].map((name) => `<${register}:${name}>`)

/** Nodes of the graph of provenance that only one emission states. */
const roots = 'https://trustgraph.ai/(subgraph|annotation)/'
/** Nodes that leave with the last one that refers to them; the last three may be of several emissions. */
const referred = 'https://trustgraph.ai/(span|activity|agent)/|urn:graphmill:statement:'
const node = new RegExp(`^(${roots}|${referred})`)

/** Triples of a message that a store must take together, at most. */
const maxTogether = 500

/** Copies of triples of the default graph, or of another graph. */
function shelfOf(graph: string | null): string {
  return `${register}:of:${graph === null ? 'default' : hash('sha256', graph).slice(0, 16)}`
}

/** The lines of a statement with what supports them, in units that a store must take together. */
export function supported(
  { emission, triples }: Statement,
  how: { readonly scope: Scope; readonly notation: IriNotation },
): GraphLine[][] {
  const units: GraphLine[][] = []
  for (let from = 0; from < triples.length; from += maxTogether)
    units.push(supportedUnit(emission, reify(triples.slice(from, from + maxTogether)), how))
  return units
}

function supportedUnit(
  emission: Emission,
  triples: readonly Triple[],
  { scope, notation }: { readonly scope: Scope; readonly notation: IriNotation },
): GraphLine[] {
  const document = documentName(emission.documentId, scope)
  const name = `${document}:${hex(emissionKey(emission))}`
  const copies = new Map<string | null, string>()
  const unit: GraphLine[] = []

  function copyOf(graph: string | null): string {
    const known = copies.get(graph)
    if (known !== undefined) return known
    const shelf = shelfOf(graph)
    const copy = `${shelf}:${name}`
    copies.set(graph, copy)
    const said = [
      `<${copy}> ${ofDocument} <${register}:document:${document}> ; ${loadedAt} ${emission.versionTime} ; ${onShelf} <${shelf}> .\n`,
      graph === null ? '' : `<${shelf}> ${ofGraph} ${notation(graph)} .\n`,
    ]
    unit.push({ graph: register, text: said.join('') })
    return copy
  }

  // What another node of the unit refers to is found by it.
  const found = new Set(triples.filter(isOfNode).map(({ o }) => o.iri))
  const lines = graphLines(triples, notation)
  for (const [at, each] of triples.entries()) {
    const line = lines[at]!
    unit.push(line)
    if (!isOfNode(each)) unit.push({ graph: copyOf(line.graph), text: line.text })
    else if (!found.has(each.s.iri)) {
      found.add(each.s.iri)
      unit.push({ graph: copyOf(sourceGraph), text: `${notation(each.s.iri!)} ${noted} true .\n` })
    }
  }
  return unit
}

const isOfNode = ({ s, g }: Triple) => g === sourceGraph && s.iri !== null && node.test(s.iri)

const hex = (key: string) => Buffer.from(key, 'latin1').toString('hex')

/**
 * The update that withdraws: the copies that leave are marked, and their triples put on their shelf. What stands in another copy leaves the
 * shelf, and the rest is removed. In no pattern two graphs are joined below EXISTS, which stores are slow at. Where updates are not
 * atomic, the next one completes what a crash has interrupted.
 */
export function withdrawalUpdate({ documentId, from, upTo, kept }: Withdrawal, scope: Scope): string {
  const name = documentName(documentId, scope)
  const triple = '{ ?s ?p ?o }'
  const known = (text: string) => `GRAPH <${register}> { ${text} }`
  const of = `<${register}:document:${name}>`
  const key = `BIND(STRAFTER(STR(?copy), ":${name}:") AS ?key)`
  const except =
    kept.size > 0 ? `MINUS { VALUES ?key { ${[...kept].map((each) => `"${hex(each)}"`).join(' ')} } }` : ''
  const leaving = known(`?copy ${leaves} true`)
  const shelf = `<${shelfOf(null)}>`
  const shelves = known(`?shelf ${ofGraph} ?graph`)
  const inCopy = (begin: string) =>
    `FILTER EXISTS { GRAPH ?other ${triple} FILTER(STRSTARTS(STR(?other), ${begin})) }`
  return [
    `INSERT { ${leaving} } WHERE { ${known(`?copy ${ofDocument} ${of} ; ${loadedAt} ?time`)} FILTER(?time >= ${from} && ?time <= ${upTo}) ${key} ${except} }`,
    `INSERT { GRAPH ?shelf ${triple} } WHERE { ${known(`?copy ${leaves} true ; ${onShelf} ?shelf`)} GRAPH ?copy ${triple} }`,
    `DELETE { GRAPH ?copy ${triple} } WHERE { ${leaving} GRAPH ?copy ${triple} }`,
    `DELETE { GRAPH ${shelf} ${triple} } WHERE { GRAPH ${shelf} ${triple} ${inCopy(`"${shelfOf(null)}:"`)} }`,
    `DELETE { GRAPH ?shelf ${triple} } WHERE { ${shelves} GRAPH ?shelf ${triple} ${inCopy('CONCAT(STR(?shelf), ":")')} }`,
    `DELETE ${triple} WHERE { GRAPH ${shelf} ${triple} }`,
    ...nodeUpdates(),
    `DELETE { GRAPH ?graph ${triple} } WHERE { ${shelves} GRAPH ?shelf ${triple} }`,
    ...looseUpdates(),
    `DELETE { GRAPH ${shelf} ${triple} } WHERE { GRAPH ${shelf} ${triple} }`,
    `DELETE { GRAPH ?shelf ${triple} } WHERE { ${shelves} GRAPH ?shelf ${triple} }`,
    `DELETE { ${known('?copy ?p ?o')} } WHERE { ${leaving} ${known('?copy ?p ?o')} }`,
  ].join(' ;\n')
}

const inSource = (text: string) => `GRAPH <${sourceGraph}> { ${text} }`
const onSourceShelf = (text: string) => `GRAPH <${shelfOf(sourceGraph)}> { ${text} }`
const isReferred = (name: string) => `FILTER(REGEX(STR(${name}), "^(${referred})"))`

/** Removes the roots that nobody notes; what they referred to is loose. */
function nodeUpdates(): string[] {
  const gone = onSourceShelf(`?node ${noted} true`)
  const isLoose = onSourceShelf(`?other ${loose} true`)
  const root = `FILTER(REGEX(STR(?node), "^${roots}"))`
  return [
    `INSERT { ${onSourceShelf(`?node ${loose} true`)} } WHERE { ${gone} ${isReferred('?node')} }`,
    `INSERT { ${isLoose} } WHERE { ${gone} ${root} ${inSource('?node ?p ?other')} ${isReferred('?other')} }`,
    `INSERT { ${isLoose} } WHERE { ${onSourceShelf('?s ?p ?other')} ${isReferred('?other')} }`,
    `DELETE { ${inSource('?node ?p ?o')} } WHERE { ${gone} ${root} ${inSource('?node ?p ?o')} }`,
  ]
}

/** Removes what is loose and is neither referred to nor noted in a copy, and then the same of what that referred to. */
function looseUpdates(): string[] {
  const removed = (mark: string, more: string) => {
    const marked = onSourceShelf(`?node ${mark} true`)
    return [
      `DELETE { ${marked} } WHERE { ${marked} FILTER EXISTS { ${inSource('?any ?of ?node')} } }`,
      `DELETE { ${marked} } WHERE { ${marked} FILTER EXISTS { GRAPH ?copy { ?node ${noted} true } FILTER(STRSTARTS(STR(?copy), "${shelfOf(sourceGraph)}:")) } }`,
      more,
      `DELETE { ${inSource('?node ?p ?o')} } WHERE { ${marked} ${inSource('?node ?p ?o')} }`,
    ].filter((text) => text !== '')
  }
  const next = `INSERT { ${onSourceShelf(`?other ${looser} true`)} } WHERE { ${onSourceShelf(`?node ${loose} true`)} ${inSource('?node ?p ?other')} ${isReferred('?other')} }`
  return [...removed(loose!, next), ...removed(looser!, '')]
}
