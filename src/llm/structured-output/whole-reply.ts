// A streamed reply as one text.
import { redactCut } from '../../redact.ts'
import type { CompletionEvent, CompletionRequest, FinishReason, Llm } from '../llm.ts'
import { ProviderError, providerError } from '../provider-error.ts'
import { watchStringLoop } from '../string-loop.ts'
import { type ProviderUsage, unknownUsage } from '../usage.ts'

export interface WholeReply {
  /** Without what the model thought. */
  readonly content: string
  readonly reasoning: string
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
  readonly model: string
  /** The last body or chunk, verbatim. */
  readonly raw: unknown
  /** The model repeated itself without end, and was stopped. */
  readonly repeats?: boolean
}

/** More white space than this, in characters, is no pause in a text. */
const maxBlank = 4096

export interface WholeReplyOptions {
  /**
   * A longer reply is refused. White space without end, as some models write it when held to JSON, and a string that repeats
   * itself without end are cut. Default: none of these.
   */
  readonly maxCharacters?: number | undefined
  readonly onDelta?: ((delta: CompletionEvent & { type: 'delta' }) => void) | undefined
  readonly signal: AbortSignal
}

/** Throws what the model throws, and `reply_not_json` (structured_output_invalid) for a reply of more than `maxCharacters`. */
export async function readWholeReply(
  llm: Llm,
  request: CompletionRequest,
  { maxCharacters, onDelta, signal }: WholeReplyOptions,
): Promise<WholeReply> {
  const texts = { content: '', reasoning: '' }
  const loop = watchStringLoop()
  let blank = 0
  for await (const event of llm.stream(request, signal)) {
    if (event.type === 'end') {
      const { finishReason, usage, model, raw } = event
      return { ...texts, finishReason, usage, model, raw }
    }
    const { kind, text } = event
    texts[kind] += text
    onDelta?.(event)
    if (kind !== 'content' || maxCharacters === undefined) continue
    if (texts.content.length > maxCharacters) throw tooLong(texts.content, maxCharacters)
    const trailing = text.length - text.trimEnd().length
    blank = trailing === text.length ? blank + trailing : trailing
    const loopEnd = loop.end(text)
    if (blank <= maxBlank && loopEnd === undefined) continue
    // Leaving the loop ends the request; the reply counts as cut off.
    const content = texts.content.slice(0, texts.content.length - text.length + (loopEnd ?? text.length))
    const { reasoning } = texts
    const { model } = llm
    const end = { finishReason: 'length', usage: unknownUsage, model, raw: undefined } as const
    return { content, reasoning, ...end, repeats: true }
  }
  signal.throwIfAborted()
  throw providerError('llm_unavailable', `${llm.destination} ended without an end.`)
}

function tooLong(content: string, maxCharacters: number): ProviderError {
  const message = `The reply is longer than ${maxCharacters} characters.`
  const details = { output: redactCut(content, 2000) }
  return new ProviderError('reply_not_json', 'structured_output_invalid', message, { details })
}
