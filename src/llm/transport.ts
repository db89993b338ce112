// Between the client of a model server and the network: refusals become graphmill's errors, and a server that is silent, takes
// too long or sends too much is noticed.
import { existsSync } from 'node:fs'
import { GraphmillError } from '../errors.ts'
import { readOpening } from '../http/body.ts'
import { type Fetch, movedTo, request } from '../http/request.ts'
import { redactCut } from '../redact.ts'
import { longestTimerMs } from '../wait.ts'
import {
  asProviderError,
  type NamedServer,
  providerError,
  type Refusal,
  refusalError,
  serverError,
} from './provider-error.ts'

/** How a client reaches a server. */
export interface ClientOptions {
  /**
   * The longest silence of the server in milliseconds, before the first byte (it may load the model) and between any two.
   * Default 120,000.
   */
  readonly timeoutMs?: number
  /** The longest call in milliseconds, from the request to the end of the reply. Default 600,000. */
  readonly callTimeoutMs?: number
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch
}

/** A server and its limits. */
export interface Peer extends NamedServer {
  readonly timeoutMs: number
  /** A server that sends a little every second is never silent, so calls have a limit too. */
  readonly callTimeoutMs: number
}

/** The limits of a peer. Values beyond a timer's range, such as Infinity, become its longest time, 24.8 days. */
export function limitsOf({ timeoutMs = 120_000, callTimeoutMs = 600_000 }: ClientOptions) {
  return {
    timeoutMs: Math.min(timeoutMs, longestTimerMs),
    callTimeoutMs: Math.min(callTimeoutMs, longestTimerMs),
  }
}

/** How much of a refusal's body is read, in bytes. */
const refusalLimit = 64 * 1024
/** Largest body that is read as a whole, in bytes: a reply that is not streamed, or a list of models. */
const bodyLimit = 4 * 1024 * 1024
/** Largest stream, in bytes: about 300,000 tokens, each with the hundreds of bytes that servers put around it. */
const streamLimit = 128 * 1024 * 1024

/**
 * A fetch that throws `errorOf` every answer that is not 2xx, and a ProviderError for a connection that a retry can't fix.
 */
export function refusing(
  fetch: Fetch,
  peer: Peer,
  errorOf: (refusal: Refusal) => GraphmillError = refusalError,
): Fetch {
  const { destination, circuit } = peer
  return async (input, init) => {
    const response = await request(input, { ...init, fetch }).catch((thrown: unknown) => {
      throw asProviderError(thrown, circuit)
    })
    if (response.ok) return response
    const text = movedTo(response) ?? (await readOpening(response.body, refusalLimit))
    const { status, headers } = response
    throw errorOf({ status, headers, text, destination, circuit })
  }
}

/** One call of a model server, from its request to the end of its body. */
export interface ServerCall {
  /** For `fetch`: aborted with the caller's signal, when the call has taken too long, and by `end`. */
  readonly upstream: AbortController
  /** The call has ended properly. */
  over: boolean
  /** The error that ended the call: that of its time limit, else `thrown`. Throws the caller's reason after an abort. */
  explain(thrown: unknown): unknown
  /** Releases the timer and the signal. Aborts the request unless the call is over. */
  end(): void
}

export function beginCall(peer: Peer, signal: AbortSignal): ServerCall {
  const upstream = new AbortController()
  const forward = () => upstream.abort()
  let late: GraphmillError | undefined
  const timer = setTimeout(() => {
    const message = `did not end its reply within ${peer.callTimeoutMs / 1000} s.`
    late = serverError('llm_call_too_long', peer, message)
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

/** Runs `work` within a call, and returns its result. Throws the caller's reason after an abort. */
export async function withinCall<T>(
  peer: Peer,
  signal: AbortSignal,
  work: (upstream: AbortController) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted()
  const call = beginCall(peer, signal)
  try {
    const result = await work(call.upstream)
    signal.throwIfAborted()
    call.over = true
    return result
  } catch (thrown) {
    throw call.explain(thrown)
  } finally {
    call.end()
  }
}

/** The state of a body that is being read. */
export interface Watch {
  /** The body has ended properly. */
  ended: boolean
  /** The first bytes as text, about 500 characters: enough for a message of 200. */
  head: string
  /** The longest silence allowed from now on, in milliseconds. Infinity means the peer's own limit. */
  patienceMs: number
}

export function newWatch(): Watch {
  return { ended: false, head: '', patienceMs: Number.POSITIVE_INFINITY }
}

/**
 * The bytes of a body, read on demand. Throws `llm_unavailable` when the connection breaks or the server is silent for too
 * long (time in which nobody reads does not count), and `reply_too_large` for more than `mostBytes`.
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
      if (left < 0)
        throw serverError('reply_too_large', peer, `sent more than ${mostBytes} bytes in one reply.`)
      if (watch.head.length < 500) watch.head += decoder.decode(value.subarray(0, 800), { stream: true })
      yield value
    }
  } finally {
    if (!watch.ended) void leave(reader)
  }
}

/** A body as text, at most `bodyLimit` bytes. Throws as `watched` does. */
export async function readWatched(response: Response, peer: Peer): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of watched(response, peer, newWatch(), bodyLimit))
    text += decoder.decode(part, { stream: true })
  return text + decoder.decode()
}

/**
 * Reads on for at most a second and a few kilobytes, and drops the bytes: only the end of the body is due after [DONE], and the
 * connection can be reused once that is read. The signal of the request ends this at once.
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
    // The body broke or was cancelled, and nobody needs it any more.
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

/** The error for a server that sent nothing for so long. */
export function silence(timeoutMs: number, peer: NamedServer, cause?: unknown): GraphmillError {
  return serverError('llm_unavailable', peer, `said nothing for ${timeoutMs / 1000} s.`, { cause })
}

/** The error for a server without a connection. The message has the innermost code of the causes, such as ECONNREFUSED. */
export function unreachable(peer: NamedServer, thrown: Error): GraphmillError {
  const code = innermostCode(thrown.cause)
  const hint = isOwnContainer(peer) ? ' In a container, that address is the container itself.' : ''
  const message = `cannot be reached${code ? `: ${code}` : ''}.${hint}`
  return serverError('llm_unavailable', peer, message, { cause: thrown })
}

/** Whether the address is loopback and this process runs in a container of Docker or Podman. */
function isOwnContainer({ destination }: NamedServer): boolean {
  if (!/^https?:\/\/(localhost|127\.|\[::1\])/.test(destination)) return false
  return ['/.dockerenv', '/run/.containerenv'].some((file) => existsSync(file))
}

function innermostCode(cause: unknown): string {
  if (!(cause instanceof Error)) return ''
  const { code } = cause as { code?: unknown }
  return innermostCode(cause.cause) || (typeof code === 'string' ? code : '')
}

/** The error for a reply that ended early. `text` is the end of what came. */
export function brokenOff(peer: NamedServer, text?: string): GraphmillError {
  const details = text === undefined ? {} : { details: { text: redactCut(text, 200) } }
  return serverError('llm_unavailable', peer, 'broke off its reply.', details)
}

export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'AbortError'
}
