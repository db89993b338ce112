// Equal requests of one process take turns, so that the second finds the reply of the first instead of asking the model too.

import { unlessAborted } from '../../wait.ts'

export interface Turns {
  /**
   * Resolves when nobody else of this process is at work on `key`, to a function that lets the next one in; calling it
   * again does nothing. Throws the signal's reason when it aborts.
   */
  turn(key: string, signal: AbortSignal): Promise<() => void>
}

export function createTurns(): Turns {
  /** The latest turn of each key that somebody is at work on. */
  const latest = new Map<string, Promise<void>>()

  return {
    async turn(key, signal) {
      const before = latest.get(key)
      const { promise: over, resolve } = Promise.withResolvers<void>()
      // Whoever gives up still keeps the next one waiting until those before are through.
      const own = before ? before.then(() => over) : over
      latest.set(key, own)
      void own.then(() => {
        if (latest.get(key) === own) latest.delete(key)
      })
      try {
        if (before) await unlessAborted(before, signal)
      } catch (thrown) {
        resolve()
        throw thrown
      }
      return resolve
    },
  }
}
