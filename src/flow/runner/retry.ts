// The retry policy: the table of errors says whether, this file says when. Nothing else in graphmill retries a message.
import { jitteredBackoffMs } from '../../backoff.ts'
import { type GraphmillError, toGraphmillError } from '../../errors.ts'
import { wait } from '../../wait.ts'

/** Attempts at a message whose handler throws an error that is not in the table. */
const unexpectedAttempts = 3

/** How long a fault that needs the operator pauses before the next attempt, in milliseconds. */
export const operatorPauseMs = 30_000

/** Full jitter: a random time up to 1 s, 2 s, 4 s, … at most 30 s. In milliseconds; `failures` counts from 0. */
export function backoff(failures: number, random = Math.random): number {
  return jitteredBackoffMs(failures, { firstMs: 1000, mostMs: 30_000 }, random)
}

/** Does `act`, and again with full jitter for as long as what it throws is of the kind that passes. Throws the signal's reason. */
export async function untilAvailable<T>(
  act: () => Promise<T>,
  {
    signal,
    onFailure,
  }: { readonly signal: AbortSignal; readonly onFailure: (error: GraphmillError) => void },
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await act()
    } catch (thrown) {
      const error = toGraphmillError(thrown)
      if (error.retry !== 'later') throw error
      signal.throwIfAborted()
      onFailure(error)
      await wait(backoff(failures), signal)
    }
  }
}

export type NextStep =
  | { readonly step: 'retry'; readonly delayMs: number }
  /** A person must act first. */
  | { readonly step: 'operator' }
  | { readonly step: 'dead' }

/** What becomes of a message after `error`. `attempt` counts from 1; `unexpected` is how often it failed unexpectedly, this time included. */
export function nextStep(error: GraphmillError, attempt: number, unexpected: number): NextStep {
  if (error.code === 'unexpected')
    return unexpected < unexpectedAttempts
      ? { step: 'retry', delayMs: backoff(unexpected - 1) }
      : { step: 'dead' }
  switch (error.retry) {
    case 'never':
      return { step: 'dead' }
    case 'operator':
      return { step: 'operator' }
    case 'later':
      return { step: 'retry', delayMs: Math.max(error.retryAfterMs ?? 0, backoff(attempt - 1)) }
    default:
      return error.retry satisfies never
  }
}
