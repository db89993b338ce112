// Counts by name, such as facts by kind: added up, and as text.
import type { Counts } from './progress/totals.ts'

export const sumOf = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0)

/** `3 definitions, 2 topics`; empty if all are 0. */
export function countsText(counts: Counts): string {
  const present = Object.entries(counts).filter(([, count]) => count > 0)
  present.sort(([one], [other]) => (one < other ? -1 : 1)) // whatever came first
  return present.map(([name, count]) => `${count} ${name}`).join(', ')
}

/** The sums by name. */
export function addCounts(all: readonly Counts[]): Counts {
  const total: Counts = {}
  for (const counts of all)
    for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count
  return total
}
