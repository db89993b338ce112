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
  const least = longest >> 1
  let lastWord = 0
  for (const [space, word] of wordsFromEnd(window, least)) {
    if (/\n[ \t\r]*\n/.test(window.slice(space, word))) return word
    lastWord ||= word
  }
  let line = window.lastIndexOf('\n', longest - 2)
  while (line >= least && window[line + 1] === '\n') line = window.lastIndexOf('\n', line - 1)
  if (line >= least) return line + 1
  return lastWord || longest
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
