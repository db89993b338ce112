// Requests to Anthropic's API, or to a server that speaks it.
import { type Secret, secretText } from '../../config/secret.ts'
import { createModelServer, type ModelServer, serverAddress } from '../model-server.ts'
import { type NamedServer, type ProviderError, unexpectedAnswer } from '../provider-error.ts'
import { type ClientOptions, limitsOf } from '../transport.ts'
import { recoded } from './error.ts'

export interface AnthropicServer extends ClientOptions {
  /** The part of the address before `/v1/messages`. Default: Anthropic itself. */
  readonly baseUrl?: string | undefined
  /** Read at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
}

const anthropicAddress = 'https://api.anthropic.com'
/** The version of the wire, which every request names. */
const version = '2023-06-01'

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function anthropicServer(options: AnthropicServer, model: string): ModelServer {
  const { baseUrl = anthropicAddress, apiKey } = options
  const destination = serverAddress(baseUrl)
  const peer = { destination, circuit: `llm:anthropic ${destination} ${model}`, ...limitsOf(options) }
  const headers = () => ({
    'anthropic-version': version,
    ...(apiKey && { 'x-api-key': secretText(apiKey) }),
  })
  return createModelServer({ ...options, peer, headers, recoded, unexpected: notAnthropic })
}

/** The error for an answer that is not Anthropic's. */
export function notAnthropic(server: NamedServer, answer: string, cause?: unknown): ProviderError {
  return unexpectedAnswer(server, "is not Anthropic's", answer, cause)
}
