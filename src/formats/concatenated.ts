// Concatenated JSON: texts one after the other, with or without white space between them. Objects, arrays and strings end themselves; a
// bare number or word ends before white space or a structural character, the last one with the input.
import { createByteBuffer } from './byte-buffer.ts'
import { type ByteSource, type FormatEvent, type FormatOptions, type FormatRules, rulesOf } from './format.ts'
import { raising } from './raise.ts'
import { type FormatParser, readBytes } from './source.ts'
import { lineFeed } from './split.ts'
import { isCut, TextScan } from './text-scan.ts'
import { decode, readValue, shown } from './value.ts'

/**
 * The records of concatenated JSON. After an error reading continues with the next byte that can begin a text, which may be inside a
 * text of the writer. When `strict`, reading ends at the error.
 */
export function readConcatenatedJson(
  source: ByteSource,
  options: FormatOptions = {},
): AsyncGenerator<FormatEvent, void> {
  const rules = rulesOf(options)
  const events = readBytes(source, concatenatedParser(rules), rules)
  return raising(rules.strict ? untilRejected(events) : events, options)
}

async function* untilRejected(events: AsyncIterable<FormatEvent>): AsyncGenerator<FormatEvent> {
  for await (const event of events) {
    yield event
    if (event.type === 'rejected') return
  }
}

function concatenatedParser(rules: FormatRules): FormatParser {
  const scan = new TextScan(rules.maxDepth)
  const open = createByteBuffer(rules.maxRecord)
  let line = 1
  let begins = 1

  function taken(last: Uint8Array) {
    open.append(last)
    return { ...open.take(), line: begins }
  }

  return {
    *push(chunk) {
      let from = 0
      for (let at = 0; at < chunk.length; at++) {
        const byte = chunk[at]!
        let step = scan.step(byte)
        if (step === 'after') {
          yield readValue(taken(chunk.subarray(from, at)), rules)
          step = scan.step(byte)
        }
        if (step === 'first') {
          from = at
          begins = line
        } else if (step === 'last' || step === 'mismatch')
          yield readValue(taken(chunk.subarray(from, at + 1)), rules)
        else if (step === 'stray')
          yield {
            ...shown(line, String.fromCharCode(byte), 'The character begins no JSON text.'),
            type: 'rejected',
            reason: 'invalid_json',
          }
        if (byte === lineFeed) line++
      }
      if (scan.state !== 'between') open.append(chunk.subarray(from))
    },
    *end() {
      if (scan.state === 'between') return
      const last = taken(new Uint8Array(0))
      const event = readValue(last, rules)
      if (event.type === 'record') yield { ...event, unterminated: true }
      else if (
        event.type === 'rejected' &&
        event.reason === 'invalid_json' &&
        isCut(last.bytes, rules.maxDepth)
      )
        yield { ...shown(last.line, decode(last.bytes).text, 'The text is cut off.'), type: 'truncated' }
      else yield event
    },
  }
}
