// Signals of the operating system: the first SIGTERM or SIGINT asks for an end, a second one ends the process.
import { GraphmillError } from '../errors.ts'

/** Milliseconds in which a signal is the same one heard twice: npm and bin/graphmill.js pass on what a terminal sends to all. */
const echo = 500

export interface ShutdownOptions {
  /** Milliseconds, from anywhere on. Default: those of the process. */
  readonly clock?: () => number
  /** How long a second signal leaves for what `now` ends, in milliseconds. Default 0: the process ends at once. */
  readonly lastMs?: number
  /** Ends the process. Default: as the signal does that no one listens to. */
  readonly end?: (signal: NodeJS.Signals) => void
}

export interface Shutdown {
  /** Aborted by the first signal, with the error `aborted`. */
  readonly asked: AbortSignal
  /** Aborted by the second. */
  readonly now: AbortSignal
  /** Signals are again what they are without this. */
  dispose(): void
}

/** Listens for signals. A third one leaves no time at all. */
export function onShutdown({
  clock = () => performance.now(),
  lastMs = 0,
  end = (signal) => process.kill(process.pid, signal),
}: ShutdownOptions = {}): Shutdown {
  const asked = new AbortController()
  const now = new AbortController()
  let last = 0
  let ending: NodeJS.Timeout | undefined
  const heard = (signal: NodeJS.Signals) => {
    const isEcho = asked.signal.aborted && clock() - last < echo
    if (isEcho) return
    last = clock()
    if (!asked.signal.aborted) asked.abort(new GraphmillError('aborted', `Stopped by ${signal}.`))
    else if (!now.signal.aborted && lastMs > 0) {
      now.abort(asked.signal.reason)
      ending = setTimeout(finish, lastMs, signal).unref()
    } else finish(signal)
  }
  function finish(signal: NodeJS.Signals): void {
    dispose()
    now.abort(asked.signal.reason)
    end(signal)
  }
  const signals = ['SIGTERM', 'SIGINT'] as const
  function dispose(): void {
    clearTimeout(ending)
    for (const signal of signals) process.off(signal, heard)
  }
  for (const signal of signals) process.on(signal, heard)
  return { asked: asked.signal, now: now.signal, dispose }
}
