// The models that an Ollama server has.
import { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import { onlyOne, unknownModel } from '../model-list.ts'
import type { ModelServer } from '../model-server.ts'
import { notOllama } from './record.ts'
import { ollamaServer } from './server.ts'

/** The names of the models that a server has; none if it has no list. `host` is written as OLLAMA_HOST is. */
export function listOllamaModels(host: string, signal: AbortSignal): Promise<readonly string[]> {
  return namesOn(ollamaServer({ host }, ''), signal)
}

/** The model of a server that has exactly one. Throws `llm_model_unknown`, with the names, when one must be chosen. */
export async function onlyOllamaModel(host: string, signal: AbortSignal): Promise<string> {
  const server = ollamaServer({ host }, '')
  return onlyOne(await namesOn(server, signal), server.peer)
}

/**
 * Throws `llm_model_unknown`, with the names of the server's models, when the server does not have `model`, and
 * `llm_address_wrong` when it has neither a list of models nor a page about this one.
 */
export async function checkModel(server: ModelServer, model: string, signal: AbortSignal): Promise<void> {
  const { peer, fetchJson } = server
  const names = await namesOn(server, signal)
  if (names.includes(model) || names.includes(`${model}:latest`)) return
  try {
    // Models that run elsewhere are not listed, but known when asked for by name.
    await fetchJson('/api/show', { model }, signal)
  } catch (thrown) {
    const isElsewhere =
      names.length === 0 && thrown instanceof GraphmillError && thrown.code === 'llm_address_wrong'
    if (!isMissing(thrown) || isElsewhere) throw thrown
    throw unknownModel(`${peer.destination} does not have the model ${model}`, names, peer)
  }
}

async function namesOn({ peer, fetchJson }: ModelServer, signal: AbortSignal): Promise<readonly string[]> {
  try {
    const answer = await fetchJson('/api/tags', undefined, signal)
    // A server without any model sends null.
    const models = answer['models'] ?? []
    if (!Array.isArray(models)) throw notOllama(peer, JSON.stringify(answer))
    return models
      .map((model) => (isObject(model) ? (model['name'] ?? model['model']) : undefined))
      .filter((name) => typeof name === 'string')
  } catch (thrown) {
    if (isMissing(thrown)) return []
    throw thrown
  }
}

function isMissing(thrown: unknown): boolean {
  const status = thrown instanceof GraphmillError ? thrown.details['status'] : undefined
  return status === 404 || status === 405
}
