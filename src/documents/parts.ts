// Cuts a long document into parts that fit a message: at paragraph ends if there are any, otherwise at line ends, then at white
// space. The text is read piece by piece, so that memory does not grow with the document. After an edit, the cuts behind it are the same.
import { anchorOf } from './anchors.ts'

/** The largest part, in bytes of UTF-8. */
const maxPartBytes = 512 * 1024

export interface TextPart {
  readonly part: number
  /** Where it begins in the document, in UTF-16 code units. */
  readonly offset: number
  readonly text: string
  /** Whether it is the last part. */
  readonly last: boolean
}

/** The parts of a text that arrives in pieces. The parts do not depend on how the text is cut into pieces. */
export async function* cutParts(
  pieces: AsyncIterable<string> | Iterable<string>,
  maxBytes: number = maxPartBytes,
): AsyncGenerator<TextPart> {
  let held = ''
  let part = 0
  let offset = 0
  let scratch: Uint8Array | undefined
  const cut = () => {
    scratch ??= new Uint8Array(maxBytes)
    return cutPoint(held, scratch)
  }
  const take = (length: number): TextPart => {
    const text = held.slice(0, length)
    held = held.slice(length)
    offset += length
    return { part: part++, offset: offset - length, text, last: false }
  }
  for await (const piece of pieces) {
    held += piece
    // A code unit takes at most three bytes, so a part never has more code units than bytes.
    while (held.length > maxBytes) yield take(cut())
  }
  while (Buffer.byteLength(held) > maxBytes) yield take(cut())
  if (held.length > 0) yield { ...take(held.length), last: true }
}

/**
 * Where to cut so that the text before takes at most `scratch.length` bytes: after a paragraph, otherwise a line, otherwise a word. Which
 * one is decided by the text around it, so that an edit moves few cuts.
 */
function cutPoint(text: string, scratch: Uint8Array): number {
  const longest = new TextEncoder().encodeInto(text, scratch).read
  // A cut in the first half would make too many parts.
  const range = [longest >> 1, longest] as const
  return (
    anchorOf(text, words(text, range, /\n[ \t\r]*\n/)) ??
    anchorOf(text, lines(text, range)) ??
    anchorOf(text, words(text, range)) ??
    longest
  )
}

const lineFeed = 10

type Range = readonly [from: number, to: number]

/** Where lines begin behind a line that is not empty. */
function* lines(text: string, [from, to]: Range): Generator<number> {
  for (let next = from + 1; next < to; next++)
    if (text.charCodeAt(next - 1) === lineFeed && text.charCodeAt(next) !== lineFeed) yield next
}

/** Where words begin behind white space of the range that holds what is `wanted`. */
function* words(text: string, [from, to]: Range, wanted?: RegExp): Generator<number> {
  for (let at = from; at < to; at++) {
    if (!isSpace(text.charCodeAt(at))) continue
    const space = at
    while (at < to && isSpace(text.charCodeAt(at))) at++
    if (at < to && (wanted?.test(text.slice(space, at)) ?? true)) yield at
  }
}

const isSpace = (unit: number) =>
  unit < 128 ? unit === 32 || (unit >= 9 && unit <= 13) : /\s/.test(String.fromCharCode(unit))
