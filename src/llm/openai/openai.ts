// A model of an OpenAI-compatible server. Nothing is retried here. A parameter that the server refuses is left out from then
// on, for as long as this value lives.
import { GraphmillError } from '../../errors.ts'
import { createConstraintProbe } from '../constraint-probe.ts'
import { callEvents } from '../event-stream.ts'
import type { CompletionRequest, Llm } from '../llm.ts'
import { chatBody, type Quirk, refusedParameter } from './body.ts'
import { checkModel, constrains, listModels } from './models.ts'
import { readBatches, readWhole } from './reply.ts'
import { type OpenAiServer, openAiServer } from './server.ts'

export type { AzureOptions } from './azure.ts'
export { listModels, onlyModel } from './models.ts'
export { finishReason, readBatches, reportedUsage } from './reply.ts'
export { isStrict, looseFormat, openAiJson, responseFormat } from './response-format.ts'
export { openAiServer } from './server.ts'

/** A model of OpenAI, or of any server with its API. */
export interface OpenAiOptions extends OpenAiServer {
  readonly model: string
}

/** A model of an OpenAI-compatible server. Throws `configuration_invalid` for an invalid address. */
export function createOpenAi(options: OpenAiOptions): Llm {
  const { model } = options
  const connection = openAiServer(options, model)
  const { peer } = connection
  const known = new Set<Quirk>()

  /** Sends the request, again after each refusal that names a parameter that can be left out. */
  async function send(request: CompletionRequest, upstream: AbortController): Promise<Response> {
    for (;;) {
      const body = chatBody(request, model, known)
      try {
        return await connection.fetch('/chat/completions', body, upstream)
      } catch (thrown) {
        const parameter = thrown instanceof GraphmillError ? refusedParameter(thrown, body) : undefined
        if (parameter === undefined) throw thrown
        known.add(parameter)
      }
    }
  }

  async function replyTo(request: CompletionRequest, signal: AbortSignal, upstream: AbortController) {
    const response = await send(request, upstream)
    const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
    const reply = { response, model, peer, signal }
    return isJson ? readWhole(reply) : readBatches(reply)
  }

  return {
    provider: 'openai',
    model,
    destination: peer.destination,
    circuit: peer.circuit,
    stream: (request, signal) => callEvents(peer, signal, (upstream) => replyTo(request, signal, upstream)),
    ready: (signal) => checkModel(connection, model, signal),
    // Azure's list has its models, and not the deployments that can be asked.
    ...(!connection.azure && { listModels: (signal: AbortSignal) => listModels(options, signal) }),
    constrains: createConstraintProbe((signal) => constrains(connection, signal)),
  }
}
