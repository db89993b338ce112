// Requests to a model server without a client package. Every failure is one of graphmill's errors.
import { GraphmillError } from '../errors.ts'
import { parseJson } from '../http/json.ts'
import { isObject } from '../is-object.ts'
import type { Refusal } from './provider-error.ts'
import {
  type ClientOptions,
  type Peer,
  readWatched,
  refusing,
  silence,
  unreachable,
  withinCall,
} from './transport.ts'

export interface ModelServer {
  readonly peer: Peer
  /** The response to a POST of `body` (a text is sent as it is); to a GET without one. Aborting `upstream` cancels it at any time. */
  fetch(path: string, body: object | string | undefined, upstream: AbortController): Promise<Response>
  /** The JSON object of such a response. Throws `llm_response_invalid` for anything else. */
  fetchJson(
    path: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

export interface ModelServerOptions extends Pick<ClientOptions, 'fetch'> {
  readonly peer: Peer
  /** The address of a path. Default: the path behind `destination`. */
  readonly locate?: (path: string) => string
  /** Read at each request, since a key may change. Default: none. */
  readonly headers?: () => Readonly<Record<string, string>>
  /** The error for an answer that is not 2xx, from its body. Default: `refusalError`. */
  readonly refusal?: (refusal: Refusal) => GraphmillError
  /** The same failure under the code that the server's own words stand for. Default: unchanged. */
  readonly recoded?: (thrown: unknown) => unknown
  /** The error for an answer that is not a JSON object. */
  readonly unexpected: (peer: Peer, answer: string, cause?: unknown) => GraphmillError
}

/** Sends requests to `options.peer`. An answer that is not 2xx is an error, and so is silence for longer than the peer's `timeoutMs`. */
export function createModelServer(options: ModelServerOptions): ModelServer {
  const { peer, headers = () => ({}), recoded = (thrown) => thrown, unexpected } = options
  const { locate = (path) => peer.destination + path } = options
  const send = refusing(options.fetch ?? globalThis.fetch, peer, options.refusal)

  async function fetch(path: string, body: object | string | undefined, upstream: AbortController) {
    const late = setTimeout(() => upstream.abort(silence(peer.timeoutMs, peer)), peer.timeoutMs)
    const posted = body !== undefined && {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
    }
    const type = posted && { 'content-type': 'application/json' }
    try {
      const init = { ...posted, headers: { ...type, ...headers() }, signal: upstream.signal }
      return await send(locate(path), init)
    } catch (thrown) {
      throw recoded(thrown instanceof TypeError ? unreachable(peer, thrown) : thrown)
    } finally {
      clearTimeout(late)
    }
  }

  function fetchJson(path: string, body: object | undefined, signal: AbortSignal) {
    return withinCall(peer, signal, async (upstream) => {
      const text = await readWatched(await fetch(path, body, upstream), peer)
      const answer = parsed(text)
      if (!isObject(answer)) throw unexpected(peer, text)
      return answer
    })
  }

  function parsed(text: string): unknown {
    try {
      return parseJson(text)
    } catch (cause) {
      throw unexpected(peer, text, cause)
    }
  }

  return { peer, fetch, fetchJson }
}

/** The address of a server as it may be shown, without a slash at its end. Throws `configuration_invalid`. */
export function serverAddress(baseUrl: string): string {
  const url = URL.parse(baseUrl)
  if (!url || !/^https?:$/.test(url.protocol))
    throw new GraphmillError('configuration_invalid', `The address of the model server is no http(s) URL.`)
  if (url.username || url.password)
    throw new GraphmillError(
      'configuration_invalid',
      `The address of the model server must not hold credentials: ${url.host}`,
    )
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}
