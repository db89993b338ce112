// Requests to Gemini's API. The key is in a header, never in the address.
import { type Secret, secretText } from '../../config/secret.ts'
import { createModelServer, type ModelServer, serverAddress } from '../model-server.ts'
import { notACompletion } from '../provider-error.ts'
import { type ClientOptions, limitsOf } from '../transport.ts'
import { geminiRefusal } from './error.ts'

export interface GeminiServerOptions extends ClientOptions {
  /** With or without the version of the API, as in `https://example.org/v1beta`. Default: Google's, version v1beta. */
  readonly baseUrl?: string | undefined
  /** Read at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
}

export const geminiAddress = 'https://generativelanguage.googleapis.com'

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function geminiServer(options: GeminiServerOptions, model: string): ModelServer {
  const { baseUrl = geminiAddress, apiKey } = options
  const address = serverAddress(baseUrl)
  const destination = /\/v\d\w*$/.test(address) ? address : `${address}/v1beta`
  return createModelServer({
    ...options,
    peer: { destination, circuit: `llm:gemini ${destination} ${model}`, ...limitsOf(options) },
    headers: () => (apiKey ? { 'x-goog-api-key': secretText(apiKey) } : {}),
    refusal: geminiRefusal,
    unexpected: notACompletion,
  })
}

/** The path of a model: `gemini-2.5-flash` is `/models/gemini-2.5-flash`, and `tunedModels/x` stays. */
export function modelPath(model: string): string {
  const name = model.includes('/') ? model : `models/${model}`
  return `/${name.split('/').map(encodeURIComponent).join('/')}`
}
