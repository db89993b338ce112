// The characters that the items engine distinguishes, as UTF-16 codes. White space is JavaScript's, and every control character below
// U+0020.

export const newline = 0x0a
/** The record separator of json-seq (RFC 7464). */
export const recordSeparator = 0x1e
export const doubleQuote = 0x22
export const hash = 0x23
export const comma = 0x2c
export const slash = 0x2f
export const asterisk = 0x2a
export const colon = 0x3a
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
    (code >= 0x2000 && code <= 0x200a) ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x202f ||
    code === 0x205f
  )
}

/** A quotation mark that may open a key or a string: straight or typographic, double or single. */
export function isQuote(code: number): boolean {
  return code === doubleQuote || code === singleQuote || (code >= 0x2018 && code <= 0x201f)
}

/** Whether `code` may close a string that `open` began: a straight `"` only itself, a typographic quote its kind. */
export function closes(open: number, code: number): boolean {
  if (code === open) return true
  if (open === doubleQuote || open === singleQuote) return false
  if (open <= 0x201b) return code === singleQuote || (code >= 0x2018 && code <= 0x201b)
  return code === doubleQuote || (code >= 0x201c && code <= 0x201f)
}
