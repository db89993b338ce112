// Bodies of HTTP answers, held to a size. What is counted is what comes out of the decompression, as it comes out, so that a body
// without end, or one that unpacks to gigabytes, costs no more than its limit.

/** That of a `Response`, or Node's own. */
export type Body = AsyncIterable<Uint8Array> | null

/** A body was larger than its limit. */
export class BodyTooLarge extends Error {
  constructor(mostBytes: number) {
    super(`more than ${mostBytes} bytes`)
  }
}

/** The body as text. Throws `BodyTooLarge`, and what reading throws. */
export async function readText(body: Body, mostBytes: number): Promise<string> {
  let text = ''
  for await (const piece of pieces(body, mostBytes)) text += piece
  return text
}

/** The beginning of a body as text, for messages about it: at most `mostBytes`, and of one that breaks off, what came. */
export async function readOpening(body: Body, mostBytes: number): Promise<string> {
  let text = ''
  try {
    for await (const piece of pieces(body, mostBytes)) text += piece
  } catch {
    // What came is enough.
  }
  return text
}

/** Leaving the loop cancels the rest of the body. */
async function* pieces(body: Body, mostBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let left = mostBytes
  for await (const part of body ?? []) {
    yield decoder.decode(part.subarray(0, left), { stream: true })
    left -= part.byteLength
    if (left < 0) throw new BodyTooLarge(mostBytes)
  }
  yield decoder.decode()
}
