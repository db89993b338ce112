// Replies as TrustGraph's clients read them. To a request that is not streamed there is one message. A streamed reply is a text and an
// end, which leave together when the reply is whole: a client shows twice what comes twice, and after a crash no broker says that a
// request was delivered before.
import type { Message } from '../messages/envelope.ts'
import type { ProgressInit, PromptResponseInit, TextCompletionResponseInit } from '../messages/generated.ts'
import type { ResponseType } from '../prompt/catalogue/definition.ts'
import type { OutputPort, PayloadOf, ReplyPort } from './ports.ts'
import type { Output, Outputs } from './processor.ts'

/** Whether a client of TrustGraph has sent the request. */
export const isForeign = ({ source }: Message): boolean => source === 'trustgraph'

/** The same outputs, but for the parts of the reply: when all are there, they are replaced by what `form` makes of them. */
export async function* reformed<P extends ReplyPort, O extends OutputPort>(
  outputs: Outputs<O | P>,
  port: P,
  form: (parts: readonly PayloadOf<P>[]) => readonly Output<O | P>[],
): Outputs<O | P> {
  const parts: PayloadOf<P>[] = []
  try {
    let step = await outputs.next(undefined)
    while (!step.done) {
      const { to, payload } = step.value
      if (to === port) parts.push(payload as PayloadOf<P>)
      step = await outputs.next(to === port ? undefined : yield step.value)
    }
  } finally {
    await outputs.return(undefined)
  }
  yield* form(parts)
}

/** The reply to a prompt request, and an entry on `progress` with what the reply has no field for. */
export function promptReply(
  parts: readonly PromptResponseInit[],
  { kind, streaming }: { readonly kind: ResponseType; readonly streaming: boolean },
): Output<'reply' | 'progress'>[] {
  const end = parts.at(-1)!
  const replies = failureOf(parts, end) ?? (streaming ? inText(parts, kind) : atOnce(parts, kind))
  return [
    ...replies.map((payload, seq) => ({ to: 'reply', payload: { ...payload, seq } }) as const),
    { to: 'progress', payload: progressOf(end) },
  ]
}

/** An error, when something has kept all of the reply from coming: an empty reply would say that there is nothing. */
function failureOf(parts: readonly PromptResponseInit[], end: PromptResponseInit) {
  const isEmpty = parts.every(({ text, object }) => !text && (object ?? '[]') === '[]')
  return isEmpty && end.cause ? [{ ...end, text: null, object: null, error: end.cause }] : undefined
}

function atOnce(parts: readonly PromptResponseInit[], kind: ResponseType): PromptResponseInit[] {
  const groundings = parts.flatMap((part) => part.groundings ?? [])
  const whole = { ...parts.at(-1)!, groundings }
  if (kind === 'jsonl') return [{ ...whole, object: `[${itemsOf(parts).join(',')}]` }]
  if (kind === 'json') return [{ ...whole, object: parts.find(({ object }) => object)?.object ?? null }]
  const text = parts.map((part) => part.text ?? '').join('')
  // TrustGraph's client takes the object for the reply when the text is empty.
  return [{ ...whole, text, object: text === '' ? '""' : null }]
}

/** A text, and the end: a value is its JSON text, and each item is a line. */
function inText(parts: readonly PromptResponseInit[], kind: ResponseType): PromptResponseInit[] {
  const end = { ...parts.at(-1)!, text: '', object: null, groundings: [] }
  const { promptId, run, model, context } = end
  const texts =
    kind === 'jsonl'
      ? itemsOf(parts).map((item) => `${item}\n`)
      : parts.map(({ text, object }) => text ?? object ?? '')
  const text = texts.join('')
  return text === '' ? [end] : [{ promptId, run, model, context, text, endOfStream: false }, end]
}

function itemsOf(parts: readonly PromptResponseInit[]): string[] {
  return parts.flatMap(({ object }) =>
    (JSON.parse(object ?? '[]') as unknown[]).map((item) => JSON.stringify(item)),
  )
}

function progressOf(end: PromptResponseInit): ProgressInit {
  const { promptId, run, model, usage, incomplete, rejections, repaired, duplicates } = end
  const counts = { incomplete, rejected: rejections, repaired, duplicates, usage, model }
  return { kind: 'reply', unit: promptId, run, last: true, ...counts }
}

/** The reply to a request for text. */
export function completionReply(
  parts: readonly TextCompletionResponseInit[],
  { streaming }: { readonly streaming: boolean },
): Output<'text-reply'>[] {
  const end = parts.at(-1)!
  const response = parts.map((part) => part.response ?? '').join('')
  const { run, model, context } = end
  const piece = { run, model, context, response, endOfStream: false }
  const isInPieces = streaming && response !== ''
  const whole = isInPieces ? [piece, { ...end, response: '' }] : [{ ...end, response }]
  return whole.map((payload, seq) => ({ to: 'text-reply', payload: { ...payload, seq } }) as const)
}
