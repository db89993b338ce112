// Equal requests of one process take turns, so that the second one finds the reply of the first instead of asking the model.
import { unlessAborted } from '../../wait.ts'

export interface Turns {
  /**
   * Resolves when no other request of this process works on `key`, to a function that ends the turn. A second call of that
   * function does nothing. Throws the signal's reason when it aborts.
   */
  turn(key: string, signal: AbortSignal): Promise<() => void>
}

export function createTurns(): Turns {
  /** The end of the latest turn of each key. */
  const latest = new Map<string, Promise<void>>()

  return {
    async turn(key, signal) {
      const before = latest.get(key)
      const { promise: over, resolve } = Promise.withResolvers<void>()
      // A turn that is given up ends only after those before it.
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
