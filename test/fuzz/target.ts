// What a fuzzer drives: one property of the product, tried with one generated input at a time.

export interface FuzzTarget {
  readonly name: string
  /** One input, made of `rng` (0 up to 1) alone; throws where the property does not hold. */
  once(rng: () => number): Promise<void> | void
}

/** Mulberry32: the same numbers for the same seed, everywhere. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
