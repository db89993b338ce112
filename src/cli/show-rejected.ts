// The items of a model that `extract` did not take: the first of each reason is said, each of them at the log level `debug`.
import type { Logger } from 'pino'
import type { Message } from '../messages/envelope.ts'
import { say } from './progress.ts'

export interface RejectedShown {
  /** What people call a document. */
  readonly titleOf: (documentId: string) => string
  readonly log: Logger
}

/** Ends with `messages`. */
export async function showRejected(
  messages: AsyncIterable<Message<'Rejected'>>,
  { titleOf, log }: RejectedShown,
): Promise<void> {
  const said = new Set<string>()
  for await (const { documentId, chunkId, payload } of messages) {
    const title = titleOf(documentId)
    for (const { reason, line, text, message } of payload.items) {
      log.debug(
        { document: title, chunkId, prompt: payload.promptId, reason, line, text },
        `rejected: ${message}`,
      )
      if (said.has(reason)) continue
      said.add(reason)
      const more = 'the first of its kind; --log-level debug shows each'
      say(`graphmill: rejected of ${title}, chunk ${chunkId}: ${message} [${reason}] ${text} (${more})`)
    }
  }
}
