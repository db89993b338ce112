// The bytes of a reply as text. Invalid UTF-8 is an error that quotes what could be read, and the length of a body is bounded.
import { tryParseJson } from '../http/json.ts'
import { isObject } from '../is-object.ts'
import { lineLimit } from '../llm/event-stream.ts'
import { notACompletion, providerError } from '../llm/provider-error.ts'
import { newWatch, type Peer, watched } from '../llm/transport.ts'
import { redactCut } from '../redact.ts'

/** The same response, whose body throws `llm_response_invalid` when it is not UTF-8. */
export function checkedText(response: Response, peer: Peer): Response {
  if (!response.body) return response
  const { status, headers } = response
  return new Response(ReadableStream.from(checked(response.body, peer)), { status, headers })
}

async function* checked(body: ReadableStream<Uint8Array>, peer: Peer): AsyncGenerator<Uint8Array> {
  const strict = new TextDecoder('utf-8', { fatal: true })
  for await (const part of body) {
    decode(strict, part, peer)
    yield part
  }
  decode(strict, undefined, peer)
}

function decode(strict: InstanceType<typeof TextDecoder>, part: Uint8Array | undefined, peer: Peer): void {
  try {
    strict.decode(part, { stream: part !== undefined })
  } catch (cause) {
    const text = redactCut(new TextDecoder().decode(part), 200)
    const message = `${peer.destination} gave an answer that is not UTF-8: ${text}`
    const { circuit } = peer
    throw providerError('llm_response_invalid', message, { cause, circuit, details: { text } })
  }
}

/** The body of a reply that is not streamed. Throws `llm_response_invalid` unless it is a JSON object. */
export async function jsonBody(response: Response, peer: Peer): Promise<Readonly<Record<string, unknown>>> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of watched(response, peer, newWatch())) {
    text += decoder.decode(part, { stream: true })
    if (text.length > lineLimit)
      throw notACompletion(peer, text.trimStart() || 'only white space, without end')
  }
  const body = tryParseJson(text + decoder.decode())
  if (!isObject(body)) throw notACompletion(peer, text)
  return body
}
