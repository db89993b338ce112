// Reads of a compacted topic to its end, which concurrent handlers share.
import { toGraphmillError } from '../errors.ts'
import { shareRuns } from '../wait.ts'

/** Each call resolves after a read that began after it. */
export function createCatchUp<C extends { readonly signal: AbortSignal }>(
  read: (context: C) => Promise<void>,
): (context: C) => Promise<void> {
  const share = shareRuns(read)
  return async (context) => {
    for (;;) {
      try {
        return await share(context)
      } catch (thrown) {
        // The shared read may belong to a handler that was aborted meanwhile.
        context.signal.throwIfAborted()
        if (toGraphmillError(thrown).code !== 'aborted') throw thrown
      }
    }
  }
}
