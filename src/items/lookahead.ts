// Recognizes what is between records by looking a bounded way ahead: openers of records, arrays and encoded objects. Every answer may also be
// "wait": the text so far is not enough.
import { backtick, isQuote, isSpace, quoteMarks, structural } from './characters.ts'

/** `wait`: more text is needed. */
export type Ahead = 'yes' | 'no' | 'wait'

/** How far to look ahead; beyond it the likelier answer is given. */
export const lookAhead = 1024

/** A key of letters, also as a Ruby symbol or with only its last quote; then a colon, `=>`, or `=` before a quote or a bracket. */
const bareKey = new RegExp(
  `^:?[\\p{L}_$][\\p{L}\\p{M}\\p{N}_$.-]*(?:\\\\_[\\p{L}\\p{N}]+)*["']?\\s*(?:[:\uff1a]|=>|=\\s*[${quoteMarks}[{])`,
  'u',
)
const bareKeyBegins =
  /^:?(?:[\p{L}_$][\p{L}\p{M}\p{N}_$.-]*(?:\\_[\p{L}\p{N}]+)*(?:\\_?)?["']?\s*(?:=\s*)?)?$/u
/** A key in backticks; a string of Python with its prefix; a key of Lua. */
const otherKey = /^(?:`[^`\n]{1,128}`\s*[:\uff1a=]|[urbf]{1,2}["']|\[\s*["'][^"'\n]{1,128}["']\s*\]\s*=)/i
const otherKeyBegins =
  /^(?:`[^`\n]{0,128}(?:`\s*)?|[urbf]{1,2}|\[\s*(?:["'][^"'\n]{0,128}(?:["']\s*(?:\]\s*)?)?)?)$/i
const longestKey = 128

/**
 * Whether a `{`, followed by `after`, opens a record: a quote, a key of letters with a colon, `}` or a comment must come next.
 * `complete`: no more text will follow.
 */
export function opensRecord(after: string, complete: boolean): Ahead {
  const undecided: Ahead = complete || after.length >= lookAhead ? 'yes' : 'wait'
  // Half of a surrogate pair says nothing yet.
  const whole = undecided === 'wait' ? after.replace(/[\ud800-\udbff]$/, '') : after
  // A newline may be written as an escape.
  const space = /^(?:\s|\\[nrt](?=\s|\\|["']|$))*/.exec(whole)?.[0].length ?? 0
  const rest = whole.slice(space)
  if (rest === '' || rest === '\\') return undecided
  const code = structural(rest.charCodeAt(0))
  if ((isQuote(code) && code !== backtick) || code === 0x7d) return 'yes'
  if (code === 0x2f) {
    if (rest.length === 1) return undecided
    return rest[1] === '/' || rest[1] === '*' ? 'yes' : 'no'
  }
  const key = (bareKey.exec(rest) ?? otherKey.exec(rest))?.[0]
  if (key !== undefined) return key.trimEnd().length <= longestKey + 2 ? 'yes' : 'no'
  if (!bareKeyBegins.test(rest) && !otherKeyBegins.test(rest)) return 'no'
  return rest.trimEnd().length > longestKey + 2 ? 'no' : undecided
}

/** The rest of a line that began as a record: a word after the brace, and no other brace except one at the end of the line. */
const brokenRecord = /^[^\S\n]*[\p{L}_$][^{}\n]*(?:\}[\s,;\]]*)?$/u
const brokenSoFar = /^[^\S\n]*(?:[\p{L}_$][^{}\n]*(?:\}[\s,;\]]*)?)?$/u

/**
 * Whether a `{` that opens no record and has no prose before it on its line, followed by `after`, begins a broken record and not prose.
 * `inArray`: an element ends with the next brace, and another may follow on the line.
 */
export function opensBrokenRecord(after: string, complete: boolean, inArray: boolean): Ahead {
  const end = after.search(inArray ? /[{}\n]/ : /\n/)
  const line = end < 0 ? after : after.slice(0, end)
  if (!brokenSoFar.test(line)) return 'no'
  if (end < 0 && !complete && after.length < lookAhead) return 'wait'
  return brokenRecord.test(line) ? 'yes' : 'no'
}

/** Whether a `[` outside any record, followed by `after`, opens a JSON array and not a remark in prose. */
export function opensArray(after: string, complete: boolean): Ahead {
  for (let index = 0; index < after.length; index++) {
    const code = after.charCodeAt(index)
    if (isSpace(code)) continue
    const opener = structural(code)
    const isOpener = opener === 0x7b || opener === 0x5b || opener === 0x5d
    return isOpener || (isQuote(code) && code !== backtick) ? 'yes' : 'no'
  }
  return complete || after.length >= lookAhead ? 'yes' : 'wait'
}

/** Whether a `"`, followed by `after`, opens an object, or a list of objects, that was encoded as a JSON string: `"{\"`, `"[{\"`. */
export function opensEncoded(after: string, complete: boolean): Ahead {
  let bracket = false
  let brace = false
  for (let index = 0; index < after.length; index++) {
    const code = after.charCodeAt(index)
    if (code === 0x0a) return 'no'
    if (isSpace(code)) continue
    if (code === 0x5c) {
      const escaped = after[index + 1]
      if (escaped === undefined) break
      if (escaped === '"') return brace ? 'yes' : 'no'
      if (!'nrt'.includes(escaped)) return 'no'
      index++
    } else if (code === 0x5b && !brace && !bracket) bracket = true
    else if (brace || code !== 0x7b) return 'no'
    else brace = true
  }
  return complete || after.length >= lookAhead ? 'no' : 'wait'
}

const escapedQuote = /^(?:\\"|&(?:quot|#34|#x22);)/i
const escapedQuoteBegins = /^(?:\\?|&(?:q(?:u(?:ot?)?)?|#(?:34?|x(?:22?)?)?)?)$/i

/** Whether a `{`, followed by `after`, opens an object whose text was escaped once: `{\"`, or for HTML `{&quot;`. */
export function opensEscaped(after: string, complete: boolean): Ahead {
  const [blank = ''] = /^(?:\s|\\[nrt])*/.exec(after) ?? []
  const next = after.slice(blank.length, blank.length + 6)
  if (escapedQuote.test(next)) return 'yes'
  return escapedQuoteBegins.test(next) && !complete && after.length < lookAhead ? 'wait' : 'no'
}

/**
 * Whether a `"`, followed by `after`, begins a string that ends on its line as a value does: before a comma or the end of the line.
 * A long string does, since a record would have had a quote by then.
 */
export function opensString(after: string, complete: boolean): Ahead {
  const undecided: Ahead = after.length >= lookAhead ? 'yes' : complete ? 'no' : 'wait'
  const end = /^(?:[^"\\\n]|\\.)*/.exec(after)?.[0].length ?? 0
  const rest = after.slice(end)
  if (rest === '' || rest === '\\') return undecided
  if (!rest.startsWith('"')) return 'no'
  const next = /^"[^\S\n]*(\S|\n)/.exec(rest)?.[1]
  if (next === undefined) return complete ? 'yes' : undecided
  return next === '\n' || next === ',' ? 'yes' : 'no'
}

/** Whether a comment that a slash and `after` open is closed. */
export function closesComment(after: string, complete: boolean): Ahead {
  if (after.includes('*/', 1)) return 'yes'
  return complete || after.length >= lookAhead ? 'no' : 'wait'
}

/** Whether the object that `{` opens begins with the array under the key of `root`. */
export function opensRoot(root: string, after: string, complete: boolean): Ahead {
  const match = /^\s*"((?:[^"\\]|\\.)*)"\s*:\s*\[/.exec(after)
  if (match) return match[1] === root.slice(1) ? 'yes' : 'no'
  const possible = /^\s*(?:$|"(?:[^"\\]|\\.)*(?:\\?$|"\s*(?:$|:\s*$)))/.test(after)
  return possible && !complete && after.length < lookAhead ? 'wait' : 'no'
}
