// Which models an Ollama server has, for those who name none or a wrong one.
import { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import { providerError } from '../provider-error.ts'
import { notOllama } from './record.ts'
import { type OllamaServer, ollamaServer } from './server.ts'

/** The names of the models that a server has; none where it has no list. `host` is written as OLLAMA_HOST is. */
export function listOllamaModels(host: string, signal: AbortSignal): Promise<readonly string[]> {
  return listOf(ollamaServer({ host }, ''), signal)
}

/** The model of a server that has exactly one. Throws `llm_model_unknown`, naming the models, where one must be chosen. */
export async function onlyOllamaModel(host: string, signal: AbortSignal): Promise<string> {
  const server = ollamaServer({ host }, '')
  const listed = await listOf(server, signal)
  if (listed.length === 1) return listed[0]!
  throw unknownModel(`No model is named, and ${server.peer.destination} has ${listed.length}`, listed, server)
}

/** Throws `llm_model_unknown`, naming the models that there are, where the server does not have `model`. */
export async function checkModel(server: OllamaServer, model: string, signal: AbortSignal): Promise<void> {
  const listed = await listOf(server, signal)
  if (listed.includes(model) || listed.includes(`${model}:latest`)) return
  try {
    // Models that run elsewhere are not listed, but known when asked for by name.
    await server.tell('/api/show', { model }, signal)
  } catch (thrown) {
    if (!isMissing(thrown)) throw thrown
    throw unknownModel(`${server.peer.destination} does not have the model ${model}`, listed, server)
  }
}

async function listOf({ peer, tell }: OllamaServer, signal: AbortSignal): Promise<readonly string[]> {
  try {
    const answer = await tell('/api/tags', undefined, signal)
    // A server without any model says null.
    const models = answer['models'] ?? []
    if (!Array.isArray(models)) throw notOllama(peer, JSON.stringify(answer))
    return models
      .map((model) => (isObject(model) ? (model['name'] ?? model['model']) : undefined))
      .filter(isText)
  } catch (thrown) {
    if (isMissing(thrown)) return []
    throw thrown
  }
}

function isMissing(thrown: unknown): boolean {
  return (
    thrown instanceof GraphmillError && (thrown.details['status'] === 404 || thrown.details['status'] === 405)
  )
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function unknownModel(what: string, models: readonly string[], { peer }: OllamaServer): GraphmillError {
  const more = models.length > 10 ? ` and ${models.length - 10} more` : ''
  const names = models.length > 0 ? `: ${models.slice(0, 10).join(', ')}${more}` : ''
  return providerError('llm_model_unknown', `${what}${names}.`, {
    circuit: peer.circuit,
    details: { models },
  })
}
