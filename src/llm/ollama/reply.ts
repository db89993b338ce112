// Reads Ollama's NDJSON stream: deltas as they come, then the end. Only a record with `done` ends a reply: a stream without one
// broke off.
import { isBlank } from '../../formats/json-lines.ts'
import { createSplitter, lineFeed, type Segment } from '../../formats/split.ts'
import { decode } from '../../formats/value.ts'
import { parseJson } from '../../http/json.ts'
import type { CompletionEvent } from '../llm.ts'
import { isPage } from '../provider-error.ts'
import { brokenOff, newWatch, watched } from '../transport.ts'
import { notOllama, type RecordContext, recordReader } from './record.ts'

export interface OllamaReply extends RecordContext {
  readonly response: Response
  /** Largest line in bytes. */
  readonly maxLine: number
}

/** After the last record only the end of the body is due, and it is not awaited for longer. */
const patienceForEndMs = 1_000

/** The events of a reply, each in a batch of its own. Memory is bounded by its largest line. */
export async function* readReply(reply: OllamaReply): AsyncGenerator<CompletionEvent[]> {
  const { response, peer, maxLine, warn } = reply
  const splitter = createSplitter(lineFeed, maxLine)
  const watch = newWatch()
  const read = recordReader(reply)
  let isFirst = true
  let end: { readonly at: number; trailed: boolean } | undefined

  function* events(segment: Segment): Generator<CompletionEvent[]> {
    const line = isFirst ? { ...segment, bytes: withoutMark(segment.bytes) } : segment
    if (isBlank(line)) return
    if (end) {
      if (!end.trailed) warn(`${peer.destination} sent more after the end of its reply.`)
      end.trailed = true
      return
    }
    const record = recordOf(line, isFirst, reply)
    isFirst = false
    for (const event of read(record)) {
      if (event.type === 'end') end = { at: performance.now(), trailed: false }
      yield [event]
    }
  }

  try {
    for await (const bytes of watched(response, peer, watch)) {
      for (const line of splitter.push(bytes)) yield* events(line)
      if (end?.trailed) return
      if (end) watch.patienceMs = Math.max(0, end.at + patienceForEndMs - performance.now())
    }
    const last = splitter.end()
    if (last) yield* events(last)
  } catch (thrown) {
    // The answer is complete: a later fault does no harm.
    if (!end) throw thrown
  }
  if (!end) throw brokenOff(peer)
}

function recordOf(line: Segment, isFirst: boolean, { peer, maxLine, warn }: OllamaReply): unknown {
  const { text, intact } = decode(line.bytes)
  if (line.oversized) throw notOllama(peer, `a line of more than ${maxLine} bytes: ${text}`)
  if (!intact) warn(`${peer.destination} sent bytes that are no UTF-8.`)
  try {
    const record = parseJson(text)
    if (!line.terminated) warn(`${peer.destination} did not end its last line.`)
    return record
  } catch (cause) {
    // A record may be cut off, and a proxy may end a reply with its error page. Another first line is another server's.
    const isCut = isFirst
      ? !line.terminated && text.trimStart().startsWith('{')
      : !line.terminated || isPage(text)
    throw isCut ? brokenOff(peer, text) : notOllama(peer, text, cause)
  }
}

/** The bytes without the byte order mark that some proxies put before a body. */
function withoutMark(bytes: Uint8Array): Uint8Array {
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return isMarked ? bytes.subarray(3) : bytes
}
