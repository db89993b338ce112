// The body of a request to /api/chat or /api/generate. The context length is always said, since Ollama's own default is
// small and a longer prompt loses its middle in silence; servers that know how are asked to refuse such a prompt instead.
import { isDeepStrictEqual } from 'node:util'
import type { CompletionRequest, JsonSchema, TextMessage } from '../llm.ts'
import { providerError } from '../provider-error.ts'

/** What a model says in every request, unless the request's extras say otherwise. */
export interface OllamaDefaults {
  /** The context length in tokens, prompt and reply together. Default 8192. */
  readonly numCtx?: number
  /** Whether, or how hard, a model that can think does so first. Default: the server's. */
  readonly think?: boolean | 'low' | 'medium' | 'high'
  /** What the reply is constrained to. Default: nothing. */
  readonly format?: 'json' | JsonSchema
}

/** `generate` takes one user message, with or without a system message before it. */
export type OllamaApi = 'chat' | 'generate'

type Body = Readonly<Record<string, unknown>>

/** Throws `llm_request_invalid` when an extra contradicts what the request itself says; `stop` lists are merged. */
export function ollamaBody(
  request: CompletionRequest,
  model: string,
  { api, numCtx, ...defaults }: OllamaDefaults & { readonly api: OllamaApi; readonly numCtx: number },
): Body & { readonly options: Body } {
  const extras = request.extras ?? {}
  const managed = {
    model,
    ...(api === 'chat' ? { messages: request.messages } : asPrompt(request.messages)),
    stream: true,
  }
  refuseConflict(managed, extras, '')
  const options = optionsOf(request, extras['options'] ?? {})
  return {
    truncate: false,
    shift: false,
    ...present(defaults),
    ...present(extras),
    ...managed,
    options: { num_ctx: numCtx, ...options },
  }
}

function optionsOf({ sampling = {} }: CompletionRequest, extra: unknown): Body {
  if (typeof extra !== 'object' || extra === null || Array.isArray(extra))
    throw providerError('llm_request_invalid', 'The extra field options is no object.')
  const { stop = [] } = sampling
  const declared = present({
    temperature: sampling.temperature,
    num_predict: sampling.maxTokens,
    top_p: sampling.topP,
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
  })
  refuseConflict(declared, extra as Body, 'options.')
  const { stop: more, ...others } = present(extra as Body)
  const stops = [...new Set([...stop, ...stopList(more)])]
  return { ...others, ...declared, ...(stops.length > 0 ? { stop: stops } : {}) }
}

/** Anything but a string or a list of strings is no list of stops and counts as absent. */
function stopList(extra: unknown): readonly string[] {
  const list = typeof extra === 'string' ? [extra] : extra
  return Array.isArray(list) && list.every((stop) => typeof stop === 'string') ? (list as string[]) : []
}

function refuseConflict(managed: Body, extras: Body, place: string): void {
  const conflict = Object.keys(managed).find(
    (name) => extras[name] !== undefined && !isDeepStrictEqual(extras[name], managed[name]),
  )
  if (conflict)
    throw providerError(
      'llm_request_invalid',
      `The extra field ${place}${conflict} contradicts the request's own.`,
    )
}

function asPrompt(messages: readonly TextMessage[]): Body {
  const [first, ...others] = messages
  const [user, ...more] = first?.role === 'system' ? others : messages
  if (user?.role !== 'user' || more.length > 0)
    throw providerError(
      'llm_request_invalid',
      '/api/generate takes one user message and a system message at most.',
    )
  return { prompt: user.content, ...(first?.role === 'system' ? { system: first.content } : {}) }
}

function present(fields: object): Body {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
