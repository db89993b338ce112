// The thread of the `offline` model: a chunk takes tens of milliseconds, too long for the main event loop.
import { answerCalls } from '../../workers/answer-calls.ts'
import { extractions } from './extract.ts'

export interface OfflineTask {
  readonly promptId: string
  readonly text: string
}

/** The reply is JSON Lines, as a model would write them. */
answerCalls(({ promptId, text }: OfflineTask) => {
  const items = extractions[promptId]?.(text) ?? []
  return items.map((item) => `${JSON.stringify(item)}\n`).join('')
})
