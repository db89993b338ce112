// Whether the broker is available, as found by everything that is done with one broker object. It is reported once as
// unavailable, when nothing was heard from it for two seconds, and once as available again.
import type { GraphmillError } from '../errors.ts'

/** What a broker says to its operator. A pino logger fits. */
export interface BrokerLog {
  debug(fields: object, phrase: string): void
  warn(fields: object, phrase: string): void
  info?(fields: object, phrase: string): void
}

/** Called with the reason when the broker becomes unavailable, and with undefined when it is available again. */
export type OnAvailability = (error: GraphmillError | undefined) => void

export interface Availability {
  /** It could not be reached. Returns false when other connections to it are open: then nothing is reported. */
  unavailable(error: GraphmillError): boolean
  /** It has answered. */
  available(): void
  /** A connection to it is open until `closed` resolves, which shows that it is available. */
  connected(closed: Promise<unknown>): void
}

/** One consumer may lose its connection for a moment while others are served. */
const quietMs = 2000

export function createAvailability(
  log: Pick<BrokerLog, 'info' | 'warn'>,
  changed: OnAvailability = () => {},
  now: () => number = () => performance.now(),
): Availability {
  let isUnavailable = false
  let lastHeard = Number.NEGATIVE_INFINITY
  let connections = 0

  function available(): void {
    lastHeard = now()
    if (!isUnavailable) return
    isUnavailable = false
    log.info?.({}, 'the broker is available again')
    changed(undefined)
  }

  return {
    available,
    unavailable(error) {
      if (connections > 0) return false
      if (isUnavailable || now() - lastHeard < quietMs) return true
      isUnavailable = true
      log.warn({ err: error }, 'the broker is unavailable')
      changed(error)
      return true
    },
    connected(closed) {
      connections++
      available()
      void closed.then(() => {
        connections--
        lastHeard = now()
      })
    },
  }
}
