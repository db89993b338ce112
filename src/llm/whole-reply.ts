// A streamed reply as one text. A model that goes on in white space, as some do when held to JSON, is stopped.
import { redactCut } from '../redact.ts'
import type { CompletionEvent, FinishReason, Usage } from './llm.ts'
import { ProviderError } from './provider-error.ts'

export interface WholeReply {
  /** Without what the model thought. */
  readonly content: string
  readonly finishReason: FinishReason
  readonly usage: Usage
  readonly model: string
}

/** More white space than this, in characters, is no pause in a text. */
const mostSpace = 4096

export interface WholeReplyOptions {
  readonly maxCharacters: number
  /** The model that was asked. */
  readonly model: string
}

/** Throws `reply_not_json` (structured_output_invalid) for a reply of more than `maxCharacters`. */
export async function readWholeReply(
  events: AsyncIterable<CompletionEvent>,
  { maxCharacters, model: asked }: WholeReplyOptions,
): Promise<WholeReply> {
  let content = ''
  let space = 0
  for await (const event of events) {
    if (event.type === 'end') {
      const { finishReason, usage, model } = event
      return { content, finishReason, usage, model }
    }
    if (event.kind !== 'content') continue
    content += event.text
    if (content.length > maxCharacters) throw tooLong(content, maxCharacters)
    const trailing = event.text.length - event.text.trimEnd().length
    space = trailing === event.text.length ? space + trailing : trailing
    // Leaving the loop ends the request; a reply that was ended for us was cut.
    if (space > mostSpace) return { content, finishReason: 'length', usage: unknown, model: asked }
  }
  throw new ProviderError('llm_unavailable', 'provider_unavailable', 'The model ended without an end.')
}

const unknown: Usage = { promptTokens: null, completionTokens: null, totalTokens: null }

function tooLong(content: string, maxCharacters: number): ProviderError {
  return new ProviderError(
    'reply_not_json',
    'structured_output_invalid',
    `The reply is longer than ${maxCharacters} characters.`,
    { details: { output: redactCut(content, 2000) } },
  )
}
