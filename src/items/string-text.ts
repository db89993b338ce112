// The text of a string literal that JSON does not accept as it is, or whose escapes are in doubt. A backslash before a letter that is no
// escape means that the writer did not escape at all (a path, LaTeX, a regular expression): then every backslash stands for itself, also in
// `\n`. A backslash before punctuation escapes it for Markdown or a shell, and is dropped.
import { closes, doubleQuote, isQuote, quoteMarks } from './characters.ts'
import type { RepairName } from './item.ts'

export interface StringText {
  readonly text: string
  readonly repairs: readonly RepairName[]
}

/** JSON's escapes of one letter. */
const letters: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
/** Escapes of JSON, JavaScript and Python that name a character by its number. */
const numbered =
  /\\(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})|((?:x[0-9a-fA-F]{2}(?:\\(?=x[0-9a-fA-F]{2}))?)+))/y
const wordCharacter = /[\p{L}\p{N}]/u
/** Commands of LaTeX whose first letter JSON takes for an escape, and whose rest is no word. */
const swallowed =
  /\\(?:(?:theta|times|tilde|triangle|therefore|tfrac|nabla|notin|nexists|rho|right|rightarrow|rangle|rfloor|rceil)(?![A-Za-z])|text[a-z]*\{)/y
const drive = /(?:^|[^\p{L}\p{N}])[A-Za-z]:\\/u
/** What follows the first letter of a folder in `C:\new`. The letters A and Q are no drives: `A:\nB` and `Q:\nWhat is it?` are lines. */
const folder = new RegExp(`[\\w.-]+(?:$|[\\\\${quoteMarks}])`, 'y')
const share = /\\\\[\w.$-]+\\[^\\]/y
/** A formula has no two letters in succession: brackets around words are more often those of a remark. */
const formula = /^(?=.*[A-Za-z=+^<>])(?!.*[A-Za-z]{2})[^\\]*$/
const longestFormula = 200
const sentenceEnd = /[\p{L}\p{N})\]}"'][.!?]$/u

/** Whether a text that JSON.parse accepts has an escape that swallows a letter of a path, a command or a pattern, such as `\frac`. */
export function swallowsLetters(json: string): boolean {
  for (let at = json.indexOf('\\'); at >= 0; at = json.indexOf('\\', at + 2)) {
    if (isInDoubt(json, at)) return true
  }
  return false
}

/** Whether a text that JSON.parse accepts has no escape that needs a second look: none that swallows a letter or writes half of a pair. */
export function meansWhatItSays(json: string): boolean {
  for (let at = json.indexOf('\\'); at >= 0; at = json.indexOf('\\', at + 2)) {
    if (json.charCodeAt(at + 1) !== doubleQuote && (json[at + 1] === 'u' || isInDoubt(json, at))) return false
  }
  return json.isWellFormed()
}

/** Reads the characters between the quotes of a literal that `quote` opened. */
export function stringText(literal: string, quote: number): StringText {
  const repairs = new Set<RepairName>()
  const isRaw = standsForItself(literal)
  let text = ''
  let plain = 0
  for (let at = literal.indexOf('\\'); at >= 0; at = literal.indexOf('\\', plain)) {
    text += literal.slice(plain, at)
    const read = isRaw ? rawBackslash(literal, at, quote) : escapeAt(literal, at, quote)
    if (!read.exact) repairs.add('escape')
    text += read.text
    plain = at + read.length
  }
  text += literal.slice(plain)
  if (/[\0-\x1f]/.test(literal)) repairs.add('control')
  return { text, repairs: [...repairs] }
}

/** What a backslash and the characters after it stand for, `length` together; `exact` when JSON says so. */
interface Escape {
  readonly text: string
  readonly length: number
  readonly exact: boolean
}

/** Whether the JSON escape at `at` is unlikely to be one. */
function isInDoubt(text: string, at: number): boolean {
  const escaped = text[at + 1]!
  if (letters[escaped] === undefined) return false
  const next = text[at + 2] ?? ''
  if (escaped === 'b') return /[A-Za-z]/.test(next)
  if (escaped === 'f' && /[a-z]/.test(next)) return true
  swallowed.lastIndex = at
  if (swallowed.test(text)) return true
  if (text[at - 1] !== ':' || !/[B-PR-Z]/i.test(text[at - 2] ?? '')) return false
  folder.lastIndex = at + 2
  return folder.test(text) && (at === 2 || isQuote(text.charCodeAt(at - 3)))
}

/** Whether the backslashes of a literal stand for themselves. */
function standsForItself(literal: string): boolean {
  let isInvalid = false
  for (let at = literal.indexOf('\\'); at >= 0; ) {
    const next = String.fromCodePoint(literal.codePointAt(at + 1) ?? 0)
    const number = numberedAt(literal, at)
    if (number) {
      // No text has the control characters U+0080 to U+009F.
      if (/[\x80-\x9f]/.test(number.text)) return true
      isInvalid ||= !number.exact
    } else if (letters[next] === undefined) {
      if (wordCharacter.test(next)) return true
      isInvalid ||= !'"\\/'.includes(next)
    } else if (isInDoubt(literal, at)) return true
    at = literal.indexOf('\\', at + (number?.length ?? 2))
  }
  return isInvalid && drive.test(literal)
}

function escapeAt(literal: string, at: number, quote: number): Escape {
  const number = numberedAt(literal, at)
  if (number) return number
  const next = literal[at + 1]
  if (next === undefined) return { text: '\\', length: 1, exact: false }
  const letter = letters[next]
  if (letter !== undefined) return { text: letter, length: 2, exact: true }
  // The backslash before a quote inside the string was escaped too.
  if (next === '\\' && closes(quote, literal.charCodeAt(at + 2)))
    return { text: literal[at + 2]!, length: 3, exact: false }
  if ('"\\/'.includes(next)) return { text: next, length: 2, exact: true }
  if (closes(quote, next.charCodeAt(0))) return { text: next, length: 2, exact: true }
  // A backslash at the end of a line continues the line.
  if (next === '\n') return { text: '', length: 2, exact: false }
  if (next === '\r') return { text: '', length: literal[at + 2] === '\n' ? 3 : 2, exact: false }
  if (next === ' ' && (at === 0 || literal[at - 1] === ' ')) return { text: '\\', length: 1, exact: false }
  return formulaAt(literal, at) ?? { text: next, length: 2, exact: false }
}

/** A backslash that stands for itself, unless it escapes a quote, a number or a backslash, or a newline after a sentence. */
function rawBackslash(literal: string, at: number, quote: number): Escape {
  const next = literal[at + 1] ?? ''
  const number = numberedAt(literal, at)
  if (number?.exact) return number
  if (next === '"' || next === '/' || closes(quote, next.charCodeAt(0)))
    return { text: next, length: 2, exact: true }
  if (next === '\\') {
    share.lastIndex = at
    const opensShare = (at === 0 || literal[at - 1] === ' ') && share.test(literal)
    return { text: opensShare ? '\\\\' : '\\', length: 2, exact: !opensShare }
  }
  if (next === 'n' && sentenceEnd.test(literal.slice(Math.max(0, at - 3), at)))
    return { text: '\n', length: 2, exact: true }
  return { text: '\\', length: 1, exact: false }
}

function numberedAt(literal: string, at: number): Escape | undefined {
  numbered.lastIndex = at
  const found = numbered.exec(literal)
  if (found === null) return undefined
  const [whole, unit, braced, long, bytes] = found
  const { length } = whole
  if (unit !== undefined) return { text: String.fromCharCode(Number.parseInt(unit, 16)), length, exact: true }
  if (bytes !== undefined) return { text: textOfBytes(bytes), length, exact: false }
  const point = Number.parseInt(braced ?? long ?? '', 16)
  return point <= 0x10ffff ? { text: String.fromCodePoint(point), length, exact: false } : undefined
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** `\xe9` is a character of Latin-1, but Python also writes the bytes of UTF-8 so. */
function textOfBytes(escapes: string): string {
  const bytes = Uint8Array.from(escapes.match(/[0-9a-fA-F]{2}/g) ?? [], (digits) =>
    Number.parseInt(digits, 16),
  )
  try {
    return utf8.decode(bytes)
  } catch {
    return Buffer.from(bytes).toString('latin1')
  }
}

/** A formula of LaTeX between `\(` and `\)` keeps its marks. */
function formulaAt(literal: string, at: number): Escape | undefined {
  const open = literal[at + 1]
  if ((open !== '(' && open !== '[') || wordCharacter.test(literal[at - 1] ?? ' ')) return undefined
  const near = literal.slice(at + 2, at + longestFormula)
  const end = near.indexOf(open === '(' ? '\\)' : '\\]')
  const inside = near.slice(0, end)
  if (end < 0 || !formula.test(inside) || (open === '[' && !/[=^]/.test(inside))) return undefined
  return { text: literal.slice(at, at + end + 4), length: end + 4, exact: false }
}
