import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bootstrap, createRandom } from '../../src/evaluation/bootstrap.ts'

const share = (sums: Float64Array) => [sums[1] === 0 ? null : sums[0]! / sums[1]!]
const interval = (documents: readonly number[][]) => bootstrap(documents, 2, share)[0]!
/** Documents of five found facts, of which four or one are right. */
const mixture = (count: number) => Array.from({ length: count }, (_, n) => [n % 10 < 6 ? 4 : 1, 5])

describe('intervals by the bootstrap', () => {
  test('are the same for the same documents', () => {
    expect(interval(mixture(40))).toEqual(interval(mixture(40)))
  })

  test('contain the value of all documents', () => {
    const document = fc.tuple(fc.nat(20), fc.nat(20)).map(([right, wrong]) => [right, right + wrong])
    fc.assert(
      fc.property(fc.array(document, { minLength: 1, maxLength: 12 }), (documents) => {
        const { value, low, high } = interval(documents)
        const [right, found] = [0, 1].map((n) => documents.reduce((sum, each) => sum + each[n]!, 0))
        expect(value).toBe(found === 0 ? null : right! / found!)
        if (value === null) {
          expect([low, high]).toEqual([null, null])
          return
        }
        expect(low).toBeLessThanOrEqual(value)
        expect(high).toBeGreaterThanOrEqual(value)
        expect(low).toBeGreaterThanOrEqual(0)
        expect(high).toBeLessThanOrEqual(1)
      }),
      { numRuns: 40 },
    )
  })

  test('get narrower with more documents of the same mixture', () => {
    const widths = [20, 80, 320, 1280].map((count) => {
      const { low, high } = interval(mixture(count))
      return high! - low!
    })
    for (const [n, width] of widths.entries()) if (n > 0) expect(width).toBeLessThan(widths[n - 1]! * 0.75)
  })

  test('are close to those of the normal distribution', () => {
    // A half of 400 documents with one fact each: 0.5 ± 1.96 · 0.5 / 20.
    const { low, high } = interval(Array.from({ length: 400 }, (_, n) => [n % 2, 1]))
    expect(Math.abs(low! - 0.451)).toBeLessThan(0.01)
    expect(Math.abs(high! - 0.549)).toBeLessThan(0.01)
  })

  test('are points for documents that do not differ, and unknown without documents', () => {
    expect(interval(Array.from({ length: 10 }, () => [4, 5]))).toEqual({ value: 0.8, low: 0.8, high: 0.8 })
    expect(bootstrap([], 2, share)).toEqual([{ value: null, low: null, high: null }])
  })
})

test('random numbers are from 0 to below 1, spread evenly, and follow from the seed', () => {
  const next = createRandom(7)
  const numbers = Array.from({ length: 10_000 }, next)
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...numbers)).toBeLessThan(1)
  expect(numbers.reduce((sum, each) => sum + each) / 10_000).toBeCloseTo(0.5, 1)
  expect(createRandom(7)()).toBe(numbers[0])
  expect(createRandom(8)()).not.toBe(numbers[0])
})
