// The connection to an OpenAI-compatible server, by the `openai` package. It never retries.
import { APIConnectionTimeoutError, APIError, OpenAI } from 'openai'
import { type Secret, secretText } from '../../config/secret.ts'
import { GraphmillError } from '../../errors.ts'
import { serverAddress } from '../model-server.ts'
import { type ClientOptions, limitsOf, type Peer, refusing, silence, unreachable } from '../transport.ts'

export interface OpenAiServer extends ClientOptions {
  /** With its path, as in `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** Read at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
}

export interface Connection {
  readonly client: OpenAI
  readonly peer: Peer
}

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function connect(server: OpenAiServer, model: string): Connection {
  const destination = serverAddress(server.baseUrl)
  const peer = { destination, circuit: `llm:openai ${destination} ${model}`, ...limitsOf(server) }
  const client = new OpenAI({
    baseURL: server.baseUrl.replace(/\/+$/, ''),
    apiKey: async () => (server.apiKey ? secretText(server.apiKey) : 'none'),
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: peer.timeoutMs,
    logLevel: 'off',
    fetch: refusing(server.fetch ?? globalThis.fetch, peer),
    ...(server.apiKey ? {} : { defaultHeaders: { authorization: null } }),
  })
  return { client, peer }
}

/** An error of the `openai` package as one of graphmill's. Everything else, such as a defect, is returned as it is. */
export function explain(thrown: unknown, peer: Peer): unknown {
  if (!(thrown instanceof APIError)) return thrown
  if (thrown.cause instanceof GraphmillError) return thrown.cause
  if (thrown instanceof APIConnectionTimeoutError) return silence(peer.timeoutMs, peer, thrown)
  return unreachable(peer, thrown)
}
