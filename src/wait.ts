// Waits that end when their signal aborts.
import { setTimeout as delay } from 'node:timers/promises'

/** The longest time that a timer of Node takes, in milliseconds: it fires at once when given more. */
export const longestTimerMs = 2 ** 31 - 1

/** Resolves after `ms` milliseconds. Throws the signal's reason when it aborts before that. */
export async function wait(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ...(signal && { signal }) }).catch((error: unknown) => {
    signal?.throwIfAborted()
    throw error
  })
}

/** Resolves after `ms` milliseconds, or when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {})
}

/** Resolves as `promise` does. Throws the signal's reason when it aborts before that. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const stop = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/**
 * Shares runs of `act` among concurrent callers: each call resolves after a run that began after it, and a run begins when the one
 * before it has ended and `ready` has resolved.
 */
export function shareRuns<A extends readonly unknown[]>(
  act: (...args: A) => Promise<void>,
  ready: () => Promise<unknown> = () => Promise.resolve(),
): (...args: A) => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  return (...args) => {
    next ??= running
      .catch(() => undefined)
      .then(ready)
      .then(() => {
        running = next!
        next = undefined
        return act(...args)
      })
    return next
  }
}
