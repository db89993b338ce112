// A model behind Anthropic's Messages API. Nothing is retried here. A parameter that the model refuses is left out from then on,
// for as long as this value lives.
import { createConstraintProbe } from '../constraint-probe.ts'
import { callEvents } from '../event-stream.ts'
import type { CompletionRequest, Llm } from '../llm.ts'
import { asksByTool, type Known, learnRefusal, messagesBody } from './body.ts'
import { checkModel, constrains, listAnthropicModels } from './models.ts'
import { readBatches, readWhole } from './reply.ts'
import { type AnthropicServer, anthropicServer } from './server.ts'

export { recoded } from './error.ts'
export { answerTool, anthropicJson, forcedTool, isBlank, isThinking, outputConfig } from './format.ts'
export { listAnthropicModels, onlyAnthropicModel } from './models.ts'
export { finishReason, readBatches } from './reply.ts'
export { anthropicServer, notAnthropic } from './server.ts'

/** A model of Anthropic's API. */
export interface AnthropicOptions extends AnthropicServer {
  readonly model: string
}

/** A model of Anthropic's API. Throws `configuration_invalid` for an invalid address. */
export function createAnthropic(options: AnthropicOptions): Llm {
  const { model } = options
  const server = anthropicServer(options, model)
  const { peer } = server
  const known: Known = { without: new Set() }

  /** Sends the request, and sends it again, adapted, after each refusal of something that it can do without. */
  async function send(request: CompletionRequest, upstream: AbortController) {
    for (;;) {
      const body = messagesBody(request, model, known)
      try {
        return { response: await server.fetch('/v1/messages', body, upstream), byTool: asksByTool(body) }
      } catch (thrown) {
        if (!learnRefusal(thrown, body, request, known)) throw thrown
      }
    }
  }

  async function replyTo(request: CompletionRequest, signal: AbortSignal, upstream: AbortController) {
    const { response, byTool } = await send(request, upstream)
    const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
    const reply = { response, model, peer, signal, byTool }
    return isJson ? readWhole(reply) : readBatches(reply)
  }

  return {
    provider: 'anthropic',
    model,
    destination: peer.destination,
    circuit: peer.circuit,
    stream: (request, signal) => callEvents(peer, signal, (upstream) => replyTo(request, signal, upstream)),
    ready: (signal) => checkModel(server, model, signal),
    listModels: (signal) => listAnthropicModels(options, signal),
    constrains: createConstraintProbe((signal) => constrains(server, model, signal)),
  }
}
