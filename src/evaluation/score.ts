// Scores documents: how many of the gold facts were found, and how many of the found facts are gold facts, by kind. All are numbers
// that add up over documents, so that nothing but the numbers of a document is kept.
import { type FoundFact, type Kind, kinds } from './facts.ts'
import type { GoldDocument } from './gold.ts'
import { createWordSearch, wordOverlap } from './words.ts'

/** Definitions of the same entity are equal if their words overlap by this F1, at least. */
export const leastOverlap = 0.5

/** Numbers of facts. Facts that are equal count once in a document. */
export interface Counts {
  gold: number
  found: number
  /** Gold facts that were found. */
  matched: number
  /** Found facts with a name that does not stand in the text. */
  hallucinated: number
  /** Hallucinated facts whose subject (the entity), and whose object (the value), does not stand in the text. */
  strangeSubjects: number
  strangeObjects: number
  /** Found facts that were looked for in their chunk, and those of them that do not stand in it. */
  looked: number
  ungrounded: number
}

export interface DocumentScore {
  readonly id: string
  /** By kind; only the kinds that were scored. */
  readonly counts: Readonly<Partial<Record<Kind, Counts>>>
}

export const noCounts = (): Counts => ({
  gold: 0,
  found: 0,
  matched: 0,
  hallucinated: 0,
  strangeSubjects: 0,
  strangeObjects: 0,
  looked: 0,
  ungrounded: 0,
})

/** All counts added up. */
export function sumOfCounts(all: readonly Counts[]): Counts {
  const sum = noCounts()
  for (const counts of all) for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += counts[name]
  return sum
}

/** Scores the kinds that the gold document lists, of those that are `extracted`. */
export function scoreDocument(
  { id, text, facts: gold }: GoldDocument,
  found: readonly FoundFact[],
  extracted: readonly Kind[],
): DocumentScore {
  const stands = createWordSearch(text)
  const counts: Partial<Record<Kind, Counts>> = {}
  for (const kind of kinds) {
    const wanted = gold.get(kind)
    if (!wanted || !extracted.includes(kind)) continue
    const ofKind = found.filter((fact) => fact.kind === kind)
    counts[kind] = scoreKind(Map.groupBy(wanted, keyOf), Map.groupBy(ofKind, keyOf), stands)
  }
  return { id, counts }
}

const keyOf = ({ key }: { readonly key: string }) => key

/** Facts of a kind by key. Several definitions of an entity are alternatives. */
function scoreKind(
  gold: ReadonlyMap<string, readonly { readonly definition?: string }[]>,
  found: ReadonlyMap<string, readonly FoundFact[]>,
  stands: (name: string) => boolean,
): Counts {
  const counts = { ...noCounts(), gold: gold.size, found: found.size }
  for (const [key, same] of found) {
    const { subjects, objects } = same[0]!
    const strangeSubject = !subjects.every(stands)
    const strangeObject = !objects.every(stands)
    if (strangeSubject) counts.strangeSubjects++
    if (strangeObject) counts.strangeObjects++
    if (strangeSubject || strangeObject) counts.hallucinated++
    // A fact of several chunks stands in the text if it stands in one of them.
    if (same.some(({ isGrounded }) => isGrounded !== null)) counts.looked++
    if (same.every(({ isGrounded }) => isGrounded === false)) counts.ungrounded++
    if (gold.get(key)?.some((each) => same.some((one) => isSame(each.definition, one.definition))))
      counts.matched++
  }
  return counts
}

function isSame(one: string | undefined, other: string | undefined): boolean {
  return one === undefined || other === undefined || wordOverlap(one, other) >= leastOverlap
}

/** Precision, recall and F1, from 0 to 1; null when there is nothing to divide by. */
export function ratiosOf({ gold, found, matched }: Pick<Counts, 'gold' | 'found' | 'matched'>) {
  return {
    precision: ratio(matched, found),
    recall: ratio(matched, gold),
    f1: ratio(2 * matched, found + gold),
  }
}

export const ratio = (part: number, whole: number): number | null => (whole === 0 ? null : part / whole)
