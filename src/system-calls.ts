// Calls into the operating system that may never return, such as a write to a file server that hangs: known by name for as long as
// they last, so that a process that must end without them can say what held it. Such a call can't be cancelled, and `process.exit`
// waits for its thread: only a signal ends the process.

interface PendingCall {
  readonly what: string
  /** By a clock that never goes back, in milliseconds. */
  readonly since: number
}

const pending = new Set<PendingCall>()

/** The same promise; while it is pending, `what` (such as `write /out/a.nq`) names it. */
export async function systemCall<T>(what: string, calling: Promise<T>): Promise<T> {
  const call = { what, since: performance.now() }
  pending.add(call)
  try {
    return await calling
  } finally {
    pending.delete(call)
  }
}

/** Those that have lasted for more than `longerThanMs`, such as `write /out/a.nq (for 125 s)`. */
export function stuckCalls(longerThanMs = 1000): string[] {
  const now = performance.now()
  return [...pending]
    .filter(({ since }) => now - since > longerThanMs)
    .map(({ what, since }) => `${what} (for ${Math.round((now - since) / 1000)} s)`)
}
