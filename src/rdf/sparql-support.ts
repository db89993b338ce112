// Support in a SPARQL 1.1 store: each triple also stands in a graph of the emission that states it, and is removed together with the last
// copy. The names of all copies of one graph begin with the name of its shelf; a register says which emission each copy is of.
import { hash } from 'node:crypto'
import { emissionKey } from '../messages/emission.ts'
import type { IriNotation } from './notation.ts'
import type { GraphLine } from './sparql-text.ts'
import { documentName, type Emission, type Withdrawal } from './support.ts'

interface Scope {
  readonly workspace: string
  readonly flow: string
}

const register = 'urn:graphmill:support'
const [ofDocument, ofKey, loadedAt, onShelf, ofGraph, leaves] = [
  'document',
  'key',
  'time',
  'shelf',
  'graph',
  'leaves',
].map((name) => `<${register}:${name}>`)

/** Copies of triples of the default graph, or of another graph. */
function shelfOf(graph: string | null): string {
  return `${register}:of:${graph === null ? 'default' : hash('sha256', graph).slice(0, 16)}`
}

const hex = (key: string) => Buffer.from(key, 'latin1').toString('hex')

/** The lines of an emission, each with its copy, in units that a store must take together; first the entries in the register. */
export function supported(
  lines: readonly GraphLine[],
  { emission, scope, notation }: { emission: Emission; scope: Scope; notation: IriNotation },
): GraphLine[][] {
  const document = documentName(emission.documentId, scope)
  const key = hex(emissionKey(emission))
  const copies = new Map<string | null, string>()
  const entries: GraphLine[] = []

  function copyOf(graph: string | null): string {
    const known = copies.get(graph)
    if (known !== undefined) return known
    const shelf = shelfOf(graph)
    const copy = `${shelf}:${document}:${key}`
    copies.set(graph, copy)
    const said = [
      `<${copy}> ${ofDocument} <${register}:document:${document}> ; ${ofKey} "${key}" ; `,
      `${loadedAt} ${emission.versionTime} ; ${onShelf} <${shelf}> .\n`,
      graph === null ? '' : `<${shelf}> ${ofGraph} ${notation(graph)} .\n`,
    ]
    entries.push({ graph: register, text: said.join('') })
    return copy
  }

  const units = lines.map((line) => [line, { graph: copyOf(line.graph), text: line.text }])
  return [entries, ...units]
}

/**
 * The update that withdraws: the copies that leave are marked, their triples put on their shelf, and what stands on a shelf and in no copy
 * is removed. Where updates are not atomic, the next one completes what a crash has interrupted. In no pattern two graphs are joined
 * below NOT EXISTS, which stores are slow at.
 */
export function withdrawalUpdate({ documentId, from, upTo, kept }: Withdrawal, scope: Scope): string {
  const known = (text: string) => `GRAPH <${register}> { ${text} }`
  const triple = '{ ?s ?p ?o }'
  const of = `<${register}:document:${documentName(documentId, scope)}>`
  const except =
    kept.size > 0 ? `MINUS { VALUES ?key { ${[...kept].map((key) => `"${hex(key)}"`).join(' ')} } }` : ''
  const inNoCopy = (shelf: string) =>
    `FILTER NOT EXISTS { GRAPH ?other ${triple} FILTER(STRSTARTS(STR(?other), ${shelf})) }`
  const leaving = known(`?copy ${leaves} true`)
  const shelf = `<${shelfOf(null)}>`
  return [
    `INSERT { ${leaving} } WHERE { ${known(`?copy ${ofDocument} ${of} ; ${loadedAt} ?time ; ${ofKey} ?key`)} FILTER(?time >= ${from} && ?time <= ${upTo}) ${except} }`,
    `INSERT { GRAPH ?shelf ${triple} } WHERE { ${known(`?copy ${leaves} true ; ${onShelf} ?shelf`)} GRAPH ?copy ${triple} }`,
    `DELETE { GRAPH ?copy ${triple} } WHERE { ${leaving} GRAPH ?copy ${triple} }`,
    `DELETE ${triple} WHERE { GRAPH ${shelf} ${triple} ${inNoCopy(`"${shelfOf(null)}:"`)} }`,
    `DELETE { GRAPH ?graph ${triple} } WHERE { ${known(`?shelf ${ofGraph} ?graph`)} GRAPH ?shelf ${triple} ${inNoCopy('CONCAT(STR(?shelf), ":")')} }`,
    `DELETE { GRAPH ${shelf} ${triple} } WHERE { GRAPH ${shelf} ${triple} }`,
    `DELETE { GRAPH ?shelf ${triple} } WHERE { ${known(`?shelf ${ofGraph} ?graph`)} GRAPH ?shelf ${triple} }`,
    `DELETE { ${known('?copy ?p ?o')} } WHERE { ${leaving} ${known('?copy ?p ?o')} }`,
  ].join(' ;\n')
}
