// How long to wait before the next attempt. Who tries again, and what, is decided by the callers.

/** The wait after the first failure, and the longest one, in milliseconds. */
export interface BackoffRange {
  readonly firstMs: number
  readonly mostMs: number
}

/** Exponential backoff in milliseconds: `firstMs`, doubled with each failure, at most `mostMs`. `failures` counts from 0. */
export function backoffMs(failures: number, { firstMs, mostMs }: BackoffRange): number {
  return Math.min(mostMs, firstMs * 2 ** failures)
}

/** Full jitter: a random time up to that of `backoffMs`, so that those who failed together do not return together. */
export function jitteredBackoffMs(failures: number, range: BackoffRange, random = Math.random): number {
  return random() * backoffMs(failures, range)
}
