// Splits a document part into chunks, each with its offset. The rule is that of the recursive splitter that TrustGraph uses (LangChain
// for Python): pieces end before a paragraph, longer ones before a line, a space, a character; then neighbours are joined while they
// fit. A paragraph of more than eight chunks is first cut at anchors, which TrustGraph does not: behind an edit, its chunks are soon the
// same again. Time is linear in the text and the chunks together, and the text is not copied.
import { setImmediate as turn } from 'node:timers/promises'
import { codePoints } from '../code-points.ts'
import { anchorOf } from './anchors.ts'

export interface SplitOptions {
  /** The most characters (code points) of a chunk. */
  readonly chunkSize: number
  /** The most characters that a chunk shares with the one before; less than `chunkSize`. */
  readonly chunkOverlap: number
}

export interface TextChunk {
  /** Where the chunk begins in the text that was split, in UTF-16 code units. */
  readonly offset: number
  readonly text: string
}

/** How long a text may be split before the event loop gets a turn, in milliseconds. */
const sliceMs = 10

/** The chunks of a text, in order; none for a text of white space. Other work of the process continues meanwhile. */
export async function splitText(text: string, options: SplitOptions): Promise<TextChunk[]> {
  const chunks: TextChunk[] = []
  let begun = performance.now()
  for (const span of spansOf(text, options)) {
    const chunk = stripped(text, span)
    if (chunk) chunks.push(chunk)
    if (performance.now() - begun < sliceMs) continue
    await turn()
    begun = performance.now()
  }
  return chunks
}

/** From where to where, in UTF-16 code units. */
type Span = readonly [from: number, to: number]

/** What a piece begins with, from the longest pieces to the shortest. */
const separators = ['\n\n', '\n', ' ', ''] as const

/** The chunks before white space is stripped. */
function* spansOf(text: string, { chunkSize, chunkOverlap }: SplitOptions): Generator<Span> {
  const pieces = createPieces(text)
  const joined = createJoined(chunkSize, chunkOverlap)
  /** Where the piece ends that is cut at each level: a separator of `separators`. */
  const ends = [text.length]
  for (let at = 0; at < text.length; ) {
    const level = ends.length - 1
    const whole = pieces.end(level, at, ends[level]!)
    const isLong = level === 0 && whole - at > longestRun * chunkSize
    const end = isLong ? runEnd(text, at, chunkSize) : whole
    const length = codePoints(text, at, end)
    const isShort = length < chunkSize
    const before = isShort ? joined.add(at, length) : joined.end(at)
    if (before) yield before
    if (!isShort && level < separators.length - 1) {
      ends.push(end)
      continue
    }
    if (!isShort) yield [at, end]
    at = end
    if (at !== ends[level]) continue
    const last = joined.end(at)
    if (last) yield last
    while (at === ends.at(-1)) ends.pop()
  }
}

/** The most chunks of a paragraph that have no anchor between them. */
const longestRun = 8

/** Where to cut a long paragraph, from the middle of the longest run on: before a line, otherwise a space, otherwise any character. */
function runEnd(text: string, from: number, chunkSize: number): number {
  const least = from + Math.ceil((longestRun * chunkSize) / 2)
  const most = from + longestRun * chunkSize
  return (
    anchorOf(text, found(text, '\n', least, most)) ??
    anchorOf(text, found(text, ' ', least, most)) ??
    anchorOf(text, characters(text, least, most))!
  )
}

function* found(text: string, separator: string, from: number, to: number): Generator<number> {
  for (let at = text.indexOf(separator, from); at >= 0 && at <= to; at = text.indexOf(separator, at + 1))
    yield at
}

function* characters(text: string, from: number, to: number): Generator<number> {
  const isSecondHalf = (at: number) => at > 0 && text.codePointAt(at - 1)! > 0xffff
  for (let at = from; at <= to; at++) if (!isSecondHalf(at)) yield at
}

/** Finds where pieces end. Each place of the text is searched once for each separator. */
function createPieces(text: string) {
  const next = separators.map(() => -1)
  return {
    /** Where the piece ends that begins at `from`: before the next separator, at the latest at `limit`. */
    end(level: number, from: number, limit: number): number {
      const separator = separators[level]!
      if (separator === '') return from + (text.codePointAt(from)! > 0xffff ? 2 : 1)
      const start = from + (text.startsWith(separator, from) ? separator.length : 1)
      if (next[level]! < start) {
        const found = text.indexOf(separator, start)
        next[level] = found < 0 ? text.length : found
      }
      return Math.min(next[level]!, limit)
    },
  }
}

/** Joins pieces that follow each other. The last pieces of a chunk begin the next one, as far as the overlap allows. */
function createJoined(chunkSize: number, chunkOverlap: number) {
  let starts: number[] = []
  let lengths: number[] = []
  let total = 0
  return {
    /** Adds a piece of so many characters. Returns the chunk that ends before it if it does not fit. */
    add(from: number, length: number): Span | undefined {
      let full: Span | undefined
      if (total + length > chunkSize && starts.length > 0) {
        full = [starts[0]!, from]
        let left = 0
        while (total > chunkOverlap || (total + length > chunkSize && total > 0)) total -= lengths[left++]!
        starts = starts.slice(left)
        lengths = lengths.slice(left)
      }
      starts.push(from)
      lengths.push(length)
      total += length
      return full
    },
    /** Returns the chunk of the pieces since the last one, if there are any. The next chunk shares nothing with it. */
    end(to: number): Span | undefined {
      const last: Span | undefined = starts.length > 0 ? [starts[0]!, to] : undefined
      starts = []
      lengths = []
      total = 0
      return last
    },
  }
}

/** The white space of Python's `str.strip`. */
const space = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/

function stripped(text: string, [from, to]: Span): TextChunk | undefined {
  let [start, end] = [from, to]
  while (start < end && space.test(text[start]!)) start++
  while (end > start && space.test(text[end - 1]!)) end--
  return start < end ? { offset: start, text: text.slice(start, end) } : undefined
}
