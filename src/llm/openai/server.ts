// Requests to an OpenAI-compatible server.
import { type Secret, secretText } from '../../config/secret.ts'
import { createModelServer, type ModelServer, serverAddress } from '../model-server.ts'
import { unexpectedAnswer } from '../provider-error.ts'
import { type ClientOptions, limitsOf } from '../transport.ts'
import { type AzureAddress, type AzureOptions, azureAddress } from './azure.ts'

export interface OpenAiServer extends ClientOptions {
  /** With its path, as in `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** Read at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
  /** When given, the server is Azure OpenAI. Default: Azure is recognised by the address. */
  readonly azure?: AzureOptions | undefined
}

export interface Connection extends ModelServer {
  /** A server of Azure's lists models, and is asked for deployments of them. */
  readonly azure: AzureAddress | undefined
}

/** The path of the list of models. */
export const modelsPath = '/models'

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function openAiServer(server: OpenAiServer, model: string): Connection {
  const azure = azureAddress(server.baseUrl, server.azure)
  const destination = azure ? azure.base(model) : serverAddress(server.baseUrl)
  const peer = { destination, circuit: `llm:openai ${destination} ${model}`, ...limitsOf(server) }
  const query = azure ? new URLSearchParams(azure.query).toString() : ''
  return {
    azure,
    ...createModelServer({
      ...server,
      peer,
      // Azure lists its models beside the deployments.
      locate: (path) =>
        (azure && path === modelsPath ? azure.models : destination + path) + (query && `?${query}`),
      headers: () => authorization(server, azure !== undefined),
      unexpected: (where, answer) => unexpectedAnswer(where, "is not OpenAI's", answer),
    }),
  }
}

/** Azure takes a token as others take their key, and the key in a header of its own. */
function authorization({ apiKey, azure }: OpenAiServer, isAzure: boolean): Record<string, string> {
  const bearer = isAzure ? azure?.token : apiKey
  if (bearer) return { authorization: `Bearer ${secretText(bearer)}` }
  return apiKey ? { 'api-key': secretText(apiKey) } : {}
}
