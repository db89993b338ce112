// The bytes of a source in pieces, without the byte order mark that a lenient reader accepts.
import type { ByteSource, FormatEvent, FormatRules } from './format.ts'

const mark = [0xef, 0xbb, 0xbf] as const

/** Parses bytes: each call returns the events that are certain by then. */
export interface FormatParser {
  push(chunk: Uint8Array): Iterable<FormatEvent>
  end(): Iterable<FormatEvent>
}

/** The events of `parser` over `source`, each as soon as it is certain. */
export async function* readBytes(
  source: ByteSource,
  parser: FormatParser,
  { strict }: FormatRules,
): AsyncGenerator<FormatEvent, void> {
  let opening: Uint8Array | undefined = new Uint8Array(0)
  for await (const chunk of source instanceof Uint8Array ? [source] : source) {
    if (opening === undefined || strict) {
      yield* parser.push(chunk)
      continue
    }
    const bytes: Uint8Array = joined(opening, chunk)
    opening = bytes.length < mark.length && mayBeMark(bytes) ? bytes.slice() : undefined
    if (opening) continue
    const marked = bytes.length >= mark.length && mayBeMark(bytes)
    if (marked)
      yield { type: 'ignored', line: 1, lines: 0, text: '', message: 'A byte order mark was dropped.' }
    yield* parser.push(marked ? bytes.subarray(mark.length) : bytes)
  }
  if (opening && opening.length > 0) yield* parser.push(opening)
  yield* parser.end()
}

function mayBeMark(bytes: Uint8Array): boolean {
  return mark.every((byte, index) => index >= bytes.length || bytes[index] === byte)
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  if (one.length === 0) return other
  const both = new Uint8Array(one.length + other.length)
  both.set(one)
  both.set(other, one.length)
  return both
}
