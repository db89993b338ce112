// A model of Gemini's API. Nothing is retried here. A feature that the server refuses is not used again, for as long as this value
// lives.
import { GraphmillError } from '../../errors.ts'
import { callEvents } from '../event-stream.ts'
import type { CompletionRequest, Llm } from '../llm.ts'
import { type Quirk, refusedQuirk, textBody } from './body.ts'
import { checkModel, listGeminiModels } from './models.ts'
import { readBatches } from './reply.ts'
import { type GeminiServerOptions, geminiServer, modelPath } from './server.ts'

export { contentBody } from './body.ts'
export { geminiJson } from './format.ts'
export { listGeminiModels, onlyGeminiModel } from './models.ts'
export { checkPrompt, finishReason, partsOf, readBatches, reportedUsage } from './reply.ts'
export { geminiServer, modelPath } from './server.ts'

/** A model of Google's Gemini API. */
export interface GeminiOptions extends GeminiServerOptions {
  readonly model: string
}

/** A model of Gemini's API. Throws `configuration_invalid` for an invalid address. */
export function createGemini(options: GeminiOptions): Llm {
  const { model } = options
  const server = geminiServer(options, model)
  const { peer } = server
  const path = `${modelPath(model)}:streamGenerateContent?alt=sse`
  const known = new Set<Quirk>()

  /** Sends the request, and sends it again after each refusal of a feature that something else can replace. */
  async function send(request: CompletionRequest, upstream: AbortController) {
    for (;;) {
      const asked = textBody(request, known)
      try {
        return { response: await server.fetch(path, asked.body, upstream), form: asked.form }
      } catch (thrown) {
        const quirk = thrown instanceof GraphmillError ? refusedQuirk(thrown, asked) : undefined
        if (quirk === undefined || known.has(quirk)) throw thrown
        known.add(quirk)
      }
    }
  }

  async function replyTo(request: CompletionRequest, upstream: AbortController) {
    return readBatches({ ...(await send(request, upstream)), model, peer })
  }

  return {
    provider: 'gemini',
    model,
    destination: peer.destination,
    circuit: peer.circuit,
    stream: (request, signal) => callEvents(peer, signal, (upstream) => replyTo(request, upstream)),
    ready: (signal) => checkModel(server, model, signal),
    listModels: (signal) => listGeminiModels(options, signal),
    constrains: async () => true,
  }
}
