// Calls into the operating system that may never return, such as a write to a file server that hangs. They are listed by name while
// they last, so that a process that must end without them can report what held it. Such a call cannot be cancelled, and
// `process.exit` waits for its thread: only a signal ends the process.

interface PendingCall {
  readonly what: string
  /** By a monotonic clock, in milliseconds. */
  readonly since: number
}

const pending = new Set<PendingCall>()

/** Awaits `calling`. While it is pending, `stuckCalls` lists it as `what`, such as `write /out/a.nq`. */
export async function systemCall<T>(what: string, calling: Promise<T>): Promise<T> {
  const call = { what, since: performance.now() }
  pending.add(call)
  try {
    return await calling
  } finally {
    pending.delete(call)
  }
}

/** The calls that have lasted longer than `longerThanMs`, such as `write /out/a.nq (for 125 s)`. */
export function stuckCalls(longerThanMs = 1000): string[] {
  const now = performance.now()
  return [...pending]
    .filter(({ since }) => now - since > longerThanMs)
    .map(({ what, since }) => `${what} (for ${Math.round((now - since) / 1000)} s)`)
}
