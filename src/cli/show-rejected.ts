// The items of a model that `extract` rejected: shows the first of each reason, and logs all of them at level `debug`.
import type { Logger } from 'pino'
import type { Message } from '../messages/envelope.ts'
import { say } from './progress.ts'

export interface ShowRejectedOptions {
  /** The title of a document. */
  readonly titleOf: (documentId: string) => string
  readonly log: Logger
}

/** Ends with `messages`. */
export async function showRejected(
  messages: AsyncIterable<Message<'Rejected'>>,
  { titleOf, log }: ShowRejectedOptions,
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
      const more = 'the first for this reason; --log-level debug shows all'
      say(`graphmill: rejected in ${title}, chunk ${chunkId}: ${message} [${reason}] ${text} (${more})`)
    }
  }
}
