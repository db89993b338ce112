import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createOffsetTracker, maxSettledAboveMark } from '../../../src/broker/window/offsets.ts'

test('has no mark before anything was seen', () => {
  const tracker = createOffsetTracker()
  expect(tracker.mark).toBeUndefined()
  expect(tracker.next).toBeUndefined()
})

test('holds the mark at the lowest unsettled offset while later ones settle', () => {
  const tracker = createOffsetTracker()
  for (const offset of [5, 6, 9]) tracker.take(offset)
  tracker.settle(9)
  tracker.settle(6)
  expect(tracker.mark).toBe(5)
  expect(tracker.settledAboveMark).toBe(2)
  tracker.settle(5)
  expect(tracker.mark).toBe(10)
  expect(tracker.settledAboveMark).toBe(0)
})

test('lets the mark pass offsets without a message only when all before them is settled', () => {
  const tracker = createOffsetTracker()
  tracker.take(0)
  tracker.reach(4)
  expect(tracker.mark).toBe(0)
  tracker.settle(0)
  expect(tracker.mark).toBe(4)
  expect(tracker.take(3)).toBe(false)
})

test('refuses an offset that was passed before, so that a message fetched again is not delivered twice', () => {
  const tracker = createOffsetTracker()
  expect([tracker.take(7), tracker.take(8)]).toEqual([true, true])
  tracker.settle(7)
  expect([tracker.take(7), tracker.take(8), tracker.take(9)]).toEqual([false, false, true])
  expect(tracker.inFlight).toBe(2)
})

test('ignores an offset that settles twice or was never taken', () => {
  const tracker = createOffsetTracker()
  tracker.take(1)
  tracker.take(2)
  tracker.settle(2)
  tracker.settle(2)
  tracker.settle(17)
  expect([tracker.mark, tracker.inFlight, tracker.settledAboveMark]).toEqual([1, 1, 1])
})

test('counts the offsets that are settled above the mark, until the mark moves', () => {
  const tracker = createOffsetTracker()
  for (let offset = 0; offset <= maxSettledAboveMark; offset++) tracker.take(offset)
  for (let offset = 1; offset < maxSettledAboveMark; offset++) tracker.settle(offset)
  expect(tracker.settledAboveMark).toBe(maxSettledAboveMark - 1)
  tracker.settle(maxSettledAboveMark)
  expect(tracker.settledAboveMark).toBe(maxSettledAboveMark)
  tracker.settle(0)
  expect(tracker.settledAboveMark).toBe(0)
  expect(tracker.mark).toBe(maxSettledAboveMark + 1)
})

test('agrees with the definition for every order of taking and settling', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('take' as const), gap: fc.nat(3) }),
    fc.record({ kind: fc.constant('settle' as const), pick: fc.nat() }),
    fc.record({ kind: fc.constant('reach' as const), gap: fc.nat(3) }),
  )
  fc.assert(
    fc.property(
      fc.nat(100),
      fc.array(step, { maxLength: 200 }),
      fc.integer({ min: 1, max: 8 }),
      (first, steps, cap) => {
        const tracker = createOffsetTracker(cap)
        const taken: number[] = []
        const settled = new Set<number>()
        let next = first
        let seen = false
        for (const one of steps) {
          if (one.kind === 'settle') {
            const offset = taken[one.pick % taken.length]
            if (offset === undefined) continue
            tracker.settle(offset)
            settled.add(offset)
          } else {
            seen = true
            next += one.gap
            if (one.kind === 'reach') tracker.reach(next)
            else {
              expect(tracker.take(next)).toBe(true)
              taken.push(next)
              next++
            }
          }
          const lowest = taken.find((offset) => !settled.has(offset))
          const mark = lowest ?? next
          const above = taken.filter((offset) => settled.has(offset) && offset > mark).length
          expect(tracker.mark).toBe(seen ? mark : undefined)
          expect(tracker.next).toBe(seen ? next : undefined)
          expect(tracker.inFlight).toBe(taken.length - settled.size)
          expect(tracker.settledAboveMark).toBe(above)
        }
      },
    ),
  )
})

test('takes time in proportion to the offsets, however long one of them stays unsettled', () => {
  const tracker = createOffsetTracker(Number.POSITIVE_INFINITY)
  tracker.take(0)
  for (let offset = 1; offset < 300_000; offset++) {
    tracker.take(offset)
    tracker.settle(offset)
  }
  expect(tracker.mark).toBe(0)
  tracker.settle(0)
  expect([tracker.mark, tracker.settledAboveMark]).toEqual([300_000, 0])
})
