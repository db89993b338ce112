// The body of a request to /api/chat or /api/generate. It always has the context length: Ollama's own default is small, and a
// longer prompt silently loses its middle. `truncate` and `shift` ask servers that know them to refuse such a prompt instead.
import { isObject } from '../../is-object.ts'
import type { CompletionRequest, JsonSchema, TextMessage } from '../llm.ts'
import { providerError } from '../provider-error.ts'
import { type Body, present, refuseConflict, stopField } from '../request-body.ts'

/** What every request of a model has, unless the extras of a request say otherwise. */
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

/** `stop` lists are merged. Throws `llm_request_invalid` when an extra contradicts a field that is set here. */
export function ollamaBody(
  request: CompletionRequest,
  model: string,
  { api, numCtx, ...defaults }: OllamaDefaults & { readonly api: OllamaApi; readonly numCtx: number },
): Body & { readonly options: Body } {
  const { extras = {}, messages } = request
  const set = { model, ...(api === 'chat' ? { messages } : asPrompt(messages)), stream: true }
  refuseConflict(set, extras)
  const options = { num_ctx: numCtx, ...optionsOf(request, extras['options'] ?? {}) }
  return { truncate: false, shift: false, ...present(defaults), ...present(extras), ...set, options }
}

function optionsOf({ sampling = {} }: CompletionRequest, extra: unknown): Body {
  if (!isObject(extra)) throw providerError('llm_request_invalid', 'The extra field options is no object.')
  const set = present({
    temperature: sampling.temperature,
    num_predict: sampling.maxTokens,
    top_p: sampling.topP,
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
  })
  refuseConflict(set, extra, 'options.')
  const { stop, ...others } = present(extra)
  return { ...others, ...set, ...stopField(sampling.stop, stop) }
}

function asPrompt(messages: readonly TextMessage[]): Body {
  const [first, ...others] = messages
  const [user, ...more] = first?.role === 'system' ? others : messages
  if (user?.role !== 'user' || more.length > 0)
    throw providerError(
      'llm_request_invalid',
      '/api/generate takes one user message and a system message at most.',
    )
  return { prompt: user.content, ...(first?.role === 'system' && { system: first.content }) }
}
