// Confidence intervals by the bootstrap: documents are drawn with replacement as often as there are documents, a thousand times with a
// fixed seed, and an interval is what the middle 95% of the draws give. Two runs are compared on the same draws.

/** 95% of the draws are between `low` and `high`. All are null when there is nothing to divide by. */
export interface Estimate {
  readonly value: number | null
  readonly low: number | null
  readonly high: number | null
}

const noEstimate: Estimate = { value: null, low: null, high: null }

const draws = 1000
const share = 0.95
const seed = 20_261_122

/**
 * An estimate for each measure of the sums over all documents. A document is a list of `width` numbers that add up. The interval
 * always contains the value.
 * @example bootstrap([[1, 2], [2, 2]], 2, (sums) => [sums[0] / sums[1]])
 */
export function bootstrap(
  documents: readonly (readonly number[])[],
  width: number,
  measures: (sums: Float64Array) => readonly (number | null)[],
): Estimate[] {
  const count = documents.length
  const table = Float64Array.from(documents.flat())
  const values = measures(sumsOf(table, width, Uint32Array.from(documents.keys())))
  const drawn = values.map((): number[] => [])
  const next = createRandom(seed)
  const sample = new Uint32Array(count)
  for (let draw = 0; draw < draws && count > 0; draw++) {
    for (let n = 0; n < count; n++) sample[n] = Math.floor(next() * count)
    for (const [n, value] of measures(sumsOf(table, width, sample)).entries())
      if (value !== null) drawn[n]!.push(value)
  }
  return values.map((value, n) => estimateOf(value, Float64Array.from(drawn[n]!).sort()))
}

function sumsOf(table: Float64Array, width: number, indexes: Uint32Array): Float64Array {
  const sums = new Float64Array(width)
  for (let n = 0; n < indexes.length; n++) {
    const start = indexes[n]! * width
    for (let column = 0; column < width; column++) sums[column]! += table[start + column]!
  }
  return sums
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
