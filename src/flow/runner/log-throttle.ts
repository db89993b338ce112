// Equal lines of a log, one in a while: what is away is away for every message in hand, and one line says it.
import type { Clock } from '../processor.ts'

/** How many lines of this kind were held back since the last one; undefined where this one is to be held back too. */
export type LogThrottle = (kind: string) => number | undefined

/** Lets a line of each kind through every `everyMs`, by default every ten seconds. */
export function createLogThrottle(clock: Clock, everyMs = 10_000): LogThrottle {
  const kinds = new Map<string, { since: number; held: number }>()
  return (kind) => {
    const now = clock.now()
    const known = kinds.get(kind)
    // A clock that was set back has no say for how long.
    if (known && now >= known.since && now < known.since + everyMs) {
      known.held++
      return undefined
    }
    kinds.set(kind, { since: now, held: 0 })
    return known?.held ?? 0
  }
}
