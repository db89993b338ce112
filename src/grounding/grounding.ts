// Looks for the values of an item in the text of its chunk: the item is grounded when all the values that must stand there do. If a
// value stands in several places, the place nearest to the other values counts.
import { pairEnds, pointsBefore } from '../code-points.ts'
import type { GroundingInit, GroundingRequest, SpanInit } from '../messages/generated.ts'
import { pageAt } from '../pages.ts'
import { type Finding, type Match, type Place, TextIndex } from './text-index.ts'

/** How items are looked for in one text. */
export interface Grounder {
  readonly index: TextIndex
  /** Gives the same result for the same item every time. */
  ground(item: object): GroundingInit
}

/** The longest text of a span. */
const maxText = 500
/** Spans of an item, at most: an item with its spans must fit a message. */
const maxSpans = 100
/** From the strongest to the weakest. */
const matches: readonly Match[] = ['exact', 'normalized', 'fuzzy']

/** A value that was found, and the key of the item that has it. */
interface FoundValue {
  readonly field: string
  readonly finding: Finding
}

/**
 * Looks for items in one text. `request` says which values must stand there, and where the text begins in its document. The index of
 * the text is built here, or taken from the latest texts.
 */
export function createGrounder(text: string, request: GroundingRequest): Grounder {
  const index = indexOf(text)
  const spanOf = spanMaker(text, request)
  const { offset, start } = request
  const chunk = { offset, start, page: pageAt(request, offset) }
  return {
    index,
    ground(item) {
      const values = groundedValues(item, request.names)
      const found: FoundValue[] = []
      for (const [field, value] of values) {
        const finding = index.find(value)
        if (finding) found.push({ field, finding })
      }
      const isGrounded = values.length > 0 && found.length === values.length
      let weakest = 0
      for (const { finding } of found) weakest = Math.max(weakest, matches.indexOf(finding.match))
      const shown = found.slice(0, maxSpans - request.sentences.length)
      const near = nearestTo(shown)
      const spans = shown.map(({ field, finding: { match, places } }) =>
        spanOf(field, match, nearestPlace(places, near)),
      )
      for (const field of request.sentences) {
        const value: unknown = (item as Readonly<Record<string, unknown>>)[field]
        const sentence = typeof value === 'string' ? index.findSentence(value) : undefined
        if (sentence) spans.push(spanOf(field, sentence.match, sentence.places[0]!))
      }
      return { status: isGrounded ? matches[weakest]! : 'ungrounded', spans, chunk }
    },
  }
}

/** The latest texts are kept, because the units of a chunk are asked for at about the same time. */
const latest = new Map<string, TextIndex>()
const maxLatest = 32
/** Longer texts are not kept. */
const maxKept = 10_000

function indexOf(text: string): TextIndex {
  const known = latest.get(text)
  const index = known ?? new TextIndex(text)
  if (known || text.length > maxKept) return index
  latest.set(text, index)
  if (latest.size > maxLatest) latest.delete(latest.keys().next().value!)
  return index
}

/** The values that must stand in the text: those of `names` or, if the item has none of these, all texts and numbers. */
export function groundedValues(item: object, names: readonly string[]): [string, string][] {
  const values: [string, string][] = []
  for (const [field, value] of Object.entries(item) as [string, unknown][]) {
    if (typeof value === 'number') values.push([field, String(value)])
    else if (typeof value === 'string' && value.trim() !== '') values.push([field, value])
  }
  const named = values.filter(([field]) => names.includes(field))
  return named.length > 0 ? named : values
}

/** Where the values count: at the place of the rarest one that has the others nearest to it. */
function nearestTo(found: readonly FoundValue[]): number {
  let rarest = found[0]?.finding.places ?? []
  for (const { finding } of found) if (finding.places.length < rarest.length) rarest = finding.places
  let best = 0
  let least = Number.POSITIVE_INFINITY
  for (const { start } of rarest) {
    let sum = 0
    for (const { finding } of found) sum += Math.abs(nearestPlace(finding.places, start).start - start)
    if (sum < least) {
      least = sum
      best = start
    }
    if (sum === 0) break
  }
  return best
}

/** The first of equally near places, which stand in the order of the text. */
function nearestPlace(places: readonly Place[], start: number): Place {
  let best = places[0]!
  for (const place of places) {
    const difference = Math.abs(place.start - start) - Math.abs(best.start - start)
    if (difference < 0) best = place
    else if (difference > 0) break
  }
  return best
}

/** Makes spans of the document from places of the text. */
function spanMaker(text: string, { offset, start: firstPoint, pages, firstPage }: GroundingRequest) {
  const ends = pairEnds(text)
  const pointOf = (at: number) => (firstPoint === null ? null : firstPoint + pointsBefore(ends, at))
  return (field: string, match: Match, { start, end }: Place): SpanInit => ({
    field,
    match,
    offset: offset + start,
    length: end - start,
    start: pointOf(start),
    end: pointOf(end),
    page: pageAt({ pages, firstPage }, offset + start),
    text: end - start > maxText ? '' : text.slice(start, end),
  })
}
