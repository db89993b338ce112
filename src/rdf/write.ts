// Triples as files: N-Quads, TriG, Turtle and JSON Lines. Every batch consists of whole statements: a file that ends between two batches
// is valid, and batches of several writers can follow one another.

import { jsonLine } from './json-lines.ts'
import { absoluteIri, bracketed, type IriNotation, remembering, termText, tripleText } from './notation.ts'
import { reify } from './reify.ts'
import type { Triple } from './term.ts'
import { namespaces } from './vocabulary.ts'

/** The file formats, as `--format` names them. */
export const formats = ['nquads', 'trig', 'turtle', 'jsonl'] as const

/** A format in which each batch of triples is written at once. */
export type TripleFormat = (typeof formats)[number]

/** The formats that are made of a whole graph: see graph-store.ts. */
export const graphFormats = ['jsonld', 'dot', 'html'] as const

/** A format that is made of a whole graph. */
export type GraphFormat = (typeof graphFormats)[number]

/** How quoted triples are written. */
export interface EncoderOptions {
  /**
   * Write quoted triples as the triple terms of RDF 1.2, `<<( s p o )>>`. Default false: as rdf:Statement reification,
   * which every RDF 1.1 loader reads. JSON Lines has its own form for them and always keeps them.
   */
  readonly rdfStar?: boolean
}

/** The text of a file: `begin()`, then any number of batches, then `end()`. It keeps no state between batches. */
export interface Encoder {
  /** The head of the file, written once. */
  begin(): string
  /**
   * @throws `message_invalid` if one of the triples cannot be written in RDF (a relative IRI, a literal subject);
   * then nothing of the batch was encoded.
   */
  encode(triples: readonly Triple[]): string
  end(): string
}

/**
 * The encoder of a format. Turtle has no named graphs: there the triples of all graphs go into its only graph.
 *
 * @example
 * const encoder = createEncoder('trig')
 * file.write(encoder.begin() + encoder.encode(triples) + encoder.end())
 */
export function createEncoder(format: TripleFormat, { rdfStar = false }: EncoderOptions = {}): Encoder {
  const rdf = (triples: readonly Triple[]) => reify(triples, { keepObjects: rdfStar })
  switch (format) {
    case 'nquads':
      return encoder('', (triples) => joined(rdf(triples), quadLine))
    case 'trig':
      return encoder(prefixes, (triples) => graphs(rdf(triples)))
    case 'turtle':
      return encoder(prefixes, (triples) => statements(rdf(triples), ''))
    case 'jsonl':
      return encoder('', (triples) => joined(triples, jsonLine))
    default:
      return format satisfies never
  }
}

function encoder(head: string, encode: Encoder['encode']): Encoder {
  return { begin: () => head, encode, end: () => '' }
}

function joined(triples: readonly Triple[], line: (triple: Triple) => string): string {
  let text = ''
  for (const each of triples) text += line(each)
  return text
}

const graphEnd = remembering((graph) => (graph ? ` ${bracketed(graph)} .\n` : ' .\n'))

function quadLine(quad: Triple): string {
  return tripleText(quad, bracketed) + graphEnd(quad.g)
}

const prefixes = Object.entries(namespaces)
  .map(([prefix, namespace]) => `@prefix ${prefix}: <${namespace}> .\n`)
  .join('')

const prefixOf = new Map(
  Object.entries(namespaces).map(([prefix, namespace]) => [namespace as string, prefix]),
)

/** `prefix:name` when the name needs no escape in Turtle, otherwise `<iri>`. */
const prefixed: IriNotation = remembering((given) => {
  const iri = absoluteIri(given)
  const end = Math.max(iri.lastIndexOf('#'), iri.lastIndexOf('/')) + 1
  const prefix = prefixOf.get(iri.slice(0, end))
  const name = iri.slice(end)
  return prefix !== undefined && /^\w[\w-]*$/.test(name) ? `${prefix}:${name}` : `<${iri}>`
})

/** Consecutive triples of one graph share its block. */
function graphs(triples: readonly Triple[]): string {
  let text = ''
  for (let from = 0, to = 0; from < triples.length; from = to) {
    const graph = triples[from]?.g
    while (to < triples.length && triples[to]?.g === graph) to++
    const block = triples.slice(from, to)
    text += graph ? `${prefixed(graph)} {\n${statements(block, '    ')}}\n` : statements(block, '')
  }
  return text
}

/** Consecutive triples share their subject, and their predicate if that is the same, too. */
function statements(triples: readonly Triple[], indent: string): string {
  let text = ''
  let subject = ''
  let predicate = ''
  for (const { s, p, o } of triples) {
    const nextSubject = termText(s, 'subject', prefixed)
    const nextPredicate = termText(p, 'predicate', prefixed)
    const object = termText(o, 'object', prefixed)
    if (nextSubject !== subject) {
      text += `${text && ' .\n'}${indent}${nextSubject} ${nextPredicate} ${object}`
    } else if (nextPredicate !== predicate) {
      text += ` ;\n${indent}    ${nextPredicate} ${object}`
    } else {
      text += ` ,\n${indent}        ${object}`
    }
    subject = nextSubject
    predicate = nextPredicate
  }
  return text && `${text} .\n`
}
