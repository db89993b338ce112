// The body of a Messages request, and how it adapts to a model that does not take a parameter.
import { GraphmillError } from '../../errors.ts'
import { isObject } from '../../is-object.ts'
import type { CompletionRequest, Sampling, TextMessage } from '../llm.ts'
import { invalid } from '../provider-error.ts'
import { type Body, present, refuseConflict, stopField } from '../request-body.ts'
import { answerTool, forcedTool, isBlank, isThinking } from './format.ts'

/** Anthropic requires a limit. A reply that is cut off there is continued. */
const defaultMaxTokens = 16_384

/** What the server has refused. */
export interface Known {
  /** The largest `max_tokens` of the model. */
  mostTokens?: number
  /** Parameters that are left out; without `output_config.format` a tool takes its place. */
  readonly without: Set<Parameter>
}

const parameters = ['temperature', 'top_p', 'output_config', 'eager_input_streaming'] as const

export type Parameter = (typeof parameters)[number]

/**
 * The body of a streaming request. `stop_sequences` are merged, the declared ones first. Throws `llm_request_invalid` when an
 * extra contradicts a field that is set here, and for sampling parameters that Anthropic does not have.
 */
export function messagesBody(request: CompletionRequest, model: string, known: Known): Body {
  const { sampling = {}, messages } = request
  refuseUnsupported(sampling)
  const { stop_sequences: stops, max_tokens: limit, ...extras } = present(request.extras ?? {})
  const { temperature, topP, maxTokens = limit } = sampling
  const set = present({
    model,
    max_tokens: maxTokens ?? Math.min(defaultMaxTokens, known.mostTokens ?? defaultMaxTokens),
    system: systemOf(messages),
    messages: turnsOf(messages),
    stream: true,
    temperature: known.without.has('temperature') ? undefined : temperature,
    top_p: known.without.has('top_p') ? undefined : topP,
  })
  refuseConflict(set, { ...extras, ...(limit !== undefined && { max_tokens: limit }) })
  const { stop } = stopField(sampling.stop, stops)
  return { ...formatted(extras, known), ...set, ...(stop && { stop_sequences: stop }) }
}

/** Whether the answer of a request is the input of a tool. */
export function asksByTool({ tool_choice: choice }: Body): boolean {
  return isObject(choice) && choice['name'] === answerTool
}

function refuseUnsupported({ seed, frequencyPenalty, presencePenalty }: Sampling): void {
  const name = Object.entries({ seed, frequencyPenalty, presencePenalty }).find(
    ([, value]) => value != null,
  )?.[0]
  if (name) throw invalid(`Anthropic's API has no ${name}.`)
}

function systemOf(messages: readonly TextMessage[]): string | undefined {
  const texts = messages.filter(({ role, content }) => role === 'system' && !isBlank(content))
  return texts.length > 0 ? texts.map(({ content }) => content).join('\n\n') : undefined
}

/** Roles alternate, and no text is blank: neighbours of one role are joined. */
function turnsOf(messages: readonly TextMessage[]): readonly TextMessage[] {
  const turns: TextMessage[] = []
  for (const message of messages) {
    const { role, content } = message
    if (role === 'system' || isBlank(content)) continue
    const last = turns.at(-1)
    if (last?.role === role) turns[turns.length - 1] = { role, content: `${last.content}\n\n${content}` }
    else turns.push({ role, content })
  }
  return turns
}

/** The extras, with the format of the reply as this model takes it. */
function formatted(extras: Body, { without }: Known): Body {
  const { output_config: config, ...others } = extras
  const schema = schemaOf(extras)
  if (!schema || !without.has('output_config') || !canForceTool(extras)) return extras
  const { format: _, ...rest } = config as Body
  const { tools, ...choice } = forcedTool(schema)
  const [tool] = tools as readonly Body[]
  // Without eager streaming the input comes only when it is complete, and no item could leave before.
  const eager = without.has('eager_input_streaming') ? {} : { eager_input_streaming: true }
  return {
    ...others,
    ...(Object.keys(rest).length > 0 && { output_config: rest }),
    tools: [{ ...tool, ...eager }],
    ...choice,
  }
}

function schemaOf({ output_config: config }: Body): Body | undefined {
  const format = isObject(config) ? config['format'] : undefined
  const schema = isObject(format) ? format['schema'] : undefined
  return isObject(schema) ? schema : undefined
}

function canForceTool(body: Body): boolean {
  return !isThinking(body) && body['tools'] === undefined && body['tool_choice'] === undefined
}

const refusal =
  /un(supported|known|recognized|expected)|not (supported|permitted|allowed|available)|does(n't| not) support|deprecated|extra/i
const tooMany = /max_tokens: \d+ > (\d+)/

/** Adds to `known` what this refusal says. Returns whether the request can be sent again without it. */
export function learnRefusal(error: unknown, body: Body, request: CompletionRequest, known: Known): boolean {
  if (!(error instanceof GraphmillError) || error.code !== 'llm_request_invalid') return false
  const said = String(error.details['server'] ?? '')
  const most = Number(tooMany.exec(said)?.[1])
  const isDefault = (request.sampling?.maxTokens ?? request.extras?.['max_tokens']) === undefined
  if (most > 0 && isDefault && most < Number(body['max_tokens'])) {
    known.mostTokens = most
    return true
  }
  const parameter = parameters.find((name) => !known.without.has(name) && refuses(said, name, body))
  if (parameter === undefined) return false
  known.without.add(parameter)
  return true
}

/** Whether the server refuses a parameter that the request can do without. */
function refuses(said: string, name: Parameter, body: Body): boolean {
  if (!refusal.test(said)) return false
  if (name === 'eager_input_streaming') return asksByTool(body) && said.includes(name)
  if (name !== 'output_config') return name in body && new RegExp(`\\b${name}\\b`).test(said)
  // A fault of the schema is not one of the format.
  return (
    schemaOf(body) !== undefined && canForceTool(body) && formatWords.test(said) && !/\.schema\b/.test(said)
  )
}

const formatWords = /output[_ ]?(config|format)|structured[_ ]?output/i
