// What Python calls a blank, and the texts of tags split by Python's rules, outside of quotes.

/** The characters of Python's `\s`, `str.isspace()` and `str.strip()`. */
export const blanks = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'
const blank = new RegExp(`[${blanks}]`)

export const isBlank = (character: string | undefined): boolean =>
  character !== undefined && blank.test(character)

/** str.strip(), or that of one side. `dropped` tells which characters go. */
export function strip(text: string, side?: 'left' | 'right', dropped = isBlank): string {
  let [start, end] = [0, text.length]
  if (side !== 'right') while (start < end && dropped(text[start])) start++
  if (side !== 'left') while (end > start && dropped(text[end - 1])) end--
  return text.slice(start, end)
}

/** The end of the run of blanks that begins at `start`. */
export function endOfBlanks(text: string, start: number): number {
  let end = start
  while (isBlank(text[end])) end++
  return end
}

/** The words of a text: str.split(). */
export function words(text: string): string[] {
  return text.split(new RegExp(`[${blanks}]+`)).filter((word) => word !== '')
}

/** The parts between single characters, without blanks around them; quoted ones do not count, to the end if need be. */
export function splitAt(text: string, delimiter: string): string[] {
  const parts: string[] = []
  let [start, escaped] = [0, false]
  let quote: string | undefined
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (quote !== undefined) {
      if (character === quote && !escaped) quote = undefined
    } else if (character === delimiter) {
      parts.push(strip(text.slice(start, at)))
      start = at + 1
    } else if (character === '"' || character === "'") quote = character
    escaped = character === '\\' && !escaped
  }
  return [...parts, strip(text.slice(start))]
}

/** A word between blanks (`or`), or a sign (`||`). */
export interface Separator {
  readonly word?: string
  readonly signs: readonly string[]
}

/**
 * The parts between separators outside of closed quotes, and the signs between them.
 *
 * @param cost counts the search for closing quotes, which may be repeated
 */
export function splitBy(text: string, { word, signs }: Separator, cost: (steps: number) => void) {
  const parts: string[] = []
  const found: string[] = []
  let start = 0
  const cut = (at: number, end: number) => {
    parts.push(text.slice(start, at))
    found.push(text.slice(at, end))
    start = end
    return end
  }
  for (let at = 0; at < text.length; ) {
    const character = text[at]!
    const sign = signs.find((candidate) => text.startsWith(candidate, at))
    if (character === '"' || character === "'") at = endOfQuote(text, at, cost) ?? at + 1
    else if (sign !== undefined) at = cut(at, at + sign.length)
    else if (isBlank(character)) {
      const wordAt = endOfBlanks(text, at)
      const after = wordAt + (word?.length ?? 0)
      const isWord = word !== undefined && text.startsWith(word, wordAt) && isBlank(text[after])
      at = isWord ? cut(at, endOfBlanks(text, after)) : wordAt
    } else at++
  }
  return { parts: [...parts, text.slice(start)], found }
}

/** After the quote that closes the one at `start`; a line that ends in a backslash is not quoted. */
function endOfQuote(text: string, start: number, cost: (steps: number) => void): number | undefined {
  let at = start + 1
  while (at < text.length && text[at] !== text[start]) {
    if (text[at] === '\\' && (at + 1 === text.length || text[at + 1] === '\n')) break
    at += text[at] === '\\' ? 2 : 1
  }
  cost((at - start) / 16)
  return text[at] === text[start] ? at + 1 : undefined
}
