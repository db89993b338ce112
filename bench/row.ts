// One line of the bench table: a number that was measured in this run, with its bound.

export interface Row {
  readonly name: string
  readonly value: number
  readonly unit: string
  /** For people: `>= 0.6`, `<= 2.2`. Absent when a number is only reported. */
  readonly bound?: string
  readonly note?: string
}

/** Absolute figures are medians of so many rounds. */
export const rounds = 5

/** The median of an odd number of values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? Number.NaN
}

/** Whether the value keeps its bound; true when there is none. */
export function keepsBound(row: Row): boolean {
  const match = /^(>=|<=)\s*([\d.]+)/.exec(row.bound ?? '')
  if (match === null) return true
  return match[1] === '>=' ? row.value >= Number(match[2]) : row.value <= Number(match[2])
}
