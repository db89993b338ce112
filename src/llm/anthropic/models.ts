// The models that Anthropic lists, and what it says of one. Gateways may have no list.
import { isObject } from '../../is-object.ts'
import { isMissing, onlyOne, unknownModel } from '../model-list.ts'
import type { ModelServer } from '../model-server.ts'
import { type AnthropicServer, anthropicServer } from './server.ts'

/** The ids of the models that a server lists; none if it has no list. */
export async function listAnthropicModels(
  server: AnthropicServer,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return (await list(anthropicServer(server, ''), signal)) ?? []
}

/** The model of a server that lists exactly one. Throws `llm_model_unknown`, with the listed names, when one must be chosen. */
export async function onlyAnthropicModel(server: AnthropicServer, signal: AbortSignal): Promise<string> {
  const { peer } = anthropicServer(server, '')
  return onlyOne(await listAnthropicModels(server, signal), peer)
}

/** Throws `llm_model_unknown`, with the listed names, when the server has a list and does not know `model`. */
export async function checkModel(server: ModelServer, model: string, signal: AbortSignal): Promise<void> {
  try {
    await server.fetchJson(pathOf(model), undefined, signal)
  } catch (thrown) {
    if (!isMissing(thrown)) throw thrown
    const listed = await list(server, signal)
    if (!listed || listed.length === 0 || listed.includes(model)) return
    throw unknownModel(`${server.peer.destination} does not have the model ${model}`, listed, server.peer)
  }
}

/** Whether the server says that the model keeps to a schema. */
export async function constrains(server: ModelServer, model: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { capabilities } = await server.fetchJson(pathOf(model), undefined, signal)
    const outputs = isObject(capabilities) ? capabilities['structured_outputs'] : undefined
    return isObject(outputs) && outputs['supported'] === true
  } catch (thrown) {
    if (isMissing(thrown)) return false
    throw thrown
  }
}

function pathOf(model: string): string {
  return `/v1/models/${encodeURIComponent(model)}`
}

/** What the first page lists, which has room for all; undefined if the server has no such route. */
async function list(server: ModelServer, signal: AbortSignal): Promise<readonly string[] | undefined> {
  try {
    const { data } = await server.fetchJson('/v1/models?limit=1000', undefined, signal)
    if (!Array.isArray(data)) return undefined
    return data
      .map((model) => (isObject(model) ? model['id'] : undefined))
      .filter((id) => typeof id === 'string')
  } catch (thrown) {
    if (isMissing(thrown)) return undefined
    throw thrown
  }
}
