// Parses the text of an RDF file to a graph: Turtle (and N-Triples), RDF/XML and JSON-LD, with parsers that fetch nothing.
import { finished } from 'node:stream/promises'
import { JsonLdParser } from 'jsonld-streaming-parser'
import { Parser as TurtleParser } from 'n3'
import { RdfXmlParser } from 'rdfxml-streaming-parser'
import { createGraph, type Graph, type RdfStatement } from './graph.ts'

export type Syntax = 'turtle' | 'rdfxml' | 'jsonld'

/** A syntax error, with its line if that is known. */
export class SyntaxFault extends Error {
  readonly code: 'ontology_invalid' | 'ontology_context_remote'
  readonly line: number | undefined

  constructor(
    message: string,
    {
      code = 'ontology_invalid',
      line,
      cause,
    }: { code?: SyntaxFault['code']; line?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.code = code
    this.line = line
  }
}

/** The graph of a text. Relative IRIs are resolved against `base`. Throws SyntaxFault. */
export async function parseGraph(text: string, syntax: Syntax, base: string): Promise<Graph> {
  const graph = createGraph()
  switch (syntax) {
    case 'turtle':
      parseTurtle(text, base, graph)
      return graph
    case 'rdfxml':
      await parseRdfXml(text, base, graph)
      return graph
    case 'jsonld':
      await parseJsonLd(text, base, graph)
      return graph
    default:
      return syntax satisfies never
  }
}

function parseTurtle(text: string, base: string, graph: Graph): void {
  try {
    for (const quad of new TurtleParser({ baseIRI: base }).parse(text)) graph.add(quad)
  } catch (cause) {
    const { message, context } = cause as Error & { context?: { line?: number } }
    throw new SyntaxFault(`not Turtle: ${message.replace(/ on line \d+\.?$/, '')}`, {
      line: context?.line,
      cause,
    })
  }
}

async function parseRdfXml(text: string, base: string, graph: Graph): Promise<void> {
  refuseOwlXml(text)
  const parser = new RdfXmlParser({ baseIRI: base, trackPosition: true })
  try {
    await feed(parser, text, graph)
  } catch (cause) {
    const { message, line } = cause as Error & { line?: number }
    const place = /^(?:Line )?(\d+)(?::| column )\d+:?\s*/.exec(message)
    throw new SyntaxFault(`not RDF/XML: ${message.slice(place?.[0].length ?? 0)}`, {
      line: line ?? (place ? Number(place[1]) : undefined),
      cause,
    })
  }
}

async function parseJsonLd(text: string, base: string, graph: Graph): Promise<void> {
  parseJson(text)
  let remote: string | undefined
  const documentLoader = {
    load(url: string): Promise<never> {
      remote ??= url
      return Promise.reject(new Error('nothing is ever fetched'))
    },
  }
  try {
    await feed(new JsonLdParser({ baseIRI: base, documentLoader }), text, graph)
  } catch (cause) {
    if (remote === undefined) throw new SyntaxFault(`not JSON-LD: ${(cause as Error).message}`, { cause })
    const message = `it asks for the context ${remote}, and nothing is ever fetched`
    throw new SyntaxFault(message, { code: 'ontology_context_remote', cause })
  }
}

async function feed(parser: RdfXmlParser | JsonLdParser, text: string, graph: Graph): Promise<void> {
  parser.on('data', (quad: RdfStatement) => graph.add(quad))
  const ended = finished(parser as unknown as NodeJS.ReadWriteStream)
  parser.end(text)
  await ended
}

/** Throws SyntaxFault with the line. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const { message } = cause as Error
    const position = /position (\d+)/.exec(message)?.[1]
    const line = position === undefined ? undefined : text.slice(0, Number(position)).split('\n').length
    throw new SyntaxFault(`not JSON: ${message}`, { line, cause })
  }
}

/** The syntax of a file, by its name and then by its first characters. `trustgraph` is TrustGraph's own JSON form. */
export function syntaxOf(file: string, text: string): Syntax | 'trustgraph' {
  const extension = /\.([a-z0-9]+)$/i.exec(file)?.[1]?.toLowerCase()
  if (extension === 'jsonld') return 'jsonld'
  if (extension === 'ttl' || extension === 'nt' || extension === 'n3') return 'turtle'
  const start = text.slice(0, 1000).trimStart()
  if (/^<(?:\?xml|!|[\w.-]+:RDF\b|RDF\b|Ontology\b)/.test(start)) return 'rdfxml'
  if (extension !== 'json' && !start.startsWith('{')) return 'turtle'
  const value = parseJson(text)
  if (Array.isArray(value)) return 'jsonld'
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : []
  return keys.some((key) => key.startsWith('@')) ? 'jsonld' : 'trustgraph'
}

/** An OWL/XML file looks like RDF/XML, but an RDF/XML parser finds nothing in it. */
function refuseOwlXml(text: string): void {
  const root = /<(?![?!])[^>]*>/.exec(text.slice(0, 100_000))?.[0] ?? ''
  if (/^<(?:[\w.-]+:)?Ontology\b/.test(root) && !root.includes('rdf:about='))
    throw new SyntaxFault('this is OWL/XML, which is not read: save it as Turtle or RDF/XML')
}
