// The models of an OpenAI-compatible server: GET /models, which some servers do not have.
import { tryParseJson } from '../../http/json.ts'
import { isObject } from '../../is-object.ts'
import { isMissing, onlyOne, unknownModel } from '../model-list.ts'
import { isPage, serverError, unexpectedAnswer } from '../provider-error.ts'
import { readWatched, withinCall } from '../transport.ts'
import { type Connection, modelsPath, type OpenAiServer, openAiServer } from './server.ts'

interface ListedModel {
  readonly id: string
  /** llama.cpp and vLLM name themselves as the owner. */
  readonly owner: unknown
  readonly isLoading: boolean
}

/** The ids of the models that a server lists; none if it has no list. */
export async function listModels(server: OpenAiServer, signal: AbortSignal): Promise<readonly string[]> {
  return idsOf(await list(openAiServer(server, ''), signal))
}

/**
 * The model of a server that lists exactly one, or the deployment in its address. Throws `llm_model_unknown`, with the listed names,
 * when one must be chosen.
 */
export async function onlyModel(server: OpenAiServer, signal: AbortSignal): Promise<string> {
  const connection = openAiServer(server, '')
  const { azure, peer } = connection
  if (!azure) return onlyOne(idsOf(await list(connection, signal)), peer)
  if (azure.deployment !== undefined) return azure.deployment
  throw serverError('llm_model_unknown', peer, 'does not list its deployments. Name one as the model.')
}

/** Throws `llm_model_unknown` or `llm_model_loading` when the server does not have `model`, or not yet. */
export async function checkModel(connection: Connection, model: string, signal: AbortSignal): Promise<void> {
  const { peer } = connection
  const listed = await list(connection, signal)
  // The list of Azure's models checks the key; deployments have names of their own.
  if (connection.azure) return
  const own = listed?.find(({ id }) => isNamed(id, model))
  if (own?.isLoading) throw serverError('llm_model_loading', peer, `has not loaded ${model}.`)
  if (own || !listed || listed.length === 0 || (await isServed(connection, model, signal))) return
  throw unknownModel(`${peer.destination} does not list the model ${model}`, idsOf(listed), peer)
}

function idsOf(listed: readonly ListedModel[] = []): string[] {
  return listed.map(({ id }) => id)
}

/** Whether the server is known to constrain replies to a schema. */
export async function constrains(connection: Connection, signal: AbortSignal): Promise<boolean> {
  const listed = await list(connection, signal)
  return listed?.some(({ owner }) => owner === 'llamacpp' || owner === 'vllm') ?? false
}

/** What GET /models lists; undefined if the server has no such route, or answers it with something else. */
async function list(connection: Connection, signal: AbortSignal): Promise<ListedModel[] | undefined> {
  try {
    const { data } = (await get(connection, modelsPath, signal)) ?? {}
    if (!Array.isArray(data)) return undefined
    return data.flatMap((model: unknown) => {
      if (!isObject(model) || typeof model['id'] !== 'string') return []
      const { id, owned_by: owner, status, state } = model
      return [{ id, owner, isLoading: isLoading(status ?? state) }]
    })
  } catch (thrown) {
    if (isMissing(thrown)) return undefined
    throw thrown
  }
}

function isLoading(status: unknown): boolean {
  const word = isObject(status) ? status['value'] : status
  return typeof word === 'string' && /^(not[-_ ]loaded|loading)$/.test(word)
}

/** Gemini lists the model x as `models/x`, and Ollama as `x:latest`. */
function isNamed(id: string, model: string): boolean {
  return id === model || id === `models/${model}` || id === `${model}:latest`
}

/** Gateways serve models that they don't list. Most of them answer when asked for one by name. */
async function isServed(connection: Connection, model: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await get(connection, `/models/${encodeURIComponent(model)}`, signal))?.['id'] === model
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** The JSON object at a path; undefined for an answer of another form. Throws `llm_address_wrong` for a web page. */
function get(
  { fetch, peer }: Connection,
  path: string,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  return withinCall(peer, signal, async (upstream) => {
    const text = await readWatched(await fetch(path, undefined, upstream), peer)
    if (isPage(text)) throw unexpectedAnswer(peer, 'is no list of models', text)
    const value = tryParseJson(text)
    return isObject(value) ? value : undefined
  })
}
