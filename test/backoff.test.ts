import { expect, test } from 'vitest'
import { backoffMs, jitteredBackoffMs } from '../src/backoff.ts'

const range = { firstMs: 100, mostMs: 3000 }

test('the wait doubles with each failure, up to the longest', () => {
  expect([0, 1, 2, 3, 4, 5, 5000].map((failures) => backoffMs(failures, range))).toEqual([
    100, 200, 400, 800, 1600, 3000, 3000,
  ])
})

test('full jitter takes a share of it', () => {
  expect(jitteredBackoffMs(2, range, () => 0.5)).toBe(200)
  expect(jitteredBackoffMs(5000, range, () => 0)).toBe(0)
})
