// From the events of a reply to its parts. When streaming, the first event leaves at once, and what comes while a part is on
// its way forms the next part. Otherwise, and for json prompts always, a part is only cut when it gets too large for a message.
// A replay cuts its parts where the run did.
import { batches } from '../../batches.ts'
import type { GroundingInit, SpanInit } from '../../messages/generated.ts'
import type { ResponseType } from '../catalogue/definition.ts'
import { coalesce, collect } from './coalesce.ts'
import { maxPart, type ReplyEnd, type ReplyEvent, type ReplyStream } from './reply.ts'

/** A part of a reply. The last one has `end`. */
export interface ReplyPart {
  /** For text prompts. */
  readonly text?: string
  /** JSON text for json prompts, absent when there is no value; a JSON array for jsonl prompts. */
  readonly object?: string
  /** One for each item, when the request asked for grounding. */
  readonly groundings?: readonly GroundingInit[]
  /** Items accepted and rejected up to here. */
  readonly accepted: number
  readonly rejected: number
  /** Where the last part holds all items: how many of them came before; -1 where they come again. */
  readonly repeated?: number
  readonly end?: ReplyEnd
}

/** The parts, and how much each holds, in items or characters. */
export async function* partsOf(
  reply: ReplyStream,
  { kind, streaming }: { readonly kind: ResponseType; readonly streaming: boolean },
): AsyncGenerator<{ readonly part: ReplyPart; readonly weight: number }, void> {
  const toPart = partMaker(kind)
  const inBatches = streaming && kind !== 'json' ? coalesce : collect
  for await (const batch of inBatches(reply, sizeOf, maxPart))
    yield { part: toPart(batch), weight: batch.reduce((sum, event) => sum + weightOf(event), 0) }
}

/** The parts of a whole reply, cut after `cuts` items or characters each; without cuts, only when a part gets too large. */
export function* cutParts(
  reply: readonly ReplyEvent[],
  { kind, cuts = [] }: { readonly kind: ResponseType; readonly cuts: readonly number[] | undefined },
): Generator<ReplyPart, void> {
  const toPart = partMaker(kind)
  const events = reply.slice(0, -1)
  for (const weight of cuts.slice(0, -1)) yield toPart(takeFront(events, weight))
  const rest = [...events, reply.at(-1)!]
  for (const batch of batches(rest, { maxSize: maxPart, sizeOf })) yield toPart(batch)
}

/**
 * The parts of the reply to a jsonl prompt, of which the last one holds all items; where it would be too large for a message, several
 * of them do.
 */
export async function* withRepeats<P extends ReplyPart>(parts: AsyncIterable<P>): AsyncGenerator<P, void> {
  const before: P[] = []
  for await (const part of parts) {
    if (part.end !== undefined) return yield* joined(before, part)
    before.push(part)
    yield { ...part, repeated: -1 }
  }
}

function* joined<P extends ReplyPart>(before: readonly P[], end: P): Generator<P, void> {
  let accepted = 0
  for (const parts of batches([...before, end], { maxSize: maxPart, sizeOf: partSize })) {
    const old = parts.filter((part) => part !== end)
    const items = parts.map(({ object = '[]' }) => object.slice(1, -1)).filter((list) => list !== '')
    const groundings = parts.flatMap((part) => part.groundings ?? [])
    const repeated = (old.at(-1)?.accepted ?? accepted) - accepted
    accepted += repeated
    yield { ...parts.at(-1)!, object: `[${items.join(',')}]`, groundings, repeated }
  }
}

const partSize = ({ object = '', groundings = [] }: ReplyPart) =>
  groundings.reduce((sum, { spans }) => sum + spansSize(spans ?? []), object.length)

/** Removes so many items, or characters of text, from the front of the list. */
function takeFront(events: ReplyEvent[], weight: number): ReplyEvent[] {
  const taken: ReplyEvent[] = []
  let left = weight
  while (events.length > 0 && left > 0) {
    const event = events.shift()!
    if (event.type === 'text' && event.text.length > left) {
      taken.push({ type: 'text', text: event.text.slice(0, left) })
      events.unshift({ type: 'text', text: event.text.slice(left) })
      return taken
    }
    left -= weightOf(event)
    taken.push(event)
  }
  return taken
}

function partMaker(kind: ResponseType): (events: readonly ReplyEvent[]) => ReplyPart {
  let accepted = 0
  let rejected = 0
  return (events) => {
    const texts: string[] = []
    const groundings: GroundingInit[] = []
    let end: ReplyEnd | undefined
    for (const event of events) {
      if (event.type === 'end') end = event.end
      else texts.push(event.type === 'text' ? event.text : event.json)
      if (event.type === 'item') {
        accepted++
        rejected = event.rejected
        if (event.grounding) groundings.push(event.grounding)
      }
    }
    const counts = end ? { accepted: end.accepted, rejected: end.rejected, end } : { accepted, rejected }
    if (kind === 'jsonl') {
      const object = `[${texts.join(',')}]`
      return groundings.length > 0 ? { object, groundings, ...counts } : { object, ...counts }
    }
    const text = texts.join('')
    return kind === 'text' ? { text, ...counts } : { ...(text !== '' && { object: text }), ...counts }
  }
}

/** What a span takes besides its texts, in characters: a message has room for four bytes of each. */
const spanSize = 16

function sizeOf(event: ReplyEvent): number {
  if (event.type !== 'item') return event.type === 'text' ? event.text.length : 0
  return event.json.length + 1 + spansSize(event.grounding?.spans ?? [])
}

const spansSize = (spans: readonly SpanInit[]) =>
  spans.reduce((sum, { field, text = '' }) => sum + spanSize + field.length + text.length, 0)

function weightOf(event: ReplyEvent): number {
  return event.type === 'text' ? event.text.length : event.type === 'item' ? 1 : 0
}
