// The characters that the items engine distinguishes, as UTF-16 codes. White space is JavaScript's, and every control character below
// U+0020.

export const newline = 0x0a
/** The record separator of json-seq (RFC 7464). */
export const recordSeparator = 0x1e
export const doubleQuote = 0x22
export const hash = 0x23
export const comma = 0x2c
export const ampersand = 0x26
export const semicolon = 0x3b
export const slash = 0x2f
export const asterisk = 0x2a
export const colon = 0x3a
export const equals = 0x3d
export const greater = 0x3e
export const less = 0x3c
export const openBracket = 0x5b
export const backslash = 0x5c
export const closeBracket = 0x5d
export const backtick = 0x60
export const openBrace = 0x7b
export const closeBrace = 0x7d
export const tilde = 0x7e
/** ◁, which opens a mark of Kimi. */
export const openTriangle = 0x25c1

const singleQuote = 0x27

export function isSpace(code: number): boolean {
  if (code <= 0x20) return true
  if (code < 0x85) return false
  if (code === 0x85 || code === 0xa0 || code === 0xfeff || code === 0x3000) return true
  if (code < 0x1680) return false
  return (
    code === 0x1680 ||
    (code >= 0x2000 && code <= 0x200b) ||
    code === 0x200e ||
    code === 0x200f ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x202f ||
    code === 0x205f ||
    code === 0x2060
  )
}

/** The marks that may open a key or a string, each with those that may close it. A straight `"` is closed by itself alone. */
const closersOf: ReadonlyMap<number, string> = new Map(
  [
    ['"', '"'],
    ["'", "'"],
    ['`', '`'],
    ...[...'\u2018\u2019\u201a\u201b'].map((open) => [open, "'\u2018\u2019\u201a\u201b"] as const),
    ...[...'\u201c\u201d\u201e\u201f'].map((open) => [open, '"\u201c\u201d\u201e\u201f'] as const),
    ['«', '»'],
    ['»', '«»'],
    ['‹', '›'],
    ['›', '‹›'],
    ['「', '」'],
    ['『', '』'],
    ['´', '´'],
    ['″', '″'],
    ['＂', '＂"'],
    ['＇', "＇'"],
  ].map(([open, closers]) => [open!.charCodeAt(0), closers!]),
)

/** The same marks, for a class of a regular expression. */
export const quoteMarks = '"\'`´″\\u2018-\\u201f«»‹›「」『』＂＇'

/** Whether it may open a key or a string. */
export function isQuote(code: number): boolean {
  if (code < 0x80) return code === doubleQuote || code === singleQuote || code === backtick
  return closersOf.has(code)
}

/** Whether `code` may close a string that `open` began. */
export function closes(open: number, code: number): boolean {
  if (open < 0x80) return code === open
  return closersOf.get(open)?.includes(String.fromCharCode(code)) ?? false
}

/** JSON's own bracket, colon or comma for one of full width or of Arabic, as texts in such scripts have them; other characters as they are. */
export function structural(code: number): number {
  if (code < 0x60c) return code
  switch (code) {
    case 0xff1b:
      return semicolon
    case 0xff1a:
      return colon
    case 0x060c:
    case 0xff0c:
    case 0x3001:
      return comma
    case 0xff5b:
      return openBrace
    case 0xff5d:
      return closeBrace
    case 0xff3b:
      return openBracket
    case 0xff3d:
      return closeBracket
    default:
      return code
  }
}
