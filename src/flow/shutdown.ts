// Signals of the operating system: the first SIGTERM or SIGINT asks for an end, a second one ends the process. What is asked to end
// has a deadline: a call that is stuck in the system does not hold the process for longer.
import { GraphmillError } from '../errors.ts'
import { stuckCalls } from '../system-calls.ts'

/** Milliseconds in which a signal is the same one heard twice: npm and bin/graphmill.js pass on what a terminal sends to all. */
const echo = 500

export interface ShutdownOptions {
  /** Milliseconds, from anywhere on. Default: those of the process. */
  readonly clock?: () => number
  /** How long a second signal leaves for what `now` ends, in milliseconds. Default 0: the process ends at once. */
  readonly lastMs?: number
  /** How long after the first signal the process may take to end by itself, in milliseconds; asked for then. Default 10,000. */
  readonly graceMs?: () => number
  /** Told what still holds the process when its time is over, just before it is ended. Default: standard error says it. */
  readonly onLate?: (stuck: readonly string[]) => void
  /** Ends the process. Default: as the signal does that no one listens to. */
  readonly end?: (signal: NodeJS.Signals) => void
}

export interface Shutdown {
  /** Aborted by the first signal, with the error `aborted`. */
  readonly asked: AbortSignal
  /** Aborted by the second. */
  readonly now: AbortSignal
  /** The process comes to its end anyway: from now on it has so many milliseconds. */
  endWithin(ms: number): void
  /** Signals are again what they are without this, and nothing ends the process. */
  dispose(): void
}

/** Listens for signals. A third one leaves no time at all. */
export function onShutdown({
  clock = () => performance.now(),
  lastMs = 0,
  graceMs = () => 10_000,
  onLate = sayLate,
  end = (signal) => process.kill(process.pid, signal),
}: ShutdownOptions = {}): Shutdown {
  const asked = new AbortController()
  const now = new AbortController()
  let last = 0
  let ending: NodeJS.Timeout | undefined
  const endWithin = (ms: number, signal: NodeJS.Signals = 'SIGTERM') => {
    clearTimeout(ending)
    ending = setTimeout(endLate, ms, signal).unref()
  }
  const heard = (signal: NodeJS.Signals) => {
    const isEcho = asked.signal.aborted && clock() - last < echo
    if (isEcho) return
    last = clock()
    if (!asked.signal.aborted) {
      endWithin(graceMs(), signal)
      asked.abort(new GraphmillError('aborted', `Stopped by ${signal}.`))
    } else if (!now.signal.aborted && lastMs > 0) {
      endWithin(lastMs, signal)
      now.abort(asked.signal.reason)
    } else finish(signal)
  }
  function endLate(signal: NodeJS.Signals): void {
    onLate(stuckCalls())
    finish(signal)
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
  return { asked: asked.signal, now: now.signal, endWithin, dispose }
}

function sayLate(stuck: readonly string[]): void {
  const what = stuck.length > 0 ? `: stuck in the system: ${stuck.join(', ')}` : ''
  process.stderr.write(`graphmill: ended before everything was finished${what}\n`)
}
