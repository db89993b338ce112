// What stands between a client of a model server and the network: refusals become our errors here, and a silent server is noticed.
import { type Secret, secretText } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import { providerError, refusalError } from './provider-error.ts'

export type Fetch = typeof globalThis.fetch

/** Whom errors name, and the secret that they must not show. */
export interface Peer {
  readonly destination: string
  readonly circuit: string
  readonly apiKey: string | Secret | undefined
  /** The longest silence of the server, in milliseconds. */
  readonly timeoutMs: number
}

/** Largest body of a refusal that is read, in bytes. */
const refusalLimit = 64 * 1024

/** A fetch that throws a GraphmillError for every answer that is not 2xx. */
export function refusing(fetch: Fetch, peer: Peer): Fetch {
  return async (input, init) => {
    const response = await fetch(input, init)
    if (response.ok) return response
    const text = hidden(await opening(response, peer), peer.apiKey)
    const { status, headers } = response
    throw refusalError({ status, headers, text, destination: peer.destination, circuit: peer.circuit })
  }
}

/** `text` without the key. */
export function hidden(text: string, secret: string | Secret | undefined): string {
  const apiKey = secret && secretText(secret)
  return apiKey && apiKey.length > 3 ? text.replaceAll(apiKey, '[key]') : text
}

/** The first part of a body; what a broken connection leaves of it is enough. */
async function opening(response: Response, peer: Peer): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const part of watched(response, peer, newWatch())) {
      text += decoder.decode(part, { stream: true })
      if (text.length > refusalLimit) break
    }
  } catch {
    // The status alone is enough for an error.
  }
  return text
}

/** What is known of a body while it is read. */
export interface Watch {
  /** The body came to its proper end. */
  ended: boolean
  /** The first bytes as text, about 200 characters. */
  head: string
  /** The longest silence allowed from now on, in milliseconds; Infinity: that of the peer. */
  patienceMs: number
}

export function newWatch(): Watch {
  return { ended: false, head: '', patienceMs: Number.POSITIVE_INFINITY }
}

/**
 * The bytes of a body as they are asked for. Throws `llm_unavailable` when the connection breaks or the server is silent
 * for too long; time in which nobody asks does not count.
 */
export async function* watched(response: Response, peer: Peer, watch: Watch): AsyncGenerator<Uint8Array> {
  if (!response.body) return
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), Math.min(watch.patienceMs, peer.timeoutMs), peer)
      if (done) {
        watch.ended = true
        return
      }
      if (watch.head.length < 200) watch.head += decoder.decode(value.subarray(0, 800), { stream: true })
      yield value
    }
  } finally {
    if (!watch.ended) void leave(reader)
  }
}

/**
 * Reads on for a second at most and forgets what comes: behind [DONE] only the end of the body is due, and once it was read
 * the connection can serve again. The request's own signal ends this at once.
 */
async function leave(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  const timer = setTimeout(() => void reader.cancel().catch(() => {}), 1000)
  timer.unref()
  try {
    while (!(await reader.read()).done);
  } catch {
    // Broken or cancelled: nobody waits for it any more.
  } finally {
    clearTimeout(timer)
  }
}

async function within<T>(reading: Promise<T>, timeoutMs: number, peer: Peer): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(silence(timeoutMs, peer)), timeoutMs)
  try {
    return await Promise.race([reading, late])
  } catch (thrown) {
    if (thrown instanceof GraphmillError || isAbort(thrown)) throw thrown
    throw providerError('llm_unavailable', `The connection to ${peer.destination} broke in mid-reply.`, {
      cause: thrown,
      circuit: peer.circuit,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** The error for a server that says nothing. */
export function silence(timeoutMs: number, peer: Peer, cause?: unknown): GraphmillError {
  return providerError('llm_unavailable', `${peer.destination} said nothing for ${timeoutMs / 1000} s.`, {
    cause,
    circuit: peer.circuit,
  })
}

function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'AbortError'
}
