// Bodies of HTTP answers, bounded in size. The decompressed bytes are counted as they arrive, so that an endless body, or one that
// unpacks to gigabytes, costs no more than the limit.

/** The body of a `Response`, or of an answer to Node's own client. */
export type ResponseBody = AsyncIterable<Uint8Array> | null

/** A body was larger than its limit. */
export class BodyTooLarge extends Error {
  constructor(mostBytes: number) {
    super(`more than ${mostBytes} bytes`)
  }
}

/** The body as text. Throws `BodyTooLarge`, and what reading throws. */
export async function readText(body: ResponseBody, mostBytes: number): Promise<string> {
  let text = ''
  for await (const piece of pieces(body, mostBytes)) text += piece
  return text
}

/** The beginning of a body as text, for error messages: at most `mostBytes`, and what arrived when the body breaks off. */
export async function readOpening(body: ResponseBody, mostBytes: number): Promise<string> {
  let text = ''
  try {
    for await (const piece of pieces(body, mostBytes)) text += piece
  } catch {
    // What arrived is enough.
  }
  return text
}

/** Leaving the loop cancels the rest of the body. */
async function* pieces(body: ResponseBody, mostBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let left = mostBytes
  for await (const part of body ?? []) {
    yield decoder.decode(part.subarray(0, left), { stream: true })
    left -= part.byteLength
    if (left < 0) throw new BodyTooLarge(mostBytes)
  }
  yield decoder.decode()
}
