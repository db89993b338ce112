// The pace of requests: as soon as possible while they are rare, and evenly spaced under load, so that each carries more.

export interface Pace {
  /** Milliseconds until the next request may start. */
  delay(): number
  /** A request starts. */
  started(): void
}

export interface PaceOptions {
  /** Milliseconds between two requests under load. */
  readonly everyMs: number
  /** Requests that need not wait after a time with fewer. */
  readonly burst: number
  /** Milliseconds that never go back. Default: `performance.now`. */
  readonly now?: () => number
}

/** A leaky bucket: each request fills it by `everyMs`, it drains in real time, and holds `burst` requests. */
export function createPace({ everyMs, burst, now = () => performance.now() }: PaceOptions): Pace {
  let emptyAt = Number.NEGATIVE_INFINITY
  return {
    delay: () => Math.max(0, Math.ceil(emptyAt - now() - (burst - 1) * everyMs)),
    started() {
      emptyAt = Math.max(emptyAt, now()) + everyMs
    },
  }
}
