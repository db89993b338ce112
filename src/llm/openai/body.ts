// The body of a chat completion request, and how it adapts to a server that does not take a parameter.
import type { GraphmillError } from '../../errors.ts'
import type { CompletionRequest } from '../llm.ts'
import { type Body, present, refuseConflict, stopField } from '../request-body.ts'

/** What a server may not take: `max_tokens` becomes `max_completion_tokens`, the others are left out. */
export type Quirk = 'max_tokens' | 'temperature' | 'stream_options'

const quirks: readonly Quirk[] = ['max_tokens', 'temperature', 'stream_options']

/**
 * The body of a streaming request. `stop` lists are merged, the declared ones first.
 * Throws `llm_request_invalid` when an extra contradicts a field that is set here.
 */
export function chatBody(request: CompletionRequest, model: string, known: ReadonlySet<Quirk>): Body {
  const { sampling = {} } = request
  const set = present({
    model,
    messages: request.messages,
    stream: true,
    stream_options: known.has('stream_options') ? undefined : { include_usage: true },
    temperature: known.has('temperature') ? undefined : sampling.temperature,
    [known.has('max_tokens') ? 'max_completion_tokens' : 'max_tokens']: sampling.maxTokens,
    top_p: sampling.topP,
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
  })
  const { stop, ...extras } = present(request.extras ?? {})
  refuseConflict(set, extras)
  return { ...extras, ...set, ...stopField(sampling.stop, stop) }
}

/** The parameter of this body that the server refuses, if the request can do without it. */
export function refusedParameter(error: GraphmillError, body: Body): Quirk | undefined {
  if (error.code !== 'llm_request_invalid') return undefined
  const { param, server = '' } = error.details as { param?: string; server?: string }
  return quirks.find((name) => name in body && (param === name || refuses(server, name)))
}

const refusal =
  /un(supported|known|recognized|expected)|not (supported|permitted|allowed)|does not support|extra|only the default/i

function refuses(message: string, name: string): boolean {
  return new RegExp(`\\b${name}\\b`).test(message) && refusal.test(message)
}
