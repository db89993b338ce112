// Seeded randomness for fuzz targets: the same seed and iteration give the same input on every machine.

import { seeded } from './target.ts'

export type Rng = () => number

/** Numbers from 0 to 1 for one iteration; the iterations of a seed do not depend on each other. */
export function seededRng(seed: number, iteration: number): Rng {
  return seeded(Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(iteration + 1, 0xc2b2ae35))
}

/** A whole number from 0 to `below` - 1. */
export const below = (rng: Rng, limit: number): number => Math.floor(rng() * limit)

export const chance = (rng: Rng, probability: number): boolean => rng() < probability

export function pick<T>(rng: Rng, choices: readonly T[]): T {
  return choices[below(rng, choices.length)]!
}

/** `count` values of `make`. */
export function many<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make)
}

/** A size that is small as a rule, up to `most` now and then. */
export function size(rng: Rng, most: number): number {
  return Math.floor(most ** (rng() * rng()))
}

export function bytes(rng: Rng, length: number): Buffer {
  const result = Buffer.allocUnsafe(length)
  for (let at = 0; at < length; at++) result[at] = below(rng, 256)
  return result
}

const characters = [
  'a',
  'Z',
  '0',
  ' ',
  '\n',
  '\t',
  '"',
  "'",
  '\\',
  '{',
  '}',
  '%',
  ':',
  ',',
  '\0',
  '\x7f',
  'é',
  '漢',
  '🦉',
  '\ud800',
  '\udc00',
  '\u2028',
  '\ufeff',
  '\u202e',
]

/** Text of `length` pieces, with everything in it that texts are known to trip over. */
export function text(rng: Rng, length: number): string {
  return many(length, () => pick(rng, characters)).join('')
}

/** A copy with a few bytes changed, removed, repeated or put in. */
export function mutated(rng: Rng, original: Uint8Array): Buffer {
  let result = Buffer.from(original)
  for (let changes = 1 + size(rng, 8); changes > 0; changes--) {
    const at = below(rng, result.length + 1)
    const end = at + below(rng, Math.min(16, result.length - at) + 1)
    switch (below(rng, 4)) {
      case 0:
        if (at < result.length) result[at] = below(rng, 256)
        break
      case 1:
        result = Buffer.concat([result.subarray(0, at), result.subarray(end)])
        break
      case 2:
        result = Buffer.concat([result.subarray(0, end), result.subarray(at)])
        break
      default:
        result = Buffer.concat([result.subarray(0, at), bytes(rng, 1 + below(rng, 8)), result.subarray(at)])
    }
  }
  return result
}

/** The text in pieces of any size. */
export function* split(rng: Rng, whole: string): Generator<string> {
  const most = 1 + size(rng, whole.length + 1)
  for (let at = 0; at < whole.length; ) {
    const end = at + 1 + below(rng, most)
    yield whole.slice(at, end)
    at = end
  }
}
