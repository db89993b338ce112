// Requests to an Ollama server. Every failure is one of graphmill's errors.

import { parseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import {
  beginCall,
  type ClientOptions,
  limitsOf,
  type Peer,
  readWatched,
  refusing,
  silence,
  unreachable,
} from '../transport.ts'
import { recoded } from './error.ts'
import { ollamaBaseUrl } from './host.ts'
import { notOllama } from './record.ts'

export interface OllamaServerOptions extends ClientOptions {
  /** As OLLAMA_HOST is written: `127.0.0.1`, `gpu-box:11434`, `https://example.org/ollama`. */
  readonly host: string
}

export interface OllamaServer {
  readonly peer: Peer
  /** The response to a POST of `body`; to a GET without one. Aborting `upstream` cancels it at any time. */
  fetch(path: string, body: object | undefined, upstream: AbortController): Promise<Response>
  /** The JSON object of such a response. Throws `llm_response_invalid` for anything else. */
  fetchJson(
    path: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function ollamaServer(options: OllamaServerOptions, model: string): OllamaServer {
  const destination = ollamaBaseUrl(options.host)
  const peer: Peer = { destination, circuit: `llm:ollama ${destination} ${model}`, ...limitsOf(options) }
  const send = refusing(options.fetch ?? globalThis.fetch, peer)

  async function fetch(path: string, body: object | undefined, upstream: AbortController): Promise<Response> {
    const late = setTimeout(() => upstream.abort(silence(peer.timeoutMs, peer)), peer.timeoutMs)
    const posted = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }
    try {
      return await send(destination + path, { ...(body && posted), signal: upstream.signal })
    } catch (thrown) {
      throw recoded(thrown instanceof TypeError ? unreachable(peer, thrown) : thrown)
    } finally {
      clearTimeout(late)
    }
  }

  async function fetchJson(path: string, body: object | undefined, signal: AbortSignal) {
    signal.throwIfAborted()
    const call = beginCall(peer, signal)
    try {
      const text = await readWatched(await fetch(path, body, call.upstream), peer)
      const answer = parsed(text, peer)
      if (!isObject(answer)) throw notOllama(peer, text)
      call.over = true
      return answer
    } catch (thrown) {
      throw call.explain(thrown)
    } finally {
      call.end()
    }
  }

  return { peer, fetch, fetchJson }
}

function parsed(text: string, peer: Peer): unknown {
  try {
    return parseJson(text)
  } catch (cause) {
    throw notOllama(peer, text, cause)
  }
}
