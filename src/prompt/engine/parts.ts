// From the pieces of a reply to its parts. Streaming, the first piece goes at once, and what is heard while a part is on its
// way forms the next; else, and for json prompts always, a part is only cut where it gets too large for a message. A replay cuts where the run did.
import { coalesce, collect } from './coalesce.ts'
import { maxPart, type ReplyEnd, type ReplyEvent, type ReplyStream } from './reply.ts'

/**
 * A part of a reply: text for text prompts, JSON text for json prompts, or nothing where there is no value, a JSON array for
 * jsonl prompts. The last one has `end`.
 */
export interface Part {
  readonly text?: string
  readonly object?: string
  /** Items accepted and rejected up to here. */
  readonly accepted: number
  readonly rejected: number
  readonly end?: ReplyEnd
}

export type PartKind = 'text' | 'json' | 'jsonl'

/** The parts, and how much each holds, in items or characters. */
export async function* partsOf(
  heard: ReplyStream,
  { kind, streaming }: { readonly kind: PartKind; readonly streaming: boolean },
): AsyncGenerator<{ readonly part: Part; readonly weight: number }, void> {
  const part = partMaker(kind)
  const inBatches = streaming && kind !== 'json' ? coalesce : collect
  for await (const batch of inBatches(heard, sizeOf, maxPart))
    yield { part: part(batch), weight: batch.reduce((sum, piece) => sum + weigh(piece), 0) }
}

/** The parts of a whole reply, cut after `cuts` items or characters each; without cuts, only where it gets too large. */
export function* cutParts(
  heard: readonly ReplyEvent[],
  { kind, cuts }: { readonly kind: PartKind; readonly cuts: readonly number[] | undefined },
): Generator<Part, void> {
  const part = partMaker(kind)
  const pieces = [...heard]
  const end = pieces.pop()!
  for (const weight of (cuts ?? []).slice(0, -1)) yield part(takeOff(pieces, weight))
  let rest: ReplyEvent[] = []
  for (const piece of [...pieces, end]) {
    if (rest.length > 0 && sizes(rest) + sizeOf(piece) > maxPart) {
      yield part(rest)
      rest = []
    }
    rest.push(piece)
  }
  yield part(rest)
}

/** Takes pieces of so many items, or characters of text, off the beginning of the list. */
function takeOff(pieces: ReplyEvent[], weight: number): ReplyEvent[] {
  const taken: ReplyEvent[] = []
  let left = weight
  while (pieces.length > 0 && left > 0) {
    const piece = pieces.shift()!
    if (piece.type === 'text' && piece.text.length > left) {
      taken.push({ type: 'text', text: piece.text.slice(0, left) })
      pieces.unshift({ type: 'text', text: piece.text.slice(left) })
      return taken
    }
    left -= weigh(piece)
    taken.push(piece)
  }
  return taken
}

function partMaker(kind: PartKind): (pieces: readonly ReplyEvent[]) => Part {
  let accepted = 0
  let rejected = 0
  return (pieces) => {
    const texts = pieces.map((piece) =>
      piece.type === 'text' ? piece.text : piece.type === 'end' ? '' : piece.json,
    )
    let end: ReplyEnd | undefined
    for (const piece of pieces) {
      if (piece.type === 'item') {
        accepted++
        rejected = piece.rejected
      }
      if (piece.type === 'end') end = piece.end
    }
    const counts = end ? { accepted: end.accepted, rejected: end.rejected, end } : { accepted, rejected }
    const text = texts.join('')
    if (kind === 'text') return { text, ...counts }
    if (kind === 'json') return { ...(text !== '' && { object: text }), ...counts }
    return { object: `[${texts.filter((text) => text !== '').join(',')}]`, ...counts }
  }
}

function sizeOf(piece: ReplyEvent): number {
  return piece.type === 'text' ? piece.text.length : piece.type === 'item' ? piece.json.length + 1 : 0
}

function sizes(pieces: readonly ReplyEvent[]): number {
  return pieces.reduce((sum, piece) => sum + sizeOf(piece), 0)
}

function weigh(piece: ReplyEvent): number {
  return piece.type === 'text' ? piece.text.length : piece.type === 'item' ? 1 : 0
}
