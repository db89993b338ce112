// The connection to an OpenAI-compatible server, by the `openai` package. It never retries.
import { APIConnectionTimeoutError, APIError, OpenAI } from 'openai'
import { type Secret, secretText } from '../../config/secret.ts'
import { GraphmillError } from '../../errors.ts'
import type { Fetch } from '../../http/request.ts'
import { serverAddress } from '../model-server.ts'
import { type ClientOptions, limitsOf, type Peer, refusing, silence, unreachable } from '../transport.ts'
import { type AzureAddress, type AzureOptions, azureAddress } from './azure.ts'

export interface OpenAiServer extends ClientOptions {
  /** With its path, as in `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** Read at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
  /** When given, the server is Azure OpenAI. Default: Azure is recognised by the address. */
  readonly azure?: AzureOptions | undefined
}

export interface Connection {
  readonly client: OpenAI
  readonly peer: Peer
  /** Where the models are listed: a path, or a whole address. */
  readonly modelsPath: string
  /** A server of Azure's lists models, and is asked for deployments of them. */
  readonly azure: AzureAddress | undefined
}

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function connect(server: OpenAiServer, model: string): Connection {
  const azure = azureAddress(server.baseUrl, server.azure)
  const destination = azure ? azure.base(model) : serverAddress(server.baseUrl)
  const peer = { destination, circuit: `llm:openai ${destination} ${model}`, ...limitsOf(server) }
  const bearer = azure ? server.azure?.token : server.apiKey
  const send = refusing(server.fetch ?? globalThis.fetch, peer)
  const client = new OpenAI({
    baseURL: azure ? destination : server.baseUrl.replace(/\/+$/, ''),
    apiKey: async () => (bearer ? secretText(bearer) : 'none'),
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: peer.timeoutMs,
    logLevel: 'off',
    fetch: azure && !bearer && server.apiKey ? withApiKey(send, server.apiKey) : send,
    ...(azure && { defaultQuery: azure.query }),
    ...(bearer ? {} : { defaultHeaders: { authorization: null } }),
  })
  return { client, peer, modelsPath: azure?.models ?? '/models', azure }
}

/** Sends the key as Azure wants it. */
function withApiKey(send: Fetch, key: string | Secret): Fetch {
  return (input, init) => {
    const headers = new Headers(init?.headers)
    headers.set('api-key', secretText(key))
    return send(input, { ...init, headers })
  }
}

/** An error of the `openai` package as one of graphmill's. Everything else, such as a defect, is returned as it is. */
export function explain(thrown: unknown, peer: Peer): unknown {
  if (!(thrown instanceof APIError)) return thrown
  if (thrown.cause instanceof GraphmillError) return thrown.cause
  if (thrown instanceof APIConnectionTimeoutError) return silence(peer.timeoutMs, peer, thrown)
  return unreachable(peer, thrown)
}
