// The calls to an Ollama server: one request each, whatever fails as one of our coded errors, a silent server noticed.
import { parseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { providerError } from '../provider-error.ts'
import { beginCall, type Fetch, limitsOf, type Peer, readWatched, refusing, silence } from '../transport.ts'
import { recoded } from './error.ts'
import { ollamaBaseUrl } from './host.ts'
import { notOllama } from './record.ts'

export interface OllamaServerOptions {
  /** As OLLAMA_HOST is written: `127.0.0.1`, `gpu-box:11434`, `https://example.org/ollama`. */
  readonly host: string
  /** The longest silence of the server, before the first byte (while it loads the model) and between any two. Default 120,000. */
  readonly timeoutMs?: number
  /** The longest call, from the request to the end of the reply. Default 600,000. */
  readonly callTimeoutMs?: number
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch
}

export interface OllamaServer {
  readonly peer: Peer
  /** The response to `body`, or to a GET where there is none. Aborting `upstream` cancels it, at any time. */
  ask(path: string, body: object | undefined, upstream: AbortController): Promise<Response>
  /** The JSON object that the server answers. */
  tell(
    path: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** Throws `configuration_invalid` for an address that is none. `model` is what the circuit is named after. */
export function ollamaServer(options: OllamaServerOptions, model: string): OllamaServer {
  const { fetch = globalThis.fetch } = options
  const destination = ollamaBaseUrl(options.host)
  const circuit = `llm:ollama ${destination} ${model}`
  const peer: Peer = { destination, circuit, ...limitsOf(options) }
  const send = refusing(fetch, peer)

  async function ask(path: string, body: object | undefined, upstream: AbortController): Promise<Response> {
    const late = setTimeout(() => upstream.abort(silence(peer.timeoutMs, peer)), peer.timeoutMs)
    const posted = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }
    try {
      return await send(destination + path, { ...(body && posted), signal: upstream.signal })
    } catch (thrown) {
      throw recoded(thrown instanceof TypeError ? unreachable(thrown, peer) : thrown)
    } finally {
      clearTimeout(late)
    }
  }

  async function tell(path: string, body: object | undefined, signal: AbortSignal) {
    signal.throwIfAborted()
    const call = beginCall(peer, signal)
    try {
      const answer = await objectOf(await ask(path, body, call.upstream), peer)
      call.over = true
      return answer
    } catch (thrown) {
      throw call.explain(thrown)
    } finally {
      call.end()
    }
  }

  return { peer, ask, tell }
}

async function objectOf(response: Response, peer: Peer): Promise<Readonly<Record<string, unknown>>> {
  const text = await readWatched(response, peer)
  let answer: unknown
  try {
    answer = parseJson(text)
  } catch (cause) {
    throw notOllama(peer, text, cause)
  }
  if (!isObject(answer)) throw notOllama(peer, text)
  return answer
}

function unreachable(thrown: TypeError, { destination, circuit }: Peer) {
  const { code } = (thrown.cause ?? {}) as { readonly code?: unknown }
  const why = typeof code === 'string' ? `: ${code}` : ''
  return providerError('llm_unavailable', `${destination} cannot be reached${why}.`, {
    cause: thrown,
    circuit,
  })
}
