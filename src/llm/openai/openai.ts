// A model behind any OpenAI-compatible server. Nothing is retried here, and every failure is one of our coded errors;
// a parameter that the server does not take is left out from then on, for as long as this value lives.
import { APIConnectionTimeoutError, APIError, OpenAI } from 'openai'
import { type Secret, secretText } from '../../config/secret.ts'
import { GraphmillError } from '../../errors.ts'
import { parseJson } from '../../http/json.ts'
import { unlessAborted } from '../../wait.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import { providerError } from '../provider-error.ts'
import { beginCall, type Fetch, limitsOf, type Peer, readWatched, refusing, silence } from '../transport.ts'
import { chatBody, type Quirk, refusedParameter } from './body.ts'
import { readBatches, readWhole } from './reply.ts'
import { openAiJson } from './response-format.ts'

export { finishReason, lineLimit, notACompletion, readBatches, usageOf } from './reply.ts'
export { openAiJson, responseFormat } from './response-format.ts'

export interface OpenAiServer {
  /** With its path, as in `http://127.0.0.1:8080/v1`. */
  readonly baseUrl: string
  /** As it is at each call. Default: no key is sent. */
  readonly apiKey?: string | Secret | undefined
  /** The longest silence of the server, before the first byte and between any two. Default 120,000. */
  readonly timeoutMs?: number
  /** The longest call, from the request to the end of the reply. Default 600,000. */
  readonly callTimeoutMs?: number
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch
}

export interface OpenAiOptions extends OpenAiServer {
  readonly model: string
}

/** The longest wait for what a server says of itself. */
const probeMs = 10_000

/** A model of an OpenAI-compatible server. Throws `configuration_invalid` for an address that is none. */
export function createOpenAi(options: OpenAiOptions): Llm {
  const { model } = options
  const { client, peer } = connect(options, model)
  const known = new Set<Quirk>()

  /** Sends the request; a refusal that names a parameter we can do without is adapted to, once for each. */
  async function send(request: CompletionRequest, signal: AbortSignal): Promise<Response> {
    for (;;) {
      const body = chatBody(request, model, known)
      try {
        return await client.post('/chat/completions', { body, signal }).asResponse()
      } catch (thrown) {
        const error = explain(thrown, peer)
        const parameter = error instanceof GraphmillError ? refusedParameter(error, body) : undefined
        if (parameter === undefined) throw error
        known.add(parameter)
      }
    }
  }

  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    const call = beginCall(peer, signal)
    try {
      const response = await send(request, call.upstream.signal)
      const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '')
      const reply = { response, model, peer, signal }
      for await (const batch of isJson ? readWhole(reply) : readBatches(reply))
        for (const event of joined(batch)) {
          call.over = event.type === 'end'
          yield event
        }
      signal.throwIfAborted()
    } catch (thrown) {
      throw call.explain(thrown)
    } finally {
      call.end()
    }
  }

  async function ready(signal: AbortSignal): Promise<void> {
    const listed = await list(client, peer, signal)
    const own = listed?.find(({ id }) => isNamed(id, model))
    if (own?.loading)
      throw providerError('llm_model_loading', `${peer.destination} has not loaded ${model}.`, {
        circuit: peer.circuit,
      })
    if (own || !listed || listed.length === 0 || (await isServed(client, peer, model, signal))) return
    throw unknownModel(`${peer.destination} does not list the model ${model}`, listed, peer)
  }

  let constrained: boolean | undefined
  let probe: Promise<void> | undefined
  async function constrains(signal: AbortSignal): Promise<boolean> {
    if (constrained !== undefined) return constrained
    // One question for all who ask; a server that is away now is asked another time.
    probe ??= list(client, peer, AbortSignal.timeout(probeMs))
      .then((listed) => {
        constrained = (listed ?? []).some(({ owner }) => owner === 'llamacpp' || owner === 'vllm')
      })
      .catch(() => undefined)
      .finally(() => {
        probe = undefined
      })
    await unlessAborted(probe, signal)
    return constrained ?? false
  }

  const { destination, circuit } = peer
  return {
    provider: 'openai',
    model,
    destination,
    circuit,
    jsonFormat: openAiJson,
    stream,
    ready,
    constrains,
  }
}

/** Neighbouring deltas of one kind as one: what was read together is handed on together. */
export function* joined(batch: readonly CompletionEvent[]): Generator<CompletionEvent> {
  for (let at = 0; at < batch.length; ) {
    const event = batch[at++]!
    let text = event.type === 'delta' ? event.text : ''
    for (let next = batch[at]; next && isSameKind(event, next); next = batch[++at]) text += next.text
    yield event.type === 'delta' ? { ...event, text } : event
  }
}

type Delta = Extract<CompletionEvent, { type: 'delta' }>

function isSameKind(event: CompletionEvent, next: CompletionEvent): next is Delta {
  return event.type === 'delta' && next.type === 'delta' && event.kind === next.kind
}

/** The ids of the models that a server lists; empty where it has no list. */
export async function listModels(server: OpenAiServer, signal: AbortSignal): Promise<readonly string[]> {
  const { client, peer } = connect(server, '')
  return ((await list(client, peer, signal)) ?? []).map(({ id }) => id)
}

/** The model of a server that lists exactly one. Throws `llm_model_unknown`, naming the models, where one must be chosen. */
export async function onlyModel(server: OpenAiServer, signal: AbortSignal): Promise<string> {
  const { client, peer } = connect(server, '')
  const listed = (await list(client, peer, signal)) ?? []
  if (listed.length === 1) return listed[0]!.id
  throw unknownModel(`No model is named, and ${peer.destination} lists ${listed.length}`, listed, peer)
}

/** The client of a server and the peer that errors name. Throws `configuration_invalid` for an address that is none. */
export function connect(server: OpenAiServer, model: string): { client: OpenAI; peer: Peer } {
  const destination = addressOf(server.baseUrl)
  const peer = { destination, circuit: `llm:openai ${destination} ${model}`, ...limitsOf(server) }
  const client = new OpenAI({
    baseURL: server.baseUrl.replace(/\/+$/, ''),
    apiKey: async () => (server.apiKey ? secretText(server.apiKey) : 'none'),
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: peer.timeoutMs,
    logLevel: 'off',
    fetch: refusing(server.fetch ?? globalThis.fetch, peer),
    ...(server.apiKey ? {} : { defaultHeaders: { authorization: null } }),
  })
  return { client, peer }
}

/** The address as it may be shown. */
function addressOf(baseUrl: string): string {
  const url = URL.parse(baseUrl)
  if (!url || !/^https?:$/.test(url.protocol))
    throw new GraphmillError('configuration_invalid', `The address of the model server is no http(s) URL.`)
  if (url.username || url.password)
    throw new GraphmillError(
      'configuration_invalid',
      `The address of the model server must not hold credentials: ${url.host}`,
    )
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

interface Listed {
  readonly id: string
  /** What llama.cpp and vLLM say of their models: that they are theirs. */
  readonly owner: unknown
  readonly loading: boolean
}

/** What GET /models lists; undefined where the server has no such route, or answers it with something else. */
async function list(client: OpenAI, peer: Peer, signal: AbortSignal): Promise<readonly Listed[] | undefined> {
  const call = beginCall(peer, signal)
  try {
    const response = await client.get('/models', { signal: call.upstream.signal }).asResponse()
    const body = jsonOf(await readWatched(response, peer)) as { data?: unknown } | null | undefined
    call.over = true
    if (!Array.isArray(body?.data)) return undefined
    return (body.data as readonly Record<string, unknown>[])
      .filter((model) => typeof model?.['id'] === 'string')
      .map((model) => ({
        id: model['id'] as string,
        owner: model['owned_by'],
        loading: isLoading(model['status'] ?? model['state']),
      }))
  } catch (thrown) {
    const error = explain(call.explain(thrown), peer)
    const status = error instanceof GraphmillError ? error.details['status'] : undefined
    if (status === 404 || status === 405 || status === 501) return undefined
    throw error
  } finally {
    call.end()
  }
}

/** JSON, or undefined where it is none. */
function jsonOf(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

function isLoading(status: unknown): boolean {
  const word = typeof status === 'object' ? (status as { value?: unknown } | null)?.value : status
  return typeof word === 'string' && /^(not[-_ ]loaded|loading)$/.test(word)
}

/** Gemini lists `models/x` and Ollama `x:latest` for what is called x. */
function isNamed(id: string, model: string): boolean {
  return id === model || id === `models/${model}` || id === `${model}:latest`
}

/** Gateways serve models that they don't list; most of them tell when asked for one by name. */
async function isServed(client: OpenAI, peer: Peer, model: string, signal: AbortSignal): Promise<boolean> {
  const call = beginCall(peer, signal)
  try {
    const { signal: limit } = call.upstream
    const response = await client.get(`/models/${encodeURIComponent(model)}`, { signal: limit }).asResponse()
    return (jsonOf(await readWatched(response, peer)) as { id?: unknown } | null | undefined)?.id === model
  } catch {
    signal.throwIfAborted()
    return false
  } finally {
    call.end()
  }
}

function unknownModel(what: string, listed: readonly Listed[], peer: Peer): GraphmillError {
  const ids = listed.map(({ id }) => id)
  const more = ids.length > 10 ? ` and ${ids.length - 10} more` : ''
  const names = ids.length > 0 ? `: ${ids.slice(0, 10).join(', ')}${more}` : ''
  return providerError('llm_model_unknown', `${what}${names}.`, {
    circuit: peer.circuit,
    details: { models: ids },
  })
}

/** What the `openai` package threw, as ours; defects stay as they are. */
export function explain(thrown: unknown, peer: Peer): unknown {
  if (!(thrown instanceof APIError)) return thrown
  if (thrown.cause instanceof GraphmillError) return thrown.cause
  if (thrown instanceof APIConnectionTimeoutError) return silence(peer.timeoutMs, peer, thrown)
  const why = reasonOf(thrown.cause)
  return providerError('llm_unavailable', `${peer.destination} cannot be reached${why ? `: ${why}` : ''}.`, {
    cause: thrown,
    circuit: peer.circuit,
  })
}

/** The innermost cause that has a code, such as ECONNREFUSED. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return ''
  const { code } = cause as { code?: unknown }
  return reasonOf(cause.cause) || (typeof code === 'string' ? code : '')
}
