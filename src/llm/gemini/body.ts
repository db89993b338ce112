// The body of a request for content. Sampling parameters are in `generationConfig`, and so are extra fields, apart from those that
// Google's reference places at the root.
import type { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import type { CompletionRequest, Sampling } from '../llm.ts'
import { type Body, present, refuseConflict } from '../request-body.ts'

/** A feature that some models do not take. */
export type Quirk = 'systemInstruction' | 'responseJsonSchema' | 'functionCalling'

/** The fields of the body, apart from `generationConfig`. */
export interface Content {
  readonly contents: readonly Body[]
  readonly systemInstruction?: Body | undefined
  readonly tools?: readonly Body[] | undefined
  readonly toolConfig?: Body | undefined
}

export interface AskedBody {
  readonly body: Body
  /** The function whose arguments are the reply, for a model that takes no schema. */
  readonly form?: string
}

const atRoot = new Set([
  ...['contents', 'systemInstruction', 'tools', 'toolConfig'],
  ...['safetySettings', 'cachedContent', 'labels', 'serviceTier', 'store'],
])

/**
 * `own` are further fields of `generationConfig`. Stop sequences are merged, the declared ones first.
 * Throws `llm_request_invalid` when an extra contradicts a field that is set here.
 */
export function contentBody(content: Content, sampling: Sampling, extras: Body = {}, own: Body = {}): Body {
  const { stop } = sampling
  const set = present({
    ...own,
    temperature: sampling.temperature,
    maxOutputTokens: sampling.maxTokens,
    topP: sampling.topP,
    seed: sampling.seed,
    frequencyPenalty: sampling.frequencyPenalty,
    presencePenalty: sampling.presencePenalty,
  })
  const root = present(content)
  const given = Object.entries(present(extras))
  const rootExtras = Object.fromEntries(given.filter(([name]) => atRoot.has(name)))
  const configExtras = Object.fromEntries(given.filter(([name]) => !atRoot.has(name)))
  refuseConflict(root, rootExtras)
  refuseConflict(set, configExtras, 'generationConfig.')
  const stops = stop && { stopSequences: merged(stop, configExtras['stopSequences']) }
  const generationConfig = { ...configExtras, ...set, ...stops }
  return { ...rootExtras, ...root, ...(Object.keys(generationConfig).length > 0 && { generationConfig }) }
}

/** An extra that is no list of texts counts as absent. */
function merged(declared: readonly string[], extra: unknown): readonly unknown[] {
  const isList = Array.isArray(extra) && extra.every((stop) => typeof stop === 'string')
  return [...new Set([...declared, ...(isList ? extra : [])])]
}

/** The body of a request of texts, without the features in `known`, which the model does not take. */
export function textBody(request: CompletionRequest, known: ReadonlySet<Quirk>): AskedBody {
  const { messages, sampling = {}, extras = {} } = request
  const system = messages
    .filter(({ role, content }) => role === 'system' && content !== '')
    .map(({ content }) => content)
  const contents = messages
    // A part without text is refused.
    .filter(({ role, content }) => role !== 'system' && content !== '')
    .map(({ role, content }) => ({
      role: role === 'assistant' ? 'model' : 'user',
      parts: [{ text: content }],
    }))
  const instruction = system.length > 0 ? { parts: [{ text: system.join('\n\n') }] } : undefined
  const isRefused = instruction !== undefined && known.has('systemInstruction')
  const [first, ...others] = contents
  const content: Content = isRefused
    ? { contents: [{ role: 'user', parts: [...instruction.parts, ...(first?.parts ?? [])] }, ...others] }
    : { contents, systemInstruction: instruction }
  const { responseJsonSchema: schema, responseMimeType: _, ...plain } = extras
  if (!isObject(schema) || !known.has('responseJsonSchema') || known.has('functionCalling'))
    return { body: contentBody(content, sampling, extras) }
  return { body: contentBody({ ...content, ...asFunction(schema) }, sampling, plain), form }
}

const form = 'write_reply'

/** The reply as the arguments of the only function that the model may call, and must. */
function asFunction(schema: Body): Pick<Content, 'tools' | 'toolConfig'> {
  const declared = { name: form, description: 'Writes the whole reply.', parametersJsonSchema: schema }
  return {
    tools: [{ functionDeclarations: [declared] }],
    toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [form] } },
  }
}

/** What the model does not take, if the server refused this body for it and there is another way. */
export function refusedQuirk(error: GraphmillError, { body, form: asked }: AskedBody): Quirk | undefined {
  if (error.code !== 'llm_request_invalid') return undefined
  const { server = '' } = error.details as { server?: string }
  if ('systemInstruction' in body && /(developer|system)[ _]?instruction/i.test(server))
    return 'systemInstruction'
  if (asked !== undefined) return /function|tool/i.test(server) ? 'functionCalling' : undefined
  const { responseJsonSchema: schema } = (body['generationConfig'] ?? {}) as Body
  const isRefused = /json mode|responseJsonSchema|response_json_schema|not support.*schema/i.test(server)
  return isObject(schema) && isRefused ? 'responseJsonSchema' : undefined
}
