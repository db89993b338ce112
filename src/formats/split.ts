// Splits bytes into the segments between separators. Splitting bytes instead of characters keeps characters whole: in UTF-8 no byte below
// 0x80 is part of a longer character.
import { createByteBuffer } from './byte-buffer.ts'

export const lineFeed = 0x0a
export const recordSeparator = 0x1e

export interface Segment {
  /** Without the separator. Only the beginning of an oversized segment. */
  readonly bytes: Uint8Array
  /** The line of the input, from 1, on which the segment begins. */
  readonly line: number
  /** A separator followed. */
  readonly terminated: boolean
  /** It was larger than the limit. */
  readonly oversized: boolean
}

export interface Splitter {
  /** The segments that `chunk` completed; the caller must take them all. They may share its bytes, so read them before it is reused. */
  push(chunk: Uint8Array): Iterable<Segment>
  /** The bytes after the last separator, if there are any. Call once. */
  end(): Segment | undefined
}

export function createSplitter(separator: number, maxBytes: number): Splitter {
  const open = createByteBuffer(maxBytes)
  let line = 1
  let openLines = 0

  function segment(last: Uint8Array, terminated: boolean): Segment {
    const whole = open.size === 0 && last.length <= maxBytes
    if (!whole) open.append(last)
    const content = whole ? { bytes: last, oversized: false } : open.take()
    const begins = line
    line += openLines + linesIn(last) + (separator === lineFeed ? 1 : 0)
    openLines = 0
    return { ...content, line: begins, terminated }
  }

  function linesIn(bytes: Uint8Array): number {
    return separator === lineFeed ? 0 : countLineFeeds(bytes)
  }

  return {
    *push(chunk) {
      let from = 0
      for (let at = chunk.indexOf(separator); at >= 0; at = chunk.indexOf(separator, from)) {
        yield segment(chunk.subarray(from, at), true)
        from = at + 1
      }
      const rest = chunk.subarray(from)
      open.append(rest)
      openLines += linesIn(rest)
    },
    end: () => (open.size > 0 ? segment(new Uint8Array(0), false) : undefined),
  }
}

function countLineFeeds(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) count++
  return count
}
