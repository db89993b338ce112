// The models that Gemini's API lists, page by page.
import { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import { onlyOne, unknownModel } from '../model-list.ts'
import type { ModelServer } from '../model-server.ts'
import { notACompletion } from '../provider-error.ts'
import { type GeminiServerOptions, geminiServer, modelPath } from './server.ts'

/** More pages than this are not asked for: a server may repeat its token for ever. */
const mostPages = 20

/** The names of the models that generate text. */
export function listGeminiModels(
  options: GeminiServerOptions,
  signal: AbortSignal,
): Promise<readonly string[]> {
  return namesOn(geminiServer(options, ''), signal)
}

/** The model of a server that has exactly one. Throws `llm_model_unknown`, with the names, when one must be chosen. */
export async function onlyGeminiModel(options: GeminiServerOptions, signal: AbortSignal): Promise<string> {
  const server = geminiServer(options, '')
  return onlyOne(await namesOn(server, signal), server.peer)
}

/** Throws `llm_model_unknown`, with the names of the server's models, when the server does not have `model`. */
export async function checkModel(server: ModelServer, model: string, signal: AbortSignal): Promise<void> {
  try {
    await server.fetchJson(modelPath(model), undefined, signal)
  } catch (thrown) {
    if (!(thrown instanceof GraphmillError) || thrown.code !== 'llm_model_unknown') throw thrown
    const names = await namesOn(server, signal)
    throw unknownModel(`${server.peer.destination} does not have the model ${model}`, names, server.peer)
  }
}

async function namesOn({ peer, fetchJson }: ModelServer, signal: AbortSignal): Promise<readonly string[]> {
  const names: string[] = []
  let page = ''
  for (let pages = 0; pages < mostPages; pages++) {
    const answer = await fetchJson(`/models?pageSize=1000${page}`, undefined, signal)
    // A page without models has no such field.
    const { models = [], nextPageToken: next } = answer
    if (!Array.isArray(models)) throw notACompletion(peer, JSON.stringify(answer))
    names.push(...models.flatMap(nameOf))
    if (typeof next !== 'string' || next === '') break
    page = `&pageToken=${encodeURIComponent(next)}`
  }
  return names
}

function nameOf(model: unknown): string[] {
  if (!isObject(model) || typeof model['name'] !== 'string') return []
  const { name, supportedGenerationMethods: methods } = model as { name: string; [field: string]: unknown }
  if (Array.isArray(methods) && !methods.includes('generateContent')) return []
  return [name.replace(/^models\//, '')]
}
