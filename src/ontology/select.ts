// Selects the elements of an ontology that fit a chunk's prompt: the best ranked, each with what it needs (superclasses, one way to satisfy
// its domain and range, inverses), and the properties between the chosen classes. A small ontology is included whole.
import { charactersPerToken } from '../llm/limits/limited-stream.ts'
import { type ListedElement, lineLength, listElements, type OntologyTerms, termsOf } from './element-list.ts'
import { mostGeneral, needsOf } from './needs.ts'
import type { Ontology } from './ontology.ts'

/** The share of the budget for ranked elements; the rest is for the properties between them. */
const rankedShare = 0.6
/** After so many elements in a row that do not fit, the search for smaller ones ends. */
const patience = 100

export interface Selector {
  /** The elements, in the order by which rankings name them. */
  readonly elements: readonly ListedElement[]
  /** The terms of the whole ontology, if it fits. */
  readonly whole: OntologyTerms | undefined
  /** The terms for elements by rank, best first; the most general ones for an empty ranking. The result depends only on the ranking. */
  select(ranked: readonly number[]): OntologyTerms
}

/** Chosen elements by index, and whether the comment is included. */
type Choice = Map<number, boolean>

/** What choosing needs to know of the listed elements, by index. */
interface ElementCosts {
  readonly needs: ReturnType<typeof needsOf>
  /** Characters of each element with its comment. */
  readonly full: readonly number[]
  /** Characters of each element without its comment. */
  readonly bare: readonly number[]
}

/** `budget` is in tokens of the prompt. */
export function createSelector(ontology: Ontology, budget: number): Selector {
  const elements = listElements(ontology)
  const needs = needsOf(elements)
  const room = budget * charactersPerToken
  const full = elements.map((listed) => lineLength(ontology, listed, true))
  const bare = elements.map((listed) => lineLength(ontology, listed, false))
  const isOffered = (place: number) => !elements[place]!.element.deprecated
  const offered = [...elements.keys()].filter(isOffered)
  const fits = offered.reduce((sum, place) => sum + full[place]!, 0) <= room
  const whole = fits ? terms(new Map(offered.map((place) => [place, true]))) : undefined
  const general = whole ? [] : mostGeneral(elements, needs).filter(isOffered)
  const properties = offered.filter((place) => needs[place]!.ends.length > 0)

  function terms(choice: Choice): OntologyTerms {
    return termsOf(
      ontology,
      [...choice].map(([place, isFull]) => ({ listed: elements[place]!, full: isFull })),
    )
  }

  function choose(ranked: readonly number[]): Choice {
    const { choice, takeAll } = startChoice({ needs, full, bare })
    takeAll(ranked, room * rankedShare)
    const rank = new Map(ranked.map((place, index) => [place, index]))
    const rankOf = (place: number) => rank.get(place) ?? ranked.length
    const between = properties.filter((place) =>
      needs[place]!.ends.every((end) => end.some((each) => choice.has(each))),
    )
    takeAll(
      between.sort((a, b) => rankOf(a) - rankOf(b) || a - b),
      room,
    )
    takeAll(ranked, room)
    return choice
  }

  return {
    elements,
    whole,
    select(ranked) {
      if (whole) return whole
      const best = ranked.filter(isOffered)
      return terms(choose(best.length > 0 ? best : general))
    },
  }
}

/** A choice, to which `takeAll` adds elements in order, each with what it needs, as far as `limit` characters allow. */
function startChoice({ needs, full, bare }: ElementCosts) {
  const choice: Choice = new Map()
  let spent = 0

  /** An element with what it needs that is not chosen yet; undefined when that does not fit. */
  function withNeeds(place: number, left: number): Choice | undefined {
    const found: Choice = new Map([[place, true]])
    let cost = full[place]!
    const has = (each: number) => choice.has(each) || found.has(each)
    const add = (each: number) => {
      if (has(each)) return
      found.set(each, false)
      cost += bare[each]!
    }
    for (const each of found.keys()) {
      if (cost > left) return undefined
      needs[each]!.all.forEach(add)
      for (const end of needs[each]!.ends) if (!end.some(has)) end.forEach(add)
    }
    return cost > left ? undefined : found
  }

  function take(place: number, limit: number): boolean {
    const known = choice.get(place)
    if (known === true) return true
    if (known === false) {
      const more = full[place]! - bare[place]!
      if (spent + more > limit) return false
      choice.set(place, true)
      spent += more
      return true
    }
    const found = withNeeds(place, limit - spent)
    if (!found) return false
    for (const [each, isFull] of found) {
      choice.set(each, isFull)
      spent += isFull ? full[each]! : bare[each]!
    }
    return true
  }

  function takeAll(places: readonly number[], limit: number): void {
    let failed = 0
    for (const place of places) {
      failed = take(place, limit) ? 0 : failed + 1
      if (failed === patience) return
    }
  }

  return { choice, takeAll }
}
