// A process with a cache of replies forgets those of erased documents: it reads the flow's retractions from their beginning, and goes on
// for as long as it runs. So a process that was stopped meanwhile does so when it starts again.
import type { Logger } from 'pino'
import type { Broker } from '../broker/broker.ts'
import { toGraphmillError } from '../errors.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import { pause } from '../wait.ts'
import { type FlowTopics, outputRoute } from './ports.ts'
import { decodeEntry, type SchemasTopic } from './schemas-topic.ts'

/** How long a topic that is missing, or a fault, is waited for. */
const againMs = 30_000

interface ErasedReplies {
  readonly broker: Broker
  readonly schemas: SchemasTopic
  readonly replies: Pick<ReplyCache, 'forget'>
  readonly log: Logger
}

/** Ends when the signal aborts. */
export async function forgetErasedReplies(
  { broker, schemas, replies, log }: ErasedReplies,
  flow: FlowTopics,
  signal: AbortSignal,
): Promise<void> {
  const { topic } = outputRoute('retractions', flow)
  const onUnreadable = () => undefined // the ledger's own readers report it
  let positions: Record<number, string> = {}
  while (!signal.aborted) {
    try {
      for await (const entry of broker.read({ topic, from: positions, until: 'never' }, signal)) {
        const message = await decodeEntry(entry, 'Retractions', { schemas, signal, onUnreadable })
        if (message?.payload.reason === 'erased') {
          const { documentId, versionTime } = message
          await replies.forget({ workspace: flow.workspace, documentId, versionTime })
        }
        positions = { ...positions, [entry.partition]: entry.position }
      }
    } catch (thrown) {
      const err = toGraphmillError(thrown)
      // Before the first ledger runs, there is no such topic.
      if (err.code !== 'topic_missing' && !signal.aborted)
        log.warn({ topic, err }, 'replies of erased documents are still in the cache')
      await pause(againMs, signal)
    }
  }
}
