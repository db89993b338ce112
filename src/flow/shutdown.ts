// Signals of the operating system: the first SIGTERM or SIGINT asks the process to end, a second one ends it. The end has a deadline:
// a call that is stuck in the system does not hold the process for longer.
import { GraphmillError } from '../errors.ts'
import { stuckCalls } from '../system-calls.ts'

/** Within this time a second signal is an echo of the first: npm and bin/graphmill.js pass on what a terminal sends to all processes. */
const echoMs = 500

export interface ShutdownOptions {
  /** A monotonic clock, in milliseconds. Default: `performance.now`. */
  readonly clock?: () => number
  /** How long the process has after a second signal, in milliseconds. Default 0: it ends at once. */
  readonly lastMs?: number
  /** How long the process has after the first signal, in milliseconds; called at that signal. Default 10,000. */
  readonly graceMs?: () => number
  /** Called with the stuck calls when the time is over, just before the process ends. Default: writes them to standard error. */
  readonly onLate?: (stuck: readonly string[]) => void
  /** Ends the process. Default: as a signal without a listener does. */
  readonly end?: (signal: NodeJS.Signals) => void
}

export interface Shutdown {
  /** Aborted by the first signal, with the error `aborted`. */
  readonly asked: AbortSignal
  /** Aborted by the second. */
  readonly now: AbortSignal
  /** The process ends for another reason: from now on it has `ms` milliseconds. */
  endWithin(ms: number): void
  /** Stops listening for signals, and lifts the deadline. */
  dispose(): void
}

/** Listens for signals. A third one ends the process at once. */
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
    const isEcho = asked.signal.aborted && clock() - last < echoMs
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
