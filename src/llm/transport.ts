// What stands between a client of a model server and the network: refusals become our errors here, and a server that is silent,
// or goes on for too long or too much, is noticed.
import { GraphmillError } from '../errors.ts'
import { readOpening } from '../http/body.ts'
import { type Fetch, movedTo, request } from '../http/request.ts'
import { longestTimerMs } from '../wait.ts'
import { asProviderError, providerError, refusalError } from './provider-error.ts'

export type { Fetch } from '../http/request.ts'

/** Whom errors name. */
export interface Peer {
  readonly destination: string
  readonly circuit: string
  /** The longest silence of the server, in milliseconds. */
  readonly timeoutMs: number
  /** The longest call, in milliseconds: a server that says a little every second is never silent. */
  readonly callTimeoutMs: number
}

/** The limits of a peer. What no timer takes, such as Infinity, is its longest time, 24.8 days. */
export function limitsOf({
  timeoutMs = 120_000,
  callTimeoutMs = 600_000,
}: {
  readonly timeoutMs?: number | undefined
  readonly callTimeoutMs?: number | undefined
}): Pick<Peer, 'timeoutMs' | 'callTimeoutMs'> {
  return {
    timeoutMs: Math.min(timeoutMs, longestTimerMs),
    callTimeoutMs: Math.min(callTimeoutMs, longestTimerMs),
  }
}

/** Largest body of a refusal that is read, in bytes. */
const refusalLimit = 64 * 1024
/** Largest body that is read at once, in bytes: a whole reply, or what a server says of itself. */
const bodyLimit = 4 * 1024 * 1024
/** Most bytes of a stream: some 300,000 tokens, each with the hundreds of bytes that servers put around it. */
const streamLimit = 128 * 1024 * 1024

/** A fetch that throws a GraphmillError for every answer that is not 2xx, and for what no retry of a connection fixes. */
export function refusing(fetch: Fetch, peer: Peer): Fetch {
  const { destination, circuit } = peer
  return async (input, init) => {
    const response = await request(input, { ...init, fetch }).catch((thrown: unknown) => {
      throw asProviderError(thrown, circuit)
    })
    if (response.ok) return response
    const text = movedTo(response) ?? (await readOpening(response.body, refusalLimit))
    const { status, headers } = response
    throw refusalError({ status, headers, text, destination, circuit })
  }
}

/** One call of a model server, from its request to the end of its body. */
export interface ServerCall {
  /** For `fetch`: aborted with the caller's signal, when the call has taken too long, and by `end`. */
  readonly upstream: AbortController
  /** The call has come to its proper end. */
  over: boolean
  /** What ended the call, if that was not `thrown`: the caller, whose reason is thrown, or its time. */
  explain(thrown: unknown): unknown
  /** Nothing more is wanted of it. */
  end(): void
}

export function beginCall(peer: Peer, signal: AbortSignal): ServerCall {
  const upstream = new AbortController()
  const forward = () => upstream.abort()
  let late: GraphmillError | undefined
  const timer = setTimeout(() => {
    late = callTooLong(peer)
    upstream.abort(late)
  }, peer.callTimeoutMs)
  signal.addEventListener('abort', forward, { once: true })
  return {
    upstream,
    over: false,
    explain(thrown) {
      signal.throwIfAborted()
      return late ?? thrown
    },
    end() {
      clearTimeout(timer)
      signal.removeEventListener('abort', forward)
      if (!this.over) upstream.abort()
    },
  }
}

/** What is known of a body while it is read. */
export interface Watch {
  /** The body came to its proper end. */
  ended: boolean
  /** The first bytes as text, some 500 characters: enough for a message of 200. */
  head: string
  /** The longest silence allowed from now on, in milliseconds; Infinity: that of the peer. */
  patienceMs: number
}

export function newWatch(): Watch {
  return { ended: false, head: '', patienceMs: Number.POSITIVE_INFINITY }
}

/**
 * The bytes of a body as they are asked for. Throws `llm_unavailable` when the connection breaks or the server is silent
 * for too long (time in which nobody asks does not count), and `reply_too_large` for one that does not end.
 */
export async function* watched(
  response: Response,
  peer: Peer,
  watch: Watch,
  mostBytes = streamLimit,
): AsyncGenerator<Uint8Array> {
  if (!response.body) return
  const reader = response.body.getReader()
  const decoder = new TextDecoder()
  let left = mostBytes
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), Math.min(watch.patienceMs, peer.timeoutMs), peer)
      if (done) {
        watch.ended = true
        return
      }
      left -= value.byteLength
      if (left < 0) throw tooLarge(mostBytes, peer)
      if (watch.head.length < 500) watch.head += decoder.decode(value.subarray(0, 800), { stream: true })
      yield value
    }
  } finally {
    if (!watch.ended) void leave(reader)
  }
}

/** A body as text, held to `bodyLimit`; else as `watched`. */
export async function readWatched(response: Response, peer: Peer): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of watched(response, peer, newWatch(), bodyLimit))
    text += decoder.decode(part, { stream: true })
  return text + decoder.decode()
}

/**
 * Reads on for a second and a few kilobytes at most, and forgets what comes: behind [DONE] only the end of the body is due, and
 * once it was read the connection can serve again. The request's own signal ends this at once.
 */
async function leave(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  const cancel = () => void reader.cancel().catch(() => {})
  const timer = setTimeout(cancel, 1000)
  timer.unref()
  try {
    for (let left = refusalLimit; left > 0; ) {
      const { done, value } = await reader.read()
      if (done) return
      left -= value.byteLength
    }
    cancel()
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

function callTooLong({ destination, circuit, callTimeoutMs }: Peer): GraphmillError {
  return providerError(
    'llm_call_too_long',
    `${destination} did not end its reply within ${callTimeoutMs / 1000} s.`,
    { circuit },
  )
}

function tooLarge(mostBytes: number, { destination, circuit }: Peer): GraphmillError {
  return providerError('reply_too_large', `${destination} sent more than ${mostBytes} bytes in one reply.`, {
    circuit,
  })
}

function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'AbortError'
}
