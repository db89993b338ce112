// The deltas of a streamed reply as the caller of `complete` receives them.
import { randomUUID } from 'node:crypto'
import type { CompletionEvent } from '../llm/llm.ts'
import type { CallOptions } from './provider.ts'

/** Reads a reply to its end. No delta is passed on after the caller's abort. */
export async function passTokens(
  batches: AsyncIterable<readonly CompletionEvent[]>,
  { onToken, signal }: CallOptions,
): Promise<void> {
  const callId = randomUUID()
  let chunkIndex = 0
  for await (const batch of batches)
    for (const event of batch) {
      signal?.throwIfAborted()
      if (event.type === 'delta')
        onToken?.({ deltaKind: event.kind, delta: event.text, chunkIndex: chunkIndex++, callId })
    }
}
