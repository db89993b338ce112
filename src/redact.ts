// Hides the secrets of the process, in the forms in which a server may echo them. Secrets are registered where they are read
// (config/secret.ts). All text that leaves the process (errors, logs, standard error, HTTP pages) goes through `redact`.
//
// The rule:
// - A secret of 8 characters or more is found anywhere and in any case: as it is, in hex and in base64 (both alphabets, also as a part
//   of the encoded text), under up to three layers of percent, JSON or HTML escapes. A piece of 12 characters is enough. Code that
//   cuts a text uses `redactCut`, which sees what follows.
// - A secret of 4 to 7 characters is found only as a separate word, and only if it is not all letters or all digits.
// - Anything else is an ordinary word or number, which text must be able to contain.

export const redactedText = '[secret]'

/** Pieces of a secret of at least so many characters are found, or the whole of a shorter one. */
const leastPiece = 12
const leastAnywhere = 8
const leastWord = 4
/** Of every place where a secret is given so many values are known: a file may hold another one every hour. */
const mostValues = 100
/** Escapes within escapes. */
const layers = 3

interface Form {
  /** In lower case. */
  readonly text: string
  /** Characters of a piece. */
  readonly least: number
  readonly isBase64: boolean
}

interface Spot {
  readonly form: Form
  readonly at: number
}

/** Four characters of a form lead to where they stand in it. */
const spots = new Map<number, Spot[]>()
/** What may be in `spots`: most texts are told apart from secrets by this alone. */
const sieve = new Uint8Array(1 << 16)
/** Of the longer secrets, for what quotes little of them. */
const smallPieces = new Set<string>()
/** Short secrets, as words; undefined when there is none. */
let words: RegExp | undefined
/** The known values by the place where they were given, the oldest first. */
const values = new Map<string, Map<string, boolean>>()

/** A text that `redact` hides from now on; `isWhole`: its pieces are no secret, as those of `user:password`. */
export function keepSecret(text: string, place: string, isWhole = false): void {
  const known = values.get(place) ?? new Map<string, boolean>()
  if (known.has(text) || text === '') return
  values.set(place, known.set(text, isWhole))
  if (known.size <= mostValues) {
    add(text, isWhole)
    return
  }
  known.delete(known.keys().next().value!)
  spots.clear()
  sieve.fill(0)
  smallPieces.clear()
  words = undefined
  for (const each of values.values()) for (const [value, whole] of each) add(value, whole)
}

function add(secret: string, isWhole: boolean): void {
  for (const form of formsOf(secret, isWhole))
    for (let at = 0; at + 4 <= form.text.length; at++) {
      const key = keyAt(form.text, at)
      const spot = { form, at }
      spots.get(key)?.push(spot) ?? spots.set(key, [spot])
      sieve[sieveOf(key)] = 1
    }
  const text = folded(secret)
  if (text.length >= leastAnywhere)
    for (let at = 0; at + leastInExcerpt <= text.length; at++)
      smallPieces.add(text.slice(at, at + leastInExcerpt))
  if (!isWord(secret)) return
  const word = secret.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
  words = new RegExp(words ? `${words.source}|${word}` : word, 'giu')
}

/** Whether it is found as a word of its own only. */
const isWord = (secret: string) =>
  secret.length < leastAnywhere && secret.length >= leastWord && !/^(?:\p{L}+|\p{N}+)$/u.test(secret)

function formsOf(secret: string, isWhole: boolean): Form[] {
  if (secret.length < leastAnywhere && !isWord(secret)) return []
  const bytes = Buffer.from(secret)
  const all = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // What depends on the secret alone.
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
  const base64 = new Set(all.flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')]))
  const form = (text: string, perCharacter: number, isBase64 = false): Form => ({
    text: folded(text),
    least: isWhole ? text.length : Math.min(text.length, Math.ceil(leastPiece * perCharacter)),
    isBase64,
  })
  const forms = [
    form(secret, 1),
    form(bytes.toString('hex'), 2),
    ...[...base64].map((text) => form(text, 4 / 3, true)),
  ]
  return forms.filter(({ text }) => text.length >= leastAnywhere)
}

/** `text` without secrets. Linear in its length: some ten to a hundred nanoseconds a character, most where all of it is escapes. */
export function redact(text: string): string {
  if (spots.size === 0 && !words) return text
  return redactForms(text.includes(notJson) ? withoutExcerpts(text) : text)
}

/** Characters behind a cut that tell whether it divides a secret: a piece of one, with three layers of escapes. */
export const beyondCut = 256

/**
 * The beginning of a text without secrets, at most `most` characters: a secret that the cut divides is hidden, however little of
 * it stands before the cut.
 */
export function redactCut(text: string, most: number): string {
  if (spots.size === 0 && !words) return text.slice(0, most)
  return redactForms(text.slice(0, most + beyondCut), most).slice(0, most)
}

/** As far as `until`. */
function redactForms(text: string, until = text.length): string {
  const found = rangesIn(text)
  /** Each with a layer of escapes fewer. */
  const read = [text]
  while (read.length <= layers) {
    const next = unescaped(read.at(-1)!)
    if (next === read.at(-1)) break
    let ranges = rangesIn(next)
    for (const above of read.toReversed()) ranges = ranges.length === 0 ? ranges : writtenIn(above, ranges)
    for (const range of ranges) found.push(range)
    read.push(next)
  }
  return without(text, found, until)
}

const notJson = ' is not valid JSON'
const excerpt = /(?:\.{3})?\\?"(.{1,60}?)\\?"(?:\.{3})?$/s
const longestExcerpt = 70

/** JSON.parse quotes ten characters on each side of what is wrong: there half as long a piece is enough. */
function withoutExcerpts(text: string): string {
  let clean = ''
  let last = 0
  for (let at = text.indexOf(notJson); at >= 0; at = text.indexOf(notJson, at + 1)) {
    const before = text.slice(Math.max(last, at - longestExcerpt), at)
    const [whole = '', quoted = ''] = excerpt.exec(before) ?? []
    if (!isPieceIn(folded(quoted))) continue
    clean += `${text.slice(last, at - whole.length)}what was read`
    last = at
  }
  return clean + text.slice(last)
}

const leastInExcerpt = 6

function isPieceIn(quoted: string): boolean {
  for (let at = 0; at + leastInExcerpt <= quoted.length; at++)
    if (smallPieces.has(quoted.slice(at, at + leastInExcerpt))) return true
  return false
}

type Range = readonly [start: number, end: number]

function without(text: string, ranges: readonly Range[], until: number): string {
  if (ranges.length === 0) return text.slice(0, until)
  const whole = ranges
    .map(
      ([start, end]): Range => [escapeAround(text, start)?.[0] ?? start, escapeAround(text, end)?.[1] ?? end],
    )
    .sort(([a], [b]) => a - b)
  let kept = ''
  let last = 0
  for (const [start, end] of whole) {
    if (start >= until) break
    if (start > last || last === 0) kept += text.slice(last, start) + redactedText
    last = Math.max(last, end)
  }
  return kept + text.slice(last, until)
}

/** Where a form, or enough of it, stands. */
function rangesIn(text: string): Range[] {
  const ranges: Range[] = []
  const lower = folded(text)
  // Any eight characters hold four that begin at a multiple of five.
  for (let at = 0; at + 4 <= lower.length; at += 5) {
    const key = keyAt(lower, at)
    if (sieve[sieveOf(key)] === 0) continue
    let found: Range | undefined
    for (const spot of spots.get(key) ?? []) {
      const range = around(lower, at, spot)
      if (range && (!found || range[1] - range[0] > found[1] - found[0])) found = range
    }
    if (!found) continue
    ranges.push(found)
    at = Math.max(at, found[1] - 5)
  }
  if (words)
    for (const { 0: word, index } of text.matchAll(words))
      if (!inWord.test(text[index - 1] ?? '') && !inWord.test(text[index + word.length] ?? ''))
        ranges.push([index, index + word.length])
  return ranges
}

/** As much as is there of the form whose place `at` may be. */
function around(lower: string, at: number, { form, at: within }: Spot): Range | undefined {
  const { text, least, isBase64 } = form
  let [start, from] = [at, within]
  while (start > 0 && from > 0 && lower.charCodeAt(start - 1) === text.charCodeAt(from - 1)) {
    start--
    from--
  }
  let [end, to] = [at, within]
  while (end < lower.length && to < text.length && lower.charCodeAt(end) === text.charCodeAt(to)) {
    end++
    to++
  }
  if (to - from < least) return undefined
  if (isBase64) {
    // The characters that the secret shares with what stands beside it.
    for (let edge = 0; edge < 2 && start > 0 && inBase64.test(lower[start - 1]!); edge++) start--
    for (let edge = 0; edge < 4 && end < lower.length && inBase64.test(lower[end]!); edge++) end++
  }
  return [start, end]
}

const inWord = /[\p{L}\p{N}]/u
const inBase64 = /[a-z0-9+/_=-]/

/** Backslashes are read as a run, since texts may be full of them. */
const escapes =
  /(?:%[\da-f]{2})+|(?:\\\\)+|\\(?:u[\da-f]{4}|x[\da-f]{2}|["'/bfnrt])|&(?:#\d{1,6}|#x[\da-f]{1,5}|amp|lt|gt|quot|apos);/gi

/** With one layer of escapes fewer. */
function unescaped(text: string): string {
  const isPlain = !text.includes('\\') && !text.includes('%') && !text.includes('&')
  return isPlain ? text : text.replace(escapes, meaningOf)
}

/** Where ranges of `unescaped(text)` stand in `text`; an escape stands there as a whole. */
function writtenIn(text: string, ranges: readonly Range[]): Range[] {
  /** Where each escape stands in what was read and in `text`. */
  const places: {
    readonly at: number
    readonly until: number
    readonly from: number
    readonly to: number
  }[] = []
  let until = 0
  let to = 0
  for (const { 0: written, index: from } of text.matchAll(escapes)) {
    const at = until + from - to
    until = at + meaningOf(written).length
    to = from + written.length
    places.push({ at, until, from, to })
  }
  const placeOf = (position: number): Range => {
    let [low, high] = [0, places.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (places[middle]!.at <= position) low = middle + 1
      else high = middle
    }
    const place = places[low - 1]
    if (!place) return [position, position + 1]
    if (position < place.until) return [place.from, place.to]
    const start = position - place.until + place.to
    return [start, start + 1]
  }
  return ranges.map(([start, end]) => [placeOf(start)[0], placeOf(end - 1)[1]])
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function meaningOf(written: string): string {
  if (written[0] === '%') return Buffer.from(written.replaceAll('%', ''), 'hex').toString()
  const name = written.slice(1)
  if (written[0] === '&') {
    const [, hex, decimal] = /^#(?:x([\da-f]+)|(\d+));$/i.exec(name) ?? []
    const code = hex ? Number.parseInt(hex, 16) : Number(decimal)
    return named[name.slice(0, -1).toLowerCase()] ?? (code <= 0x10ffff ? String.fromCodePoint(code) : ' ')
  }
  if (name[0] === '\\') return '\\'.repeat(written.length / 2)
  if (name.length > 1) return String.fromCharCode(Number.parseInt(name.slice(1), 16))
  return 'bfnrt'.includes(name) ? ' ' : name
}

/** The escape of a JSON text that goes across `at`: it must not be divided, or what is left would be no JSON. */
function escapeAround(text: string, at: number): Range | undefined {
  const first = Math.max(0, at - 5)
  const slash = first + text.slice(first, at).lastIndexOf('\\')
  if (slash < first) return undefined
  let run = slash
  while (text[run - 1] === '\\') run--
  if ((slash - run) % 2 === 1) return undefined
  const end = slash + (text[slash + 1] === 'u' ? 6 : 2)
  return end > at ? [slash, Math.min(end, text.length)] : undefined
}

/** In lower case, character for character: the one letter whose small form is longer becomes a plain one. */
function folded(text: string): string {
  const lower = text.toLowerCase()
  return lower.length === text.length ? lower : text.replaceAll('\u0130', 'I').toLowerCase()
}

function keyAt(text: string, at: number): number {
  return (
    (text.charCodeAt(at) & 0xff) |
    ((text.charCodeAt(at + 1) & 0xff) << 8) |
    ((text.charCodeAt(at + 2) & 0xff) << 16) |
    ((text.charCodeAt(at + 3) & 0xff) << 24)
  )
}

const sieveOf = (key: number) => (Math.imul(key, 0x9e3779b1) >>> 16) & 0xffff

/** Texts in lists and plain objects, too, some levels deep; errors with their causes; all else, and what shows none, as it is. */
export function redactAll<T>(value: T, depth = 6): T {
  return spots.size === 0 && !words ? value : (redactUnknown(value, depth) as T)
}

function redactUnknown(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return redact(value)
  if (typeof value !== 'object' || value === null || depth === 0) return value
  if (value instanceof Error) return redactError(value, depth)
  const isList = Array.isArray(value)
  if (!isList && Object.getPrototypeOf(value) !== Object.prototype) return value
  const entries = Object.entries(value)
  const clean = entries.map(([key, each]) => [redact(key), redactUnknown(each, depth - 1)] as const)
  if (clean.every(([key, each], at) => key === entries[at]![0] && each === entries[at]![1])) return value
  return isList ? clean.map(([, each]) => each) : Object.fromEntries(clean)
}

/** The same error when it shows no secret, else one with the same name and code that shows none. */
export function redactError(error: Error, depth = 6): Error {
  const message = redact(error.message)
  const stack = redact(error.stack ?? '')
  const cause = redactUnknown(error.cause, depth - 1)
  if (message === error.message && stack === (error.stack ?? '') && cause === error.cause) return error
  const { name } = error
  const { code } = error as { readonly code?: unknown }
  const clean = new Error(message, cause === undefined ? undefined : { cause })
  return Object.assign(clean, {
    name,
    stack,
    ...(code !== undefined && { code: redactUnknown(code, depth - 1) }),
  })
}
