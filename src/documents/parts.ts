// Cuts a long document into parts that fit a message: at paragraph ends if there are any, otherwise at line ends, then at white
// space. The text is read piece by piece, so that memory does not grow with the document.

/** The largest part, in bytes of UTF-8. */
const maxPartBytes = 512 * 1024

export interface TextPart {
  readonly part: number
  /** Where it begins in the document, in UTF-16 code units. */
  readonly offset: number
  readonly text: string
}

/** The parts of a text that arrives in pieces. The parts do not depend on how the text is cut into pieces. */
export async function* cutParts(
  pieces: AsyncIterable<string> | Iterable<string>,
  maxBytes: number = maxPartBytes,
): AsyncGenerator<TextPart> {
  let held = ''
  let part = 0
  let offset = 0
  for await (const piece of pieces) {
    held += piece
    // A code unit takes at most three bytes, so a part never has more code units than bytes.
    while (held.length > maxBytes) {
      const text = held.slice(0, cutPoint(held, maxBytes))
      yield { part: part++, offset, text }
      offset += text.length
      held = held.slice(text.length)
    }
  }
  while (held.length > 0) {
    const text = Buffer.byteLength(held) <= maxBytes ? held : held.slice(0, cutPoint(held, maxBytes))
    yield { part: part++, offset, text }
    offset += text.length
    held = held.slice(text.length)
  }
}

/** Where to cut so that the text before takes at most `maxBytes`: after the last paragraph, otherwise the last line, otherwise the last word. */
function cutPoint(text: string, maxBytes: number): number {
  const longest = longestPrefix(text, maxBytes)
  const window = text.slice(0, longest)
  // A cut in the first half would make too many parts.
  for (const end of [/\n[ \t\r]*\n\s*(?=\S)/g, /\n(?=[^\n])/g, /\s(?=\S)/g]) {
    let last = 0
    for (const found of window.slice(longest >> 1).matchAll(end))
      last = (longest >> 1) + found.index + found[0].length
    if (last > 0) return last
  }
  return longest
}

function longestPrefix(text: string, maxBytes: number): number {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(maxBytes))
  return read
}
