// Turns texts into vectors with a server that has OpenAI's `/v1/embeddings` or Ollama's `/api/embed`. Vectors have the length 1.

import { type Secret, secretText } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import { BodyTooLarge, readText } from '../http/body.ts'
import { parseJson } from '../http/json.ts'
import { movedTo, request } from '../http/request.ts'
import { redactCut } from '../redact.ts'

export interface EmbeddingsServer {
  /** The endpoint, or an OpenAI-style base such as `http://127.0.0.1:8080/v1`. */
  readonly url: string
  readonly model: string
  /** Read at each request. */
  readonly apiKey: string | Secret | undefined
  readonly timeoutMs: number
}

/** Texts of one request, at most. */
export const batchSize = 64
/** Characters of a text that are sent: about the most that embedding models read. */
const maxText = 8000
/** Bytes of an answer, at most: several times a full batch of the longest vectors. */
const maxAnswerBytes = 64 * 1024 * 1024

/** One vector for each text, in one request. Throws `embeddings_unavailable` (retry later) or `embeddings_refused`. */
export type Embed = (texts: readonly string[]) => Promise<Float32Array[]>

/** @throws `configuration_invalid` when the URL is not valid. */
export function createEmbed(server: EmbeddingsServer): Embed {
  const endpoint = endpointOf(server.url)
  const ollama = endpoint.pathname.endsWith('/embed')
  const shown = `${endpoint.origin}${endpoint.pathname}`
  return async (texts) => {
    const input = texts.map((text) => text.slice(0, maxText).toWellFormed())
    const answer = await post(endpoint, { model: server.model, input }, { ...server, shown })
    const vectors = ollama ? ollamaVectors(answer) : openAiVectors(answer)
    const [first] = vectors
    if (
      vectors.length !== texts.length ||
      vectors.some((vector) => vector.length === 0 || vector.length !== first!.length)
    )
      throw new GraphmillError('embeddings_refused', `${shown} did not answer with one vector a text.`)
    return vectors.map(unit)
  }
}

/** The endpoint of a URL: one without an endpoint's path gets OpenAI's. */
export function endpointOf(url: string): URL {
  const endpoint = URL.parse(url)
  if (!endpoint || !/^https?:$/.test(endpoint.protocol) || endpoint.username || endpoint.password)
    throw new GraphmillError(
      'configuration_invalid',
      'embeddings must be an http(s) URL without a password, such as http://127.0.0.1:11434/api/embed.',
    )
  const path = endpoint.pathname.replace(/\/+$/, '')
  if (/\/embed(?:dings)?$/.test(path)) endpoint.pathname = path.replace(/\/api\/embeddings$/, '/api/embed')
  else endpoint.pathname = path === '' ? '/v1/embeddings' : `${path}/embeddings`
  return endpoint
}

async function post(
  endpoint: URL,
  body: object,
  { apiKey: secret, timeoutMs, shown }: EmbeddingsServer & { shown: string },
): Promise<unknown> {
  const apiKey = secret && secretText(secret)
  const unavailable = (message: string, cause: unknown, retryAfterMs?: number) =>
    new GraphmillError('embeddings_unavailable', message, {
      cause,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    })
  let response: Response
  let text: string
  try {
    response = await request(endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    })
    text = await readText(response.body, maxAnswerBytes)
  } catch (cause) {
    if (cause instanceof GraphmillError) throw cause
    if (cause instanceof BodyTooLarge)
      throw new GraphmillError('embeddings_refused', `${shown} answers with ${cause.message}.`, { cause })
    throw unavailable(`${shown} does not answer: ${(cause as Error).message}.`, cause)
  }
  if (!response.ok) {
    const said = movedTo(response) ?? text
    const message = `${shown} answered ${response.status}: ${redactCut(said, 300)}`
    const waits = Number(response.headers.get('retry-after'))
    if (response.status === 429 || response.status === 408 || response.status >= 500)
      throw unavailable(message, undefined, Number.isFinite(waits) && waits > 0 ? waits * 1000 : undefined)
    throw new GraphmillError('embeddings_refused', message, { details: { status: response.status } })
  }
  try {
    return parseJson(text)
  } catch (cause) {
    throw new GraphmillError('embeddings_refused', `${shown} did not answer in JSON.`, { cause })
  }
}

function openAiVectors(answer: unknown): number[][] {
  const data = (answer as { data?: unknown } | null)?.data
  if (!Array.isArray(data)) return []
  return data
    .map((each: { index?: unknown; embedding?: unknown } | null, place) => ({
      index: typeof each?.index === 'number' ? each.index : place,
      vector: numbers(each?.embedding),
    }))
    .sort((a, b) => a.index - b.index)
    .map(({ vector }) => vector)
}

function ollamaVectors(answer: unknown): number[][] {
  const vectors = (answer as { embeddings?: unknown } | null)?.embeddings
  return Array.isArray(vectors) ? vectors.map(numbers) : []
}

/** Empty when the value is not a vector. */
function numbers(value: unknown): number[] {
  return Array.isArray(value) && value.every((each) => Number.isFinite(each)) ? (value as number[]) : []
}

function unit(vector: readonly number[]): Float32Array {
  const length = Math.hypot(...vector) || 1
  return Float32Array.from(vector, (each) => each / length)
}
