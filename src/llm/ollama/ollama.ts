// A model behind Ollama's own API. Nothing is retried here.
import { callEvents } from '../event-stream.ts'
import type { CompletionRequest, Llm } from '../llm.ts'
import { type OllamaApi, type OllamaDefaults, ollamaBody } from './body.ts'
import { checkModel, listOllamaModels } from './models.ts'
import { readReply } from './reply.ts'
import { type OllamaServerOptions, ollamaServer } from './server.ts'

export { ollamaJson } from './format.ts'
export { ollamaBaseUrl } from './host.ts'
export { listOllamaModels, onlyOllamaModel } from './models.ts'

/** A model of an Ollama server. */
export interface OllamaOptions extends OllamaServerOptions, OllamaDefaults {
  readonly model: string
  /** Default `chat`. */
  readonly api?: OllamaApi
  /** Largest line of a reply in bytes. Default 16 MiB. */
  readonly maxLine?: number
  /** Called for faults of a reply that do no harm, such as bytes that are no UTF-8. Default: they are ignored. */
  readonly onWarning?: (message: string) => void
}

/**
 * A model of an Ollama server. Throws `configuration_invalid` for an invalid address.
 * Its stream throws `context_overflow` when the prompt did not fit, at the latest at the end of the reply.
 */
export function createOllama(options: OllamaOptions): Llm {
  const { model, api = 'chat', numCtx = 8192, think, format } = options
  const { maxLine = 16 * 1024 * 1024, onWarning: warn = () => {} } = options
  const server = ollamaServer(options, model)
  const { peer } = server
  const defaults = { api, numCtx, ...(think !== undefined && { think }), ...(format && { format }) }

  async function replyTo(request: CompletionRequest, upstream: AbortController) {
    const body = ollamaBody(request, model, defaults)
    const response = await server.fetch(`/api/${api}`, body, upstream)
    const asked = { model, numCtx: Number(body.options['num_ctx']) }
    return readReply({ response, ...asked, peer, maxLine, warn })
  }

  return {
    provider: 'ollama',
    model,
    destination: peer.destination,
    circuit: peer.circuit,
    defaults,
    stream: (request, signal) => callEvents(peer, signal, (upstream) => replyTo(request, upstream)),
    ready: (signal) => checkModel(server, model, signal),
    listModels: (signal) => listOllamaModels(options.host, signal),
    constrains: async () => true,
  }
}
