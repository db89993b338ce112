// The items of a model that were rejected: shows the first of each reason, and logs all of them at level `debug`.
import type { Logger } from 'pino'
import type { RejectedEvent } from '../extraction/events.ts'
import { say } from './progress.ts'

export interface RejectionNotesOptions {
  /** The title of a document. */
  readonly titleOf: (documentId: string) => string
  readonly log: Logger
}

export function createRejectionNotes({ titleOf, log }: RejectionNotesOptions) {
  const said = new Set<string>()
  return ({
    documentId,
    chunkId,
    promptId: prompt,
    reason,
    line,
    text,
    message,
  }: Omit<RejectedEvent, 'type'>) => {
    const document = titleOf(documentId)
    log.debug({ document, chunkId, prompt, reason, line, text }, `rejected: ${message}`)
    if (said.has(reason)) return
    said.add(reason)
    const more = 'the first for this reason; --log-level debug shows all'
    say(`graphmill: rejected in ${document}, chunk ${chunkId}: ${message} [${reason}] ${text} (${more})`)
  }
}
