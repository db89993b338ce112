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
  const take = (length: number): TextPart => {
    const text = held.slice(0, length)
    held = held.slice(length)
    offset += length
    return { part: part++, offset: offset - length, text, last: false }
  }
  for await (const piece of pieces) {
    held += piece
    // A code unit takes at most three bytes, so a part never has more code units than bytes.
    while (held.length > maxBytes) yield take(cutPoint(held, maxBytes))
  }
  while (Buffer.byteLength(held) > maxBytes) yield take(cutPoint(held, maxBytes))
  if (held.length > 0) yield { ...take(held.length), last: true }
}

/**
 * Where to cut so that the text before takes at most `maxBytes`: after a paragraph, otherwise a line, otherwise a word. Which one is
 * decided by the text around it, so that an edit moves few cuts.
 */
function cutPoint(text: string, maxBytes: number): number {
  const longest = longestPrefix(text, maxBytes)
  const window = text.slice(0, longest)
  // A cut in the first half would make too many parts.
  const least = longest >> 1
  const words: number[] = []
  const paragraphs: number[] = []
  for (const [space, word] of wordsFromEnd(window, least)) {
    words.push(word)
    if (/\n[ \t\r]*\n/.test(window.slice(space, word))) paragraphs.push(word)
  }
  return (
    anchorOf(text, paragraphs) ?? anchorOf(text, lines(window, least)) ?? anchorOf(text, words) ?? longest
  )
}

/** Where lines begin behind a line that is not empty, at `least` or later. */
function* lines(text: string, least: number): Generator<number> {
  for (let at = text.indexOf('\n', least); at >= 0; at = text.indexOf('\n', at + 1))
    if (at + 1 < text.length && text[at + 1] !== '\n') yield at + 1
}

/** The words of a text after white space that begins at `least` or later, from the last one: where the white space and the word begin. */
function* wordsFromEnd(text: string, least: number): Generator<[space: number, word: number]> {
  const isSpace = (at: number) => /\s/.test(text[at]!)
  for (let at = text.length; at > least; ) {
    while (at > least && !isSpace(at - 1)) at--
    const word = at
    while (at > least && isSpace(at - 1)) at--
    if (at < word && word < text.length) yield [at, word]
  }
}

function longestPrefix(text: string, maxBytes: number): number {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes))
  return read
}
