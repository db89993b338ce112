// Hides the secrets of the process, in the forms in which a server may echo them. Secrets are registered where they are read
// (config/secret.ts). All text that leaves the process (errors, logs, standard error, HTTP pages) goes through `redact`.
//
// The rule:
// - A secret of 8 characters or more is found anywhere and in any case: as it is, in hex and in base64 (both alphabets, also as a part
//   of the encoded text), under up to three layers of percent, JSON or HTML escapes. A piece of 12 characters is enough. Code that
//   cuts a text uses `redactCut`, which sees what follows.
// - A secret of 4 to 7 characters is found only as a separate word, and only if it is not all letters or all digits.
// - Anything else is an ordinary word or number, which text must be able to contain.

const redactedText = '[secret]'

/** A piece of a secret of this length is found; a shorter secret only as a whole. */
const leastPiece = 12
const leastAnywhere = 8
const leastWord = 4
/** Values that are remembered for each place where a secret is given: a file may hold another one every hour. */
const mostValues = 100
/** How deep escapes may be nested. */
const layers = 3

interface SecretForm {
  /** In lower case. */
  readonly text: string
  /** Characters of a piece. */
  readonly least: number
  readonly isBase64: boolean
}

interface FormSpot {
  readonly form: SecretForm
  readonly at: number
}

/** Where four characters of a form are in the form. */
const spots = new Map<number, FormSpot[]>()
/** A filter for `spots`: it alone distinguishes most texts from secrets. */
const sieve = new Uint8Array(1 << 16)
/** Pieces of the longer secrets, for messages that quote only a little text. */
const smallPieces = new Set<string>()
/** Short secrets, as words; undefined when there is none. */
let words: RegExp | undefined
/** The known values by the place where they were given, the oldest first. */
const values = new Map<string, Map<string, boolean>>()

/** Makes `redact` hide a text from now on. `isWhole`: its pieces are no secret, as with `user:password`. */
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

/** Whether it is found only as a separate word. */
const isWord = (secret: string) =>
  secret.length < leastAnywhere && secret.length >= leastWord && !/^(?:\p{L}+|\p{N}+)$/u.test(secret)

function formsOf(secret: string, isWhole: boolean): SecretForm[] {
  if (secret.length < leastAnywhere && !isWord(secret)) return []
  const bytes = Buffer.from(secret)
  const all = [0, 1, 2].map((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // Only what depends on the secret alone.
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
  const base64 = new Set(all.flatMap((text) => [text, text.replaceAll('+', '-').replaceAll('/', '_')]))
  const form = (text: string, perCharacter: number, isBase64 = false): SecretForm => ({
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

/** The text without secrets. Takes linear time: about ten to a hundred nanoseconds a character, the most when all of it is escapes. */
export function redact(text: string): string {
  if (spots.size === 0 && !words) return text
  return redactForms(text.includes(notJson) ? withoutExcerpts(text) : text)
}

/** Characters after a cut that show whether it divides a secret: a piece of one, with three layers of escapes. */
export const beyondCut = 256

/**
 * The beginning of a text without secrets, at most `most` characters. A secret that the cut divides is hidden, however little of it is
 * before the cut.
 */
export function redactCut(text: string, most: number): string {
  if (spots.size === 0 && !words) return text.slice(0, most)
  return redactForms(text.slice(0, most + beyondCut), most).slice(0, most)
}

/** Only up to `until`. */
function redactForms(text: string, until = text.length): string {
  const found = rangesIn(text)
  /** The text and its forms with one, two and three layers of escapes removed. */
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

/** JSON.parse quotes ten characters on each side of a fault: in such messages half the length of a piece is enough. */
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

/** Where a form, or a long enough piece of it, is in a text. */
function rangesIn(text: string): Range[] {
  const ranges: Range[] = []
  const lower = folded(text)
  // Any eight characters contain four that begin at a multiple of five.
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

/** The range of a form that may begin at `at`, as far as the text matches it. */
function around(lower: string, at: number, { form, at: within }: FormSpot): Range | undefined {
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
    // The base64 characters that the secret shares with its neighbours.
    for (let edge = 0; edge < 2 && start > 0 && inBase64.test(lower[start - 1]!); edge++) start--
    for (let edge = 0; edge < 4 && end < lower.length && inBase64.test(lower[end]!); edge++) end++
  }
  return [start, end]
}

const inWord = /[\p{L}\p{N}]/u
const inBase64 = /[a-z0-9+/_=-]/

/** Backslashes are read in runs, since texts may be full of them. */
const escapes =
  /(?:%[\da-f]{2})+|(?:\\\\)+|\\(?:u[\da-f]{4}|x[\da-f]{2}|["'/bfnrt])|&(?:#\d{1,6}|#x[\da-f]{1,5}|amp|lt|gt|quot|apos);/gi

/** The text with one layer of escapes removed. */
function unescaped(text: string): string {
  const isPlain = !text.includes('\\') && !text.includes('%') && !text.includes('&')
  return isPlain ? text : text.replace(escapes, meaningOf)
}

/** The ranges of `unescaped(text)` as ranges of `text`; an escape is included as a whole. */
function writtenIn(text: string, ranges: readonly Range[]): Range[] {
  /** Where each escape is, in the result and in `text`. */
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

/** The escape of a JSON text that contains the position `at`. It must not be divided, or the rest would not be JSON. */
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

/** In lower case, with the same length: the only letter whose small form is longer becomes a plain one. */
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

/** The value without secrets: texts, also in lists and plain objects some levels deep, and errors with their causes. Others are unchanged. */
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

/** The same error if it shows no secret, otherwise one with the same name and code that shows none. */
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
