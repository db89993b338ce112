// The graph as a person reads it: entities with their names, facts between them, and where each fact stands in the text. It is made of
// the triples of a run, in any order; what stands where is read from provenance.

import type { Triple } from '../messages/generated.ts'
import { bracketed, literalParts, termText, tripleText } from './notation.ts'
import { dc, oa, prov, rdf, rdfs, skos, sourceGraph, tg } from './vocabulary.ts'

/** `class`: what an entity is; `attribute`: a value that is no entity. */
export const factKinds = ['relationship', 'definition', 'attribute', 'class'] as const

export type FactKind = (typeof factKinds)[number]

/** Where a fact stands. */
export interface FactSource {
  /** The words of the text; empty if unknown. */
  readonly text: string
  /** The title of the document; empty if unknown. */
  readonly document: string
  /** From where to where in the document, in characters (code points); null if unknown. */
  readonly start: number | null
  readonly end: number | null
  readonly page: string | null
}

export interface GraphFact {
  /** The IRI of the entity. */
  readonly subject: string
  readonly predicate: string
  /** The IRI of an entity in a relationship, of a class in a `class`; otherwise a text. */
  readonly object: string
  readonly kind: FactKind
  readonly sources: readonly FactSource[]
  /** Provenance says that it does not stand in the text. */
  readonly isUngrounded: boolean
}

export interface Graph {
  /** Each once, in the order in which they came. */
  readonly facts: readonly GraphFact[]
  /** The name of everything that has an IRI: its label, otherwise the end of its IRI. */
  nameOf(iri: string): string
}

/** What is known of a resource of provenance. Only what leads from a fact to its text. */
interface Resource {
  bodies?: string[]
  links?: string[]
  title?: string
  text?: string
  start?: number
  end?: number
  page?: string
  /** How many pages a place is behind the beginning of its chunk. */
  pageOffset?: number
  /** Where a chunk begins, in code points: its places are counted from there. */
  begin?: number
  grounding?: string
}

/** Predicates that lead from an annotation to its places, and from there to text and document. */
const linking: ReadonlySet<string> = new Set([
  oa.hasTarget,
  oa.hasSource,
  oa.hasSelector,
  prov.wasDerivedFrom,
])

export function createGraphBuilder() {
  const facts = new Map<string, Omit<GraphFact, 'sources' | 'isUngrounded'>>()
  const labels = new Map<string, string>()
  const resources = new Map<string, Resource>()

  function addFact(each: Triple): void {
    const [subject, predicate] = [each.s.iri ?? termText(each.s, 'subject', bracketed), each.p.iri!]
    if (predicate === rdfs.label && each.o.type === 'l') {
      if (!labels.has(subject)) labels.set(subject, literalParts(each.o).value)
      return
    }
    const key = tripleText(each, bracketed)
    if (facts.has(key)) return
    const isText = each.o.type === 'l'
    const object = isText ? literalParts(each.o).value : (each.o.iri ?? termText(each.o, 'object', bracketed))
    facts.set(key, { subject, predicate, object, kind: kindOf(predicate, isText) })
  }

  function addProvenance({ s, p, o }: Triple): void {
    const [subject, predicate] = [s.iri, p.iri]
    if (subject === null || predicate === null) return
    const known = resources.get(subject) ?? {}
    if (predicate === oa.hasBody && o.triple)
      known.bodies = [...(known.bodies ?? []), tripleText(o.triple, bracketed)]
    else if (linking.has(predicate) && o.iri) known.links = [...(known.links ?? []), o.iri]
    else if (predicate === oa.exact) known.text = o.value ?? ''
    else if (predicate === oa.start) known.start = Number(o.value)
    else if (predicate === oa.end) known.end = Number(o.value)
    else if (predicate === tg.pageNumber) known.page = o.value ?? ''
    else if (predicate === tg.pageOffset) known.pageOffset = Number(o.value)
    else if (predicate === tg.codePointOffset) known.begin = Number(o.value)
    else if (predicate === tg.grounding) known.grounding = o.value ?? ''
    else if (predicate === dc.title) known.title = o.value ?? ''
    else return
    resources.set(subject, known)
  }

  /** What an annotation's target leads to, in a few steps: its selectors, its chunk, its document. */
  function sourceOf(target: string): FactSource {
    const found: Resource = {}
    const seen = new Set<string>()
    let next = [target]
    while (next.length > 0) {
      const known = next.filter((iri) => !seen.has(iri)).map((iri) => resources.get(iri) ?? {})
      for (const iri of next) seen.add(iri)
      for (const each of known) Object.assign(found, { ...each, ...found })
      next = known.flatMap(({ links = [] }) => links).filter((iri) => !seen.has(iri))
    }
    const { text = '', title = '', begin = 0, pageOffset = 0 } = found
    const page = found.page && pageOffset ? String(Number(found.page) + pageOffset) : (found.page ?? null)
    const pointOf = (at: number | undefined) => (at === undefined ? null : begin + at)
    return { text, document: title, start: pointOf(found.start), end: pointOf(found.end), page }
  }

  return {
    add(triples: readonly Triple[]): void {
      for (const each of triples)
        if (each.g === sourceGraph) addProvenance(each)
        else if (each.g === null) addFact(each)
    },
    build(): Graph {
      const sources = new Map<string, FactSource[]>()
      const ungrounded = new Set<string>()
      for (const { bodies = [], links = [], grounding } of resources.values()) {
        if (bodies.length === 0) continue
        const places = links.map(sourceOf)
        for (const body of bodies) {
          const known = sources.get(body) ?? []
          for (const place of places) if (!known.some((each) => isSame(each, place))) known.push(place)
          sources.set(body, known)
          if (grounding === 'ungrounded') ungrounded.add(body)
        }
      }
      return {
        facts: [...facts].map(([key, fact]) => ({
          ...fact,
          sources: sources.get(key) ?? [],
          isUngrounded: ungrounded.has(key) && !sources.get(key)?.length,
        })),
        nameOf: (iri) => labels.get(iri) ?? endOf(iri),
      }
    },
  }
}

const isSame = (a: FactSource, b: FactSource) =>
  a.start === b.start && a.end === b.end && a.document === b.document && a.text === b.text

function kindOf(predicate: string, isText: boolean): FactKind {
  if (predicate === skos.definition) return 'definition'
  if (predicate === rdf.type) return 'class'
  return isText ? 'attribute' : 'relationship'
}

/** The last part of an IRI, decoded: `http://trustgraph.ai/e/alan-turing` is `alan-turing`. */
function endOf(iri: string): string {
  const end = /[^/#:]*$/.exec(iri)![0] || iri
  try {
    return decodeURIComponent(end)
  } catch {
    return end
  }
}

/** A fact in words: `chalk — is composed of → carbonic acid`. */
export function factText({ subject, predicate, object, kind }: GraphFact, { nameOf }: Graph): string {
  const what = kind === 'definition' || kind === 'attribute' ? object : nameOf(object)
  return `${nameOf(subject)} — ${nameOf(predicate)} → ${what}`
}
