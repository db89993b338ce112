// Finds the JSON in a model's free text: every balanced object or array that is not inside another, with any text
// around it. Strings are read as strings, so a brace in one is only text. Time is linear in the text.

/** The texts of the outermost JSON objects and arrays. A block that is broken or cut off is left out, with all it holds. */
export function jsonBlocks(text: string): readonly string[] {
  const blocks: string[] = []
  // How many characters of broken blocks may be read twice.
  let budget = 8 * text.length
  let start = nextOpening(text, 0)
  while (start >= 0) {
    const read = readBlock(text, start)
    if (read.type === 'cut') break
    let next = read.at
    if (read.type === 'whole') blocks.push(text.slice(start, read.at))
    else if (budget > 0) {
      // An opening that is never closed was only a character of the prose.
      const end = closing(text, read)
      next = end ?? start + 1
      budget -= (end ?? text.length) - start
    }
    start = nextOpening(text, next)
  }
  return blocks
}

type BlockRead =
  | { readonly type: 'whole'; readonly at: number }
  /** Not JSON from `at` on; there, `depth` objects and arrays were open. */
  | { readonly type: 'broken'; readonly at: number; readonly depth: number }
  | { readonly type: 'cut' }

type Expected = 'value' | 'value or end' | 'key' | 'key or end' | 'colon' | 'comma or end'

/** Reads one object or array from its opening character on. */
function readBlock(text: string, start: number): BlockRead {
  const open: string[] = []
  let expected: Expected = 'value'
  let at = start
  for (;;) {
    at = skipSpace(text, at)
    const character = text[at]
    if (character === undefined) return { type: 'cut' }
    if (expected.endsWith(' or end') && character === (open.at(-1) === '{' ? '}' : ']')) {
      open.pop()
      at += 1
      if (open.length === 0) return { type: 'whole', at }
      expected = 'comma or end'
    } else if (expected.startsWith('value') && (character === '{' || character === '[')) {
      open.push(character)
      at += 1
      expected = character === '{' ? 'key or end' : 'value or end'
    } else {
      const end = tokenEnd(text, at, expected)
      if (end === 'cut') return { type: 'cut' }
      if (end === undefined) return { type: 'broken', at, depth: open.length }
      at = end
      expected = followerOf(expected, open.at(-1) === '{')
    }
  }
}

/** The place after the expected token at `at`; undefined when it is another. */
function tokenEnd(text: string, at: number, expected: Expected): number | 'cut' | undefined {
  const character = text[at]
  if (expected === 'colon') return character === ':' ? at + 1 : undefined
  if (expected === 'comma or end') return character === ',' ? at + 1 : undefined
  if (character === '"') return stringEnd(text, at)
  return expected.startsWith('value') ? scalarEnd(text, at) : undefined
}

/** What is expected after a token. */
function followerOf(expected: Expected, inObject: boolean): Expected {
  if (expected === 'colon') return 'value'
  if (expected === 'comma or end') return inObject ? 'key' : 'value'
  return expected.startsWith('value') ? 'comma or end' : 'colon'
}

/** Where a broken block ends, by its braces and brackets outside strings; undefined when it never does. */
function closing(text: string, broken: { readonly at: number; readonly depth: number }): number | undefined {
  let depth = broken.depth
  for (let at = broken.at; at < text.length; at++) {
    const character = text[at]
    if (character === '"') {
      const end = looseStringEnd(text, at)
      if (end === undefined) return undefined
      at = end - 1
    } else if (character === '{' || character === '[') depth += 1
    else if (character === '}' || character === ']') depth -= 1
    if (depth === 0) return at + 1
  }
  return undefined
}

function nextOpening(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '{' || text[at] === '[') return at
  return -1
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1
  return at
}

/** The place after the closing quote; undefined when a raw control character or a bad escape comes first. */
function stringEnd(text: string, quote: number): number | 'cut' | undefined {
  for (let at = quote + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) return at + 1
    if (code < 0x20) return undefined
    if (code !== 0x5c) continue
    at += 1
    if (at >= text.length) return 'cut'
    if (!'"\\/bfnrtu'.includes(text[at]!)) return undefined
  }
  return 'cut'
}

/** The place after the closing quote of a string that may hold anything except a line end. */
function looseStringEnd(text: string, quote: number): number | undefined {
  for (let at = quote + 1; at < text.length; at++) {
    if (text[at] === '"') return at + 1
    if (text[at] === '\\') at += 1
    // Prose has its own quotes; a quotation in it ends with the line at the latest.
    if (text[at] === '\n') return at
  }
  return undefined
}

const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y

/** A scalar at the end of the text may continue, so it is cut. */
function scalarEnd(text: string, start: number): number | 'cut' | undefined {
  scalar.lastIndex = start
  if (scalar.test(text)) return scalar.lastIndex >= text.length ? 'cut' : scalar.lastIndex
  const rest = text.slice(start, start + 5)
  const isBegun = ['true', 'false', 'null', '-'].some((word) => word.startsWith(rest))
  return start + rest.length >= text.length && isBegun ? 'cut' : undefined
}
