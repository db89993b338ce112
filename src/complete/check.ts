// The check of a request before anything is sent. Every fault is a `provider_invalid_request`.
import { isObject } from '../is-object.ts'
import { invalid, ProviderError } from '../llm/provider-error.ts'
import { type CheckedSchema, checkedSchema } from '../llm/structured-output/checked-schema.ts'
import type { CallOptions, ProviderRequest, RuntimeConfig, Tool } from './provider.ts'

type Fields = Readonly<Record<string, unknown>>

/** What the check compiled, so that nothing is compiled twice. */
export interface CheckedRequest {
  readonly responseSchema: CheckedSchema | undefined
  /** By name. */
  readonly tools: ReadonlyMap<string, CheckedSchema>
}

/** Throws for a request that must not be sent. The request is never changed. */
export function checkRequest(request: ProviderRequest, options: CallOptions): CheckedRequest {
  checkMessages(request.messages)
  const tools = checkTools(request.tools ?? [])
  checkToolChoice(request.toolChoice, tools)
  checkConfig(request.config ?? {})
  for (const override of options.retry?.perAttemptOverride ?? []) checkConfig(override ?? {})
  const { maxAttempts = 1 } = options.retry ?? {}
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) throw invalid('maxAttempts must be 1 or more.')
  const { maxBytes = 256 } = options.trace ?? {}
  if (!Number.isInteger(maxBytes) || maxBytes < 256) throw invalid('trace.maxBytes must be 256 or more.')
  const { responseSchema } = request
  return { tools, responseSchema: responseSchema == null ? undefined : checkedSchema(responseSchema) }
}

function checkMessages(messages: unknown): void {
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('A request needs messages.')
  const calls = new Set<unknown>()
  messages.forEach((message: unknown, index) => {
    const where = `Message ${index + 1}`
    if (!isObject(message)) throw invalid(`${where} is not an object.`)
    if (message['role'] !== 'assistant' && message['toolCalls'] != null)
      throw invalid(`${where} is not the assistant's and has tool calls.`)
    if (message['role'] !== 'tool' && message['toolCallId'] != null)
      throw invalid(`${where} is not a tool's and has a toolCallId.`)
    checkMessage(message, index, where, calls)
  })
  const last = (messages.at(-1) as Fields)['role']
  if (last !== 'user' && last !== 'tool')
    throw invalid(`The last message must be the user's or a tool's, not of the role ${String(last)}.`)
}

/** `calls` has the ids of the earlier tool calls; those of this message are added. */
function checkMessage(message: Fields, index: number, where: string, calls: Set<unknown>): void {
  const { role, content } = message
  switch (role) {
    case 'system':
      if (index > 0) throw invalid(`${where} is a system message; only the first may be.`)
      if (typeof content !== 'string' || content === '') throw invalid(`${where} (system) needs text.`)
      return
    case 'user':
      if (!isFilled(content)) throw invalid(`${where} (user) needs text or content blocks.`)
      checkBlocks(content, where, ['text', 'image'])
      return
    case 'assistant':
      checkToolCalls(message['toolCalls'], where, calls)
      if (!isFilled(content) && !isFilled(message['toolCalls']))
        throw invalid(`${where} (assistant) needs text, content blocks or tool calls.`)
      if (content != null) checkBlocks(content, where, ['text', 'thinking', 'redacted_thinking'])
      return
    case 'tool':
      if (typeof content !== 'string') throw invalid(`${where} (tool) needs its result as text.`)
      if (!calls.has(message['toolCallId']))
        throw invalid(`${where} (tool) answers no earlier call: ${String(message['toolCallId'])}.`)
      return
    default:
      throw invalid(`${where} has the role ${String(role)}; it must be system, user, assistant or tool.`)
  }
}

function isFilled(content: unknown): boolean {
  return (typeof content === 'string' || Array.isArray(content)) && content.length > 0
}

function checkBlocks(content: unknown, where: string, allowed: readonly string[]): void {
  if (typeof content === 'string') return
  if (!Array.isArray(content)) throw invalid(`${where} has content that is neither text nor content blocks.`)
  for (const block of content as unknown[]) {
    const type = isObject(block) ? block['type'] : undefined
    if (!isObject(block) || typeof type !== 'string' || !allowed.includes(type))
      throw invalid(`${where} has a content block of the type ${String(type)}.`)
    if (type === 'image') checkImage(block, where)
    else {
      const text = block[type === 'redacted_thinking' ? 'data' : 'text']
      if (typeof text !== 'string' || (type === 'text' && text === ''))
        throw invalid(`${where} has a ${type} block without text.`)
    }
  }
}

function checkImage({ source, mediaType, detail }: Fields, where: string): void {
  const { type, url, base64Data } = isObject(source) ? source : {}
  const given = type === 'url' ? url : type === 'inline' ? base64Data : undefined
  if (typeof given !== 'string' || given === '')
    throw invalid(
      `${where} has an image without a source: {type: "url", url} or {type: "inline", base64Data}.`,
    )
  if (url !== undefined && base64Data !== undefined)
    throw invalid(`${where} has an image with two sources, a url and base64Data.`)
  if (type === 'inline' && (typeof mediaType !== 'string' || !/^image\/[\w.+-]+$/.test(mediaType)))
    throw invalid(`${where} has an inline image whose mediaType is not that of an image, such as image/png.`)
  if (detail !== undefined && detail !== 'auto' && detail !== 'low' && detail !== 'high')
    throw invalid(`${where} has an image whose detail is not auto, low or high.`)
}

function checkToolCalls(toolCalls: unknown, where: string, calls: Set<unknown>): void {
  if (toolCalls == null) return
  if (!Array.isArray(toolCalls)) throw invalid(`${where} has tool calls that are not a list.`)
  const own = new Set<unknown>()
  for (const call of toolCalls as unknown[]) {
    const { id, name, arguments: given } = isObject(call) ? call : {}
    if (typeof id !== 'string' || id === '' || typeof name !== 'string' || name === '')
      throw invalid(`${where} has a tool call without an id or a name.`)
    if (own.has(id)) throw invalid(`${where} has two tool calls with the id ${id}.`)
    if (given !== null && !isObject(given))
      throw invalid(`${where} has a tool call whose arguments are neither an object nor null: ${name}.`)
    own.add(id)
    calls.add(id)
  }
}

function checkTools(tools: readonly Tool[]): ReadonlyMap<string, CheckedSchema> {
  if (!Array.isArray(tools)) throw invalid('The tools are not a list.')
  const checked = new Map<string, CheckedSchema>()
  for (const tool of tools) {
    if (typeof tool?.name !== 'string' || tool.name === '') throw invalid('A tool needs a name.')
    if (typeof tool.description !== 'string') throw invalid(`The tool ${tool.name} needs a description.`)
    if (checked.has(tool.name)) throw invalid(`Two tools have the name ${tool.name}.`)
    try {
      checked.set(tool.name, checkedSchema(tool.parameters))
    } catch (thrown) {
      if (!(thrown instanceof ProviderError)) throw thrown
      throw new ProviderError(thrown.code, thrown.category, `The tool ${tool.name}: ${thrown.message}`, {
        cause: thrown,
        details: { place: thrown.details['place'] },
      })
    }
  }
  return checked
}

function checkToolChoice(choice: unknown, tools: ReadonlyMap<string, CheckedSchema>): void {
  if (choice == null || choice === 'auto' || choice === 'none') return
  const name = isObject(choice) && choice['type'] === 'tool' ? choice['name'] : undefined
  if (choice !== 'required' && typeof name !== 'string')
    throw invalid('toolChoice must be auto, required, none or {type: "tool", name}.')
  if (tools.size === 0) throw invalid('toolChoice asks for a tool, and there are no tools.')
  if (typeof name === 'string' && !tools.has(name))
    throw invalid(`toolChoice names ${name}, which is not among the tools.`)
}

const numbers = ['temperature', 'maxTokens', 'topP', 'seed', 'frequencyPenalty', 'presencePenalty'] as const

function checkConfig(config: RuntimeConfig): void {
  for (const name of numbers)
    if (config[name] != null && !Number.isFinite(config[name])) throw invalid(`${name} must be a number.`)
  const stops: unknown = config.stopSequences
  if (stops != null && !(Array.isArray(stops) && stops.every((stop) => typeof stop === 'string')))
    throw invalid('stopSequences must be a list of strings.')
  if (config.extras !== undefined && !isObject(config.extras)) throw invalid('extras must be an object.')
}
