// The body of a chat completion request, and how it adapts to a server that does not take a parameter.
// Nothing that the caller gave is changed; an extra that contradicts what we manage is refused, never overridden in silence.
import { isDeepStrictEqual } from 'node:util'
import type { GraphmillError } from '../../errors.ts'
import type { CompletionRequest } from '../llm.ts'
import { providerError } from '../provider-error.ts'

/** What a server was found not to take: `max_tokens` becomes `max_completion_tokens`, the others are left out. */
export type Quirk = 'max_tokens' | 'temperature' | 'stream_options'

const quirks: readonly Quirk[] = ['max_tokens', 'temperature', 'stream_options']

type Body = Readonly<Record<string, unknown>>

/**
 * The body of a streaming request. Throws `llm_request_invalid` when an extra contradicts a field that is managed here;
 * `stop` lists are merged, the declared ones first.
 */
export function chatBody(request: CompletionRequest, model: string, known: ReadonlySet<Quirk>): Body {
  const { sampling = {} } = request
  const managed = present({
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
  const extras = present(request.extras ?? {})
  const conflict = Object.keys(managed).find(
    (name) => name in extras && !isDeepStrictEqual(extras[name], managed[name]),
  )
  if (conflict)
    throw providerError('llm_request_invalid', `The extra field ${conflict} contradicts the request's own.`)
  const stops = merged(sampling.stop ?? [], extras['stop'])
  return { ...without(extras, 'stop'), ...managed, ...(stops.length > 0 ? { stop: stops } : {}) }
}

/** The parameter of this body that the server says it does not take, if we can do without it. */
export function refusedParameter(error: GraphmillError, body: Body): Quirk | undefined {
  if (error.code !== 'llm_request_invalid') return undefined
  const { param, server } = error.details as { param?: string; server?: string }
  return quirks.find((name) => name in body && (param === name || speaksAgainst(server ?? '', name)))
}

function speaksAgainst(message: string, name: string): boolean {
  return (
    new RegExp(`\\b${name}\\b`).test(message) &&
    /un(supported|known|recognized|expected)|not (supported|permitted|allowed)|does not support|extra|only the default/i.test(
      message,
    )
  )
}

/** OpenAI takes a string or a list of them; anything else is no list of stops and counts as absent. */
function merged(declared: readonly string[], extra: unknown): readonly string[] {
  const list = typeof extra === 'string' ? [extra] : extra
  const valid = Array.isArray(list) && list.every((stop) => typeof stop === 'string')
  return [...new Set([...declared, ...(valid ? (list as string[]) : [])])]
}

function present(fields: Body): Body {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

function without(fields: Body, name: string): Body {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name))
}
