// Throttles equal log lines: a fault often concerns every message in flight, and one line is enough.
import type { Clock } from '../processor.ts'

/** The number of lines of this kind that were held back since the last one; undefined when this one is held back too. */
export type LogThrottle = (kind: string) => number | undefined

/** Lets a line of each kind through every `everyMs`, by default every ten seconds. */
export function createLogThrottle(clock: Clock, everyMs = 10_000): LogThrottle {
  const kinds = new Map<string, { since: number; held: number }>()
  return (kind) => {
    const now = clock.now()
    const known = kinds.get(kind)
    // After the clock was set back, `now` may be before `since`.
    if (known && now >= known.since && now < known.since + everyMs) {
      known.held++
      return undefined
    }
    kinds.set(kind, { since: now, held: 0 })
    return known?.held ?? 0
  }
}
