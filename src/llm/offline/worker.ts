// The thread in which the `offline` model reads: a chunk takes tens of milliseconds, which no event loop should stand still for.
import { parentPort } from 'node:worker_threads'
import { extractions } from './extract.ts'

export interface OfflineTask {
  readonly id: number
  readonly promptId: string
  readonly text: string
}

/** The reply of a task: JSON Lines, as a model would write them; or what went wrong. */
export type OfflineResult = { readonly id: number } & (
  | { readonly reply: string }
  | { readonly error: string }
)

parentPort?.on('message', (task: OfflineTask) => parentPort?.postMessage(resultOf(task)))

function resultOf({ id, promptId, text }: OfflineTask): OfflineResult {
  try {
    const items = extractions[promptId]?.(text) ?? []
    return { id, reply: items.map((item) => `${JSON.stringify(item)}\n`).join('') }
  } catch (thrown) {
    return { id, error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown) }
  }
}
