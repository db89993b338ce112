import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batches, batchLength } from '../src/batches.ts'

const sizeOf = (item: number) => item

describe('batches', () => {
  it('hold every item, in order, within the limits', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(20)),
        fc.integer({ min: 1, max: 5 }),
        fc.nat(40),
        (items, maxItems, maxSize) => {
          const made = [...batches(items, { maxItems, maxSize, sizeOf })]
          expect(made.flat()).toEqual(items)
          for (const batch of made) {
            expect(batch.length).toBeGreaterThan(0)
            expect(batch.length).toBeLessThanOrEqual(maxItems)
            const size = batch.reduce((sum, item) => sum + item, 0)
            if (batch.length > 1) expect(size).toBeLessThanOrEqual(maxSize)
          }
        },
      ),
    )
  })

  it('are as long as the limits allow', () => {
    expect([...batches([1, 2, 3, 4, 9, 1], { maxSize: 6, sizeOf })]).toEqual([[1, 2, 3], [4], [9], [1]])
    expect([...batches([1, 2, 3], { maxItems: 2 })]).toEqual([[1, 2], [3]])
    expect(batchLength([], { maxItems: 2 })).toBe(0)
  })
})
