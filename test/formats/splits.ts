// The ways in which bytes can arrive. Shared by the tests of the readers.
import type { FormatEvent } from '../../src/formats/format.ts'

/** Text to bytes: `<RS>` is the record separator, `<FF>` a byte that is no UTF-8, `<BOM>` the byte order mark. */
export function bytes(text: string): Uint8Array {
  const special: Record<string, number[]> = { '<RS>': [0x1e], '<FF>': [0xff], '<BOM>': [0xef, 0xbb, 0xbf] }
  const pieces = text.split(/(<RS>|<FF>|<BOM>)/).map((piece) => special[piece] ?? [...Buffer.from(piece)])
  return Uint8Array.from(pieces.flat())
}

/** Whole, byte by byte, with empty chunks, and cut at every one and every two places. */
export function* everySplit(whole: Uint8Array): Generator<Uint8Array[]> {
  yield [whole]
  yield [...whole].flatMap((byte) => [Uint8Array.of(byte), new Uint8Array(0)])
  for (let first = 1; first < whole.length; first++)
    for (let second = first; second < whole.length; second++)
      yield [whole.subarray(0, first), whole.subarray(first, second), whole.subarray(second)]
}

export async function all(events: AsyncIterable<FormatEvent>): Promise<FormatEvent[]> {
  const got: FormatEvent[] = []
  for await (const event of events) got.push(event)
  return got
}

/** Events in short: the value itself, or `reason`, `truncated` and `ignored` with the line, as in `broken 2`. */
export function brief(events: readonly FormatEvent[]): unknown[] {
  return events.map((event) => {
    switch (event.type) {
      case 'record':
        return event.unterminated ? { unterminated: event.value } : { value: event.value }
      case 'rejected':
        return `${event.reason} ${event.line}`
      default:
        return `${event.type} ${event.line}`
    }
  })
}

/** What `read` gives for every split of `text`, in short; throws when two splits differ. */
export async function inEverySplit(
  read: (source: Uint8Array[]) => AsyncIterable<FormatEvent>,
  text: string,
): Promise<unknown[]> {
  const whole = bytes(text)
  const expected = await all(read([whole]))
  for (const chunks of everySplit(whole)) {
    const got = await all(read(chunks))
    if (JSON.stringify(got) !== JSON.stringify(expected))
      throw new Error(
        `${JSON.stringify(chunks.map((chunk) => Buffer.from(chunk).toString()))} gives ${JSON.stringify(got)}, the whole gives ${JSON.stringify(expected)}`,
      )
  }
  return brief(expected)
}
