// Confidence intervals by the bootstrap: documents are drawn with replacement as often as there are documents, a thousand times with a
// fixed seed, and an interval is what the middle 95% of the draws give. Two runs are compared on the same draws.

/** 95% of the draws are between `low` and `high`; null where there is nothing to divide by. */
export interface Estimate {
  readonly value: number | null
  readonly low: number | null
  readonly high: number | null
}

export const noEstimate: Estimate = { value: null, low: null, high: null }

/** Numbers that add up, one list for each document; all are of the same length. */
type Columns = readonly number[]

const draws = 1000
const share = 0.95
const seed = 20_261_122

/**
 * An estimate for each measure of the sums over all documents. The interval always contains the value.
 * @example bootstrap([[1, 2], [2, 2]], (sums) => [sums[0] / sums[1]])
 */
export function bootstrap(
  documents: readonly Columns[],
  measures: (sums: Float64Array) => readonly (number | null)[],
): Estimate[] {
  const width = documents[0]?.length ?? 0
  const table = Float64Array.from(documents.flat())
  const values = measures(sumsOf(table, width, documents.keys()))
  const drawn = values.map((): number[] => [])
  if (documents.length > 0)
    for (const indexes of samples(documents.length))
      for (const [n, value] of measures(sumsOf(table, width, indexes)).entries())
        if (value !== null) drawn[n]!.push(value)
  return values.map((value, n) => estimateOf(value, Float64Array.from(drawn[n]!).sort()))
}

function sumsOf(table: Float64Array, width: number, indexes: Iterable<number>): Float64Array {
  const sums = new Float64Array(width)
  for (const index of indexes)
    for (let column = 0; column < width; column++) sums[column]! += table[index * width + column]!
  return sums
}

function* samples(count: number): Generator<Uint32Array> {
  const next = createRandom(seed)
  const indexes = new Uint32Array(count)
  for (let draw = 0; draw < draws; draw++) {
    for (let n = 0; n < count; n++) indexes[n] = Math.floor(next() * count)
    yield indexes
  }
}

function estimateOf(value: number | null, sorted: Float64Array): Estimate {
  if (value === null) return noEstimate
  const at = (quantile: number) => sorted[Math.round(quantile * (sorted.length - 1))] ?? value
  return {
    value,
    low: Math.min(value, at((1 - share) / 2)),
    high: Math.max(value, at((1 + share) / 2)),
  }
}

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
