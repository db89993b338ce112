// Signals of the operating system: the first SIGTERM or SIGINT asks for a graceful end, a second one for an end at once.

/** Milliseconds in which a signal is the same one heard twice: npm and bin/graphmill.js pass on what a terminal sends to all. */
const echo = 500

/**
 * Aborted by the first signal; `now` by the second. Restores the default behaviour when disposed.
 * `clock`: milliseconds, from anywhere on.
 */
export function onShutdown(clock: () => number = () => performance.now()): {
  readonly asked: AbortSignal
  readonly now: AbortSignal
  dispose(): void
} {
  const asked = new AbortController()
  const now = new AbortController()
  let first = 0
  const heard = (signal: NodeJS.Signals) => {
    if (!asked.signal.aborted) {
      first = clock()
      asked.abort(signal)
    } else if (clock() - first >= echo) now.abort(signal)
  }
  const signals = ['SIGTERM', 'SIGINT'] as const
  for (const signal of signals) process.on(signal, heard)
  return {
    asked: asked.signal,
    now: now.signal,
    dispose() {
      for (const signal of signals) process.off(signal, heard)
    },
  }
}
