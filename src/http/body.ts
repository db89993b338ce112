// Bodies of HTTP answers, held to a size. What is counted is what comes out of the decompression, as it comes out, so that a body
// without end, or one that unpacks to gigabytes, costs no more than its limit.

/** The body as text. Throws when it is larger than `mostBytes`, and what reading throws. */
export async function readText(response: Response, mostBytes: number): Promise<string> {
  let text = ''
  for await (const piece of pieces(response, mostBytes)) text += piece
  return text
}

/** The beginning of a body as text, for messages about it: at most `mostBytes`, and of one that breaks off, what came. */
export async function readOpening(response: Response, mostBytes: number): Promise<string> {
  let text = ''
  try {
    for await (const piece of pieces(response, mostBytes)) text += piece
  } catch {
    // What came is enough.
  }
  return text
}

/** Leaving the loop cancels the rest of the body. */
async function* pieces(response: Response, mostBytes: number): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let left = mostBytes
  for await (const part of response.body ?? []) {
    yield decoder.decode(part.subarray(0, left), { stream: true })
    left -= part.byteLength
    if (left < 0) throw new Error(`the body is larger than ${mostBytes} bytes`)
  }
  yield decoder.decode()
}
