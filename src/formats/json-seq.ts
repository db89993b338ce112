// JSON text sequences (RFC 7464): RS before each text, LF after it. A truncated text does not affect others, since no text can hold an RS.
// An element is certain only when the next one begins or the input ends, so it is given then.
import { type ByteSource, type FormatEvent, type FormatOptions, type FormatRules, rulesOf } from './format.ts'
import { isBlank } from './json-lines.ts'
import { raising } from './raise.ts'
import { type FormatParser, readBytes } from './source.ts'
import { createSplitter, lineFeed, recordSeparator, type Segment } from './split.ts'
import { isWhiteSpace, staysOpen } from './text-scan.ts'
import { decode, readValue, shown } from './value.ts'

/** The records of a JSON text sequence. A text that cannot be read is rejected and skipped, as the RFC recommends. */
export function readJsonSeq(
  source: ByteSource,
  options: FormatOptions = {},
): AsyncGenerator<FormatEvent, void> {
  const rules = rulesOf(options)
  return raising(readBytes(source, sequenceParser(rules), rules), options)
}

function sequenceParser(rules: FormatRules): FormatParser {
  const splitter = createSplitter(recordSeparator, rules.maxRecord)
  let begun = false

  function* read(segment: Segment): Generator<FormatEvent> {
    const preamble = !begun
    begun = true
    if (segment.bytes.length === 0) return
    if (preamble) {
      if (!isBlank(segment)) yield ignored(segment, 'The text stands before the first record separator.')
    } else if (isBlank(segment)) yield ignored(segment, 'The element is empty.')
    else yield element(segment, rules)
  }

  return {
    *push(chunk) {
      for (const segment of splitter.push(chunk)) yield* read(segment)
    },
    *end() {
      const last = splitter.end()
      if (last) yield* read(last)
    },
  }
}

function ignored({ bytes, line }: Segment, message: string): FormatEvent {
  const { text } = decode(bytes)
  const lines = text.split('\n').filter((each) => each.trim() !== '').length
  return { ...shown(line, text, message), type: 'ignored', lines }
}

function element(segment: Segment, rules: FormatRules): FormatEvent {
  const last = segment.bytes.at(-1)!
  const event = readValue(segment, rules)
  if (event.type === 'record') {
    // 12 may have been 123: only white space behind a number or a word shows that it is whole.
    if (isBare(segment.bytes) && !isWhiteSpace(last)) return cutOff(segment)
    return { ...event, unterminated: last !== lineFeed }
  }
  if (event.type !== 'rejected' || event.reason !== 'invalid_json') return event
  const isCut = last !== lineFeed || (!segment.terminated && staysOpen(segment.bytes, rules.maxDepth))
  return isCut ? cutOff(segment) : event
}

function cutOff({ bytes, line, terminated }: Segment): FormatEvent {
  const place = shown(line, decode(bytes).text, 'The text is cut off.')
  return terminated ? { ...place, type: 'rejected', reason: 'broken' } : { ...place, type: 'truncated' }
}

/** A number, `true`, `false` or `null`: nothing in the text itself shows where it ends. */
function isBare(bytes: Uint8Array): boolean {
  const first = bytes.find((byte) => !isWhiteSpace(byte))
  return first !== undefined && !'"[{'.includes(String.fromCharCode(first))
}
