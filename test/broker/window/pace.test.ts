import { expect, test } from 'vitest'
import { createPace } from '../../../src/broker/window/pace.ts'

/** Starts `count` requests one after the other, each as soon as it may, and returns when each began. */
function startAll(pace: ReturnType<typeof createPace>, clock: { at: number }, count: number): number[] {
  return Array.from({ length: count }, () => {
    clock.at += pace.delay()
    pace.started()
    return clock.at
  })
}

test('the first requests do not wait, and those that follow at once are evenly spaced', () => {
  const clock = { at: 1000 }
  const pace = createPace({ everyMs: 5, burst: 3, now: () => clock.at })
  expect(startAll(pace, clock, 6)).toEqual([1000, 1000, 1000, 1005, 1010, 1015])
})

test('requests that are rarer than the pace never wait', () => {
  const clock = { at: 0 }
  const pace = createPace({ everyMs: 5, burst: 1, now: () => clock.at })
  for (; clock.at < 1000; clock.at += 5) {
    expect(pace.delay()).toBe(0)
    pace.started()
  }
})

test('after a time without requests as many as at first do not wait, however long it was', () => {
  const clock = { at: 0 }
  const pace = createPace({ everyMs: 5, burst: 2, now: () => clock.at })
  startAll(pace, clock, 10)
  clock.at = 100_000
  expect(startAll(pace, clock, 4)).toEqual([100_000, 100_000, 100_005, 100_010])
})

test('no wait is longer than the time between two requests', () => {
  const clock = { at: 0 }
  const pace = createPace({ everyMs: 5, burst: 4, now: () => clock.at })
  for (let request = 0; request < 1000; request++) {
    expect(pace.delay()).toBeLessThanOrEqual(5)
    startAll(pace, clock, 1)
    clock.at += (request * 7) % 4
  }
})
