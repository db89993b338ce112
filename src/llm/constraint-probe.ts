// Whether a server constrains replies to a schema: it is asked once, and again by the next call after a failure.
import { unlessAborted } from '../wait.ts'

/** The longest wait for the answer, in milliseconds. */
const probeMs = 10_000

/** The result is false while the server cannot be asked. Throws the reason of an aborted `signal`. */
export function createConstraintProbe(
  ask: (signal: AbortSignal) => Promise<boolean>,
): (signal: AbortSignal) => Promise<boolean> {
  let constrains: boolean | undefined
  let probe: Promise<void> | undefined

  async function begin(): Promise<void> {
    try {
      constrains = await ask(AbortSignal.timeout(probeMs))
    } catch {
      // The server is unavailable now.
    } finally {
      probe = undefined
    }
  }

  return async (signal) => {
    if (constrains !== undefined) return constrains
    probe ??= begin()
    await unlessAborted(probe, signal)
    return constrains ?? false
  }
}
