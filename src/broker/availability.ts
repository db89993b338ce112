// Whether a broker is there, as all that is done with one broker object finds out together. That it is away is told once,
// when nobody has heard from it for two seconds, and once that it is back.
import type { GraphmillError } from '../errors.ts'

/** What a broker says to its operator. A pino logger fits. */
export interface AvailabilityLog {
  warn(fields: object, phrase: string): void
  info?(fields: object, phrase: string): void
}

/** Told with the reason when the broker goes away, and with nothing when it is back. */
export type OnAvailability = (error: GraphmillError | undefined) => void

export interface Availability {
  /** Somebody could not reach it. Returns false where others are connected: then it is told of no broker that is away. */
  away(error: GraphmillError): boolean
  /** Somebody has heard from it. */
  back(): void
  /** A connection to it is open, which shows that it is there, until `closed` resolves. */
  connected(closed: Promise<unknown>): void
}

/** One consumer may be cut off for a moment while others are served. */
const quietMs = 2000

export function createAvailability(
  log: AvailabilityLog,
  changed: OnAvailability = () => {},
  now: () => number = () => performance.now(),
): Availability {
  let isAway = false
  let lastHeard = Number.NEGATIVE_INFINITY
  let connections = 0

  function back(): void {
    lastHeard = now()
    if (!isAway) return
    isAway = false
    log.info?.({}, 'the broker is back')
    changed(undefined)
  }

  return {
    back,
    away(error) {
      if (connections > 0) return false
      if (isAway || now() - lastHeard < quietMs) return true
      isAway = true
      log.warn({ err: error }, 'the broker is away')
      changed(error)
      return true
    },
    connected(closed) {
      connections++
      back()
      void closed.then(() => {
        connections--
        lastHeard = now()
      })
    },
  }
}
