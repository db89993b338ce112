// Requests to an Ollama server.
import { createModelServer, type ModelServer } from '../model-server.ts'
import { type ClientOptions, limitsOf, type Peer } from '../transport.ts'
import { recoded } from './error.ts'
import { ollamaBaseUrl } from './host.ts'
import { notOllama } from './record.ts'

export interface OllamaServerOptions extends ClientOptions {
  /** As OLLAMA_HOST is written: `127.0.0.1`, `gpu-box:11434`, `https://example.org/ollama`. */
  readonly host: string
}

/** `model` becomes a part of the circuit's name. Throws `configuration_invalid` for an invalid address. */
export function ollamaServer(options: OllamaServerOptions, model: string): ModelServer {
  const destination = ollamaBaseUrl(options.host)
  const peer: Peer = { destination, circuit: `llm:ollama ${destination} ${model}`, ...limitsOf(options) }
  return createModelServer({ ...options, peer, recoded, unexpected: notOllama })
}
