// Provenance of triples, in PROV-O, Web Annotation and TrustGraph's terms, all in the graph `urn:graph:source`. IRIs are hashes of
// what they stand for and times are given, so that stating the same again adds no triple.

import { hash } from 'node:crypto'
import type { ChunkPlace, Grounding, Run, Span } from '../messages/generated.ts'
import { chunkIri, documentIri, isAbsolute, ontologyIri, quote, safeIri } from './iri.ts'
import { iri, literal, quoted, type Term, type Triple, triple } from './term.ts'
import { dc, oa, prov, rdf, rdfs, sourceGraph, tg, xsd } from './vocabulary.ts'

/** Who found facts, where and when. */
export interface Extraction {
  readonly chunkId: string
  /** When the version was loaded whose chunk it is; 0 or undefined when it has none. */
  readonly versionTime?: number
  /** The unit of work, such as `extract-definitions`: the component that provenance names. */
  readonly unit: string
  readonly run: Run
  /** The version of the component. */
  readonly version: string
  /** The model as the server names it. */
  readonly model?: string | null
  /** The ids of the ontologies that the facts were checked against. Default none. */
  readonly ontologies?: readonly string[]
}

export interface DocumentSource {
  readonly documentId: string
  /** For people; empty if none. */
  readonly title: string
  /** Where it came from, an IRI or a path; empty if nowhere. */
  readonly uri: string
  readonly mediaType: string
}

export interface ChunkSource {
  readonly documentId: string
  readonly chunkId: string
  /** The index of the part of the document, from 0. */
  readonly part: number
  /** The index of the chunk in its part, from 0. */
  readonly index: number
  /** Where the chunk begins in the document, in UTF-16 code units. */
  readonly offset: number
  /** Its length in UTF-16 code units. */
  readonly length: number
  /** The page on which it begins, from 1; null where the document has no pages. Default null. */
  readonly page?: number | null
  /** When the version was loaded of which this is said; 0 or undefined when it has none. */
  readonly versionTime?: number
  /** Where the chunk begins in code points; said when the document has versions. Default null. */
  readonly start?: number | null
  /** The chunk size and overlap that were asked for, in characters. */
  readonly size: number
  readonly overlap: number
  /** The component that cut it, such as `chunk-text`, and its version. */
  readonly component: string
  readonly version: string
  /** When the cutting began, in milliseconds since 1970; the same on every repeat. */
  readonly startedAt: number
}

/**
 * The subgraph of one run of one unit over one chunk: (SG tg:contains <<s p o>>) for each stated triple, then the twelve
 * fixed triples, then tg:llmModel and tg:ontology where known. For a further part of the run the fixed ones are the same.
 */
export function subgraphProvenance(extraction: Extraction, stated: readonly Triple[]): Triple[] {
  const { chunkId, unit, run } = extraction
  const names = [emissionName(extraction), unit, run.id]
  const subgraph = iri(`https://trustgraph.ai/subgraph/${contentUuid('subgraph', names)}`)
  const chunk = iri(chunkIri(chunkId))
  const activity: Activity = {
    activity: activityTerm(names),
    component: unit,
    version: extraction.version,
    used: chunk,
    startedAt: run.startedAt,
  }
  const triples = [
    ...stated.map((each) => say(subgraph, tg.contains, quoted(each))),
    say(subgraph, rdf.type, word(prov.Entity)),
    say(subgraph, rdf.type, word(tg.Subgraph)),
    say(subgraph, prov.wasDerivedFrom, chunk),
    say(subgraph, prov.wasGeneratedBy, activity.activity),
    ...activityTriples(activity),
  ]
  if (extraction.model) triples.push(say(activity.activity, tg.llmModel, literal(extraction.model)))
  for (const id of extraction.ontologies ?? [])
    triples.push(say(activity.activity, tg.ontology, iri(ontologyIri(id))))
  return triples
}

/** The triples that a fact states, and where it stands in the text; null when it was not looked for. */
export interface GroundedTriples {
  readonly stated: readonly Triple[]
  readonly grounding: (Pick<Grounding, 'status' | 'spans'> & Partial<Pick<Grounding, 'chunk'>>) | null
}

/**
 * Where the facts of one unit over one chunk stand: for each an annotation whose bodies are its triples and whose targets are its
 * places. A place that several facts share is described once. It is a place in the chunk when the document has versions, so that it
 * does not change when the chunk moves; otherwise in the document.
 */
export function groundingProvenance(
  source: Pick<Extraction, 'chunkId' | 'versionTime' | 'unit'> & Pick<DocumentSource, 'documentId'>,
  facts: readonly GroundedTriples[],
): Triple[] {
  const triples: Triple[] = []
  const places = new Set<string>()
  for (const { stated, grounding } of facts) {
    if (!grounding) continue
    const names = [emissionName(source), source.unit, JSON.stringify(stated)]
    const annotation = iri(`https://trustgraph.ai/annotation/${contentUuid('annotation', names)}`)
    triples.push(
      say(annotation, rdf.type, word(oa.Annotation)),
      ...stated.map((each) => say(annotation, oa.hasBody, quoted(each))),
      say(annotation, tg.grounding, literal(grounding.status)),
    )
    const chunk = source.versionTime ? grounding.chunk : null
    const within = chunk ? emissionName(source) : source.documentId
    for (const span of grounding.spans) {
      const spanNames = [within, String(span.offset - (chunk?.offset ?? 0)), String(span.length)]
      const place = `https://trustgraph.ai/span/${contentUuid('span', spanNames)}`
      triples.push(say(annotation, oa.hasTarget, iri(place)))
      if (!places.has(place))
        triples.push(
          ...(chunk
            ? placeTriples(place, chunkIri(source.chunkId), inChunk(span, chunk))
            : placeTriples(place, documentIri(source.documentId), span)),
        )
      places.add(place)
    }
  }
  return triples
}

/** The same in the chunk. Its page is given only when it is not that on which the chunk begins, as how many pages it is behind that. */
function inChunk(span: Span, chunk: ChunkPlace): Place {
  const isKnown = span.start !== null && span.end !== null && chunk.start !== null
  const pages = (span.page ?? 0) - (chunk.page ?? 0)
  return {
    text: span.text,
    start: isKnown ? span.start - chunk.start : null,
    end: isKnown ? span.end - chunk.start : null,
    page: null,
    pageOffset: span.page !== null && chunk.page !== null && pages > 0 ? pages : null,
  }
}

type Place = Pick<Span, 'start' | 'end' | 'text' | 'page'> & { readonly pageOffset?: number | null }

/** A place in a document or chunk. Its position counts code points, as Web Annotation does. */
function placeTriples(
  place: string,
  source: string,
  { start, end, text, page, pageOffset }: Place,
): Triple[] {
  const [target, position, quotation] = [iri(place), iri(`${place}/position`), iri(`${place}/quote`)]
  const triples = [say(target, rdf.type, word(oa.SpecificResource)), say(target, oa.hasSource, iri(source))]
  if (page !== null) triples.push(say(target, tg.pageNumber, integer(page)))
  if (pageOffset) triples.push(say(target, tg.pageOffset, integer(pageOffset)))
  if (start !== null && end !== null)
    triples.push(
      say(target, oa.hasSelector, position),
      say(position, rdf.type, word(oa.TextPositionSelector)),
      say(position, oa.start, count(start)),
      say(position, oa.end, count(end)),
    )
  if (text !== '')
    triples.push(
      say(target, oa.hasSelector, quotation),
      say(quotation, rdf.type, word(oa.TextQuoteSelector)),
      say(quotation, oa.exact, literal(text)),
    )
  return triples
}

function count(number: number): Term {
  return literal(String(number), { datatype: xsd.nonNegativeInteger })
}

function integer(number: number): Term {
  return literal(String(number), { datatype: xsd.integer })
}

/** What a document is: its title, source and media type. */
export function documentProvenance(source: DocumentSource): Triple[] {
  const document = iri(documentIri(source.documentId))
  const triples = [say(document, rdf.type, word(prov.Entity)), say(document, rdf.type, word(tg.Document))]
  if (source.title) {
    triples.push(
      say(document, dc.title, literal(source.title)),
      say(document, rdfs.label, literal(source.title)),
    )
  }
  if (source.uri) {
    const origin = isAbsolute(source.uri) ? iri(safeIri(source.uri)) : literal(source.uri)
    triples.push(say(document, dc.source, origin))
  }
  if (source.mediaType) triples.push(say(document, tg.mimeType, literal(source.mediaType)))
  return triples
}

/** Which piece of which document a chunk is, and what cut it. Its numbers are typed; TrustGraph's are plain literals. */
export function chunkProvenance(source: ChunkSource): Triple[] {
  const chunk = iri(chunkIri(source.chunkId))
  const document = iri(documentIri(source.documentId))
  const activity = activityTerm([emissionName(source), source.component])
  const start = source.versionTime ? (source.start ?? null) : null
  const { component, version, startedAt, part, index } = source
  return [
    say(chunk, rdf.type, word(prov.Entity)),
    say(chunk, rdf.type, word(tg.Chunk)),
    say(chunk, prov.wasDerivedFrom, document),
    say(chunk, prov.wasGeneratedBy, activity),
    ...activityTriples({ activity, component, version, startedAt, used: document }),
    say(chunk, rdfs.label, literal(`Chunk ${part}/${index}`)),
    say(chunk, tg.partIndex, integer(part)),
    say(chunk, tg.chunkIndex, integer(index)),
    say(chunk, tg.charOffset, integer(source.offset)),
    say(chunk, tg.charLength, integer(source.length)),
    ...(start === null ? [] : [say(chunk, tg.codePointOffset, integer(start))]),
    ...(source.page == null ? [] : [say(chunk, tg.pageNumber, integer(source.page))]),
    say(activity, tg.chunkSize, integer(source.size)),
    say(activity, tg.chunkOverlap, integer(source.overlap)),
  ]
}

interface Activity {
  readonly activity: Term
  readonly component: string
  readonly version: string
  readonly used: Term
  readonly startedAt: number
}

function activityTriples({ activity, component, version, used, startedAt }: Activity): Triple[] {
  const agent = iri(`https://trustgraph.ai/agent/${quote(component)}`)
  return [
    say(activity, rdf.type, word(prov.Activity)),
    say(activity, rdfs.label, literal(`${component} extraction`)),
    say(activity, prov.used, used),
    say(activity, prov.wasAssociatedWith, agent),
    say(activity, prov.startedAtTime, literal(new Date(startedAt).toISOString(), { datatype: xsd.dateTime })),
    say(activity, tg.componentVersion, literal(version)),
    say(agent, rdf.type, word(prov.Agent)),
    say(agent, rdfs.label, literal(component)),
  ]
}

/** What is made from a chunk of one version is named apart from what is made of it when it comes back in a later one. */
const emissionName = ({ chunkId, versionTime }: Pick<Extraction, 'chunkId' | 'versionTime'>) =>
  versionTime ? `${chunkId}@${versionTime}` : chunkId

function activityTerm(names: readonly string[]): Term {
  return iri(`https://trustgraph.ai/activity/${contentUuid('activity', names)}`)
}

/** A name-based UUID (RFC 9562, version 5); the list is written as JSON, so that two lists never give one text. */
function contentUuid(kind: string, names: readonly string[]): string {
  const name = Buffer.from(JSON.stringify([kind, ...names]))
  const hex = hash('sha1', Buffer.concat([urls, name]), 'hex')
  const variant = ((Number.parseInt(hex[16]!, 16) & 3) | 8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** The namespace of URLs. */
const urls = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex')

const words = new Map<string, Term>()

/** The term of a word of a vocabulary, made once. */
function word(value: string): Term {
  const known = words.get(value)
  if (known) return known
  const made = iri(value)
  words.set(value, made)
  return made
}

function say(s: Term, p: string, o: Term): Triple {
  return triple(s, word(p), o, sourceGraph)
}
