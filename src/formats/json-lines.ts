// The line formats: ndjson 1.0.0 and JSON Lines. A line ends only at \n (a \r before it is white space to JSON, U+2028 is a character of a
// string). A last line without \n is a record if it is complete, and truncated if more input could have made it one.
import { type ByteSource, type FormatEvent, type FormatOptions, type FormatRules, rulesOf } from './format.ts'
import { raising } from './raise.ts'
import { type FormatParser, readBytes } from './source.ts'
import { createSplitter, lineFeed, type Segment } from './split.ts'
import { isCut, isWhiteSpace } from './text-scan.ts'
import { decode, readValue, shown } from './value.ts'

/**
 * The records of newline-delimited JSON. Blank lines are ignored unless `blankLines` says otherwise.
 *
 * @example for await (const event of readNdjson(response.body)) if (event.type === 'record') use(event.value)
 */
export function readNdjson(
  source: ByteSource,
  options: FormatOptions = {},
): AsyncGenerator<FormatEvent, void> {
  return readLines(source, rulesOf(options), options)
}

/** The records of JSON Lines (jsonlines.org): as ndjson, but a blank line is rejected when `strict`. */
export function readJsonLines(
  source: ByteSource,
  options: FormatOptions = {},
): AsyncGenerator<FormatEvent, void> {
  return readLines(source, rulesOf(options, options.strict ? 'reject' : 'ignore'), options)
}

function readLines(source: ByteSource, rules: FormatRules, options: FormatOptions) {
  return raising(readBytes(source, lineParser(rules), rules), options)
}

function lineParser(rules: FormatRules): FormatParser {
  const splitter = createSplitter(lineFeed, rules.maxRecord)

  function* read(segment: Segment): Generator<FormatEvent> {
    const { bytes, line, terminated } = segment
    if (isBlank(segment)) {
      if (rules.blankLines === 'reject' && terminated)
        yield { ...shown(line, '', 'The line is blank.'), type: 'rejected', reason: 'invalid_json' }
      return
    }
    const event = readValue(segment, rules)
    if (terminated) yield event
    else if (event.type === 'record') yield { ...event, unterminated: true }
    else if (event.type === 'rejected' && event.reason === 'invalid_json' && isCut(bytes, rules.maxDepth))
      yield { ...shown(line, decode(bytes).text, 'The last line is cut off.'), type: 'truncated' }
    else yield event
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

/** Only white space. */
export function isBlank({ bytes, oversized }: Segment): boolean {
  return !oversized && bytes.every(isWhiteSpace)
}
