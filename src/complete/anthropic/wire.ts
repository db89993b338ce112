// The body of a Messages request by OpenArmature's Anthropic mapping, as it is sent.
// Managed fields: model, max_tokens, system, messages, tools, tool_choice, output_config (when there is a schema), stream,
// temperature, top_p and stop_sequences.

import { isObject } from '../../is-object.ts'
import { forcedTool, isBlank, outputConfig } from '../../llm/anthropic/anthropic.ts'
import { flat, isSameJson, sorted } from '../../llm/cache/canonical.ts'
import type { JsonSchema } from '../../llm/llm.ts'
import { invalid } from '../../llm/provider-error.ts'
import { contradiction, managedBody } from '../managed-body.ts'
import type { ContentBlock, Message, ProviderRequest, RuntimeConfig, ToolChoice } from '../provider.ts'

type Fields = Readonly<Record<string, unknown>>

export interface BodyOptions {
  readonly model: string
  readonly stream: boolean
  /** The schema of the reply, and how it is asked for. Absent without a schema, and when a directive asks for it. */
  readonly schema?: JsonSchema | undefined
  readonly byTool: boolean
}

/** The JSON of the body. Throws `provider_invalid_request` for what this wire cannot carry, and as `managedBody` does. */
export function messagesBody(request: ProviderRequest, options: BodyOptions): string {
  const config = request.config ?? {}
  refuseUnsupported(config)
  const { extras, ...format } = formatOf(config.extras ?? {}, options)
  const managed = { ...managedFields(request, options), ...format }
  const stops = { name: 'stop_sequences', orString: false }
  return managedBody({ managed, config: { ...config, extras }, stops })
}

const unsupported = ['seed', 'frequencyPenalty', 'presencePenalty'] as const

function refuseUnsupported(config: RuntimeConfig): void {
  const name = unsupported.find((each) => config[each] != null)
  if (name) throw invalid(`Anthropic's API has no ${name}.`)
  if (config.maxTokens == null) throw invalid("Anthropic's API requires maxTokens.")
}

function managedFields(request: ProviderRequest, { model, stream }: BodyOptions): Fields {
  const { messages, tools = [], toolChoice, config = {} } = request
  const [first] = messages
  return {
    model,
    max_tokens: config.maxTokens,
    system: first?.role === 'system' ? first.content : undefined,
    messages: turnsOf(messages),
    tools:
      tools.length > 0
        ? tools.map(({ name, description, parameters }) => ({
            name,
            description,
            input_schema: flat(parameters),
          }))
        : undefined,
    tool_choice: toolChoice == null ? undefined : wireChoice(toolChoice),
    stream: stream || undefined,
    temperature: config.temperature ?? undefined,
    top_p: config.topP ?? undefined,
  }
}

/** The fields that ask for the schema, and the extras without those that went into them. */
function formatOf(extras: Fields, { schema, byTool }: BodyOptions): Fields & { readonly extras: Fields } {
  if (!schema) return { extras }
  if (byTool) return { extras, ...(sorted(forcedTool(schema)) as Fields) }
  const { output_config: own, ...others } = extras
  const config = outputConfig(sorted(schema) as JsonSchema)
  if (own === undefined) return { extras, output_config: config }
  // The caller's effort goes beside the format.
  const { format = config['format'], ...rest } = isObject(own) ? own : { format: own }
  if (!isSameJson(format, config['format'])) throw contradiction('output_config')
  return { extras: others, output_config: { ...rest, ...config } }
}

function wireChoice(choice: ToolChoice): Fields {
  if (typeof choice === 'object') return { type: 'tool', name: choice.name }
  return { type: choice === 'required' ? 'any' : choice }
}

/** Roles alternate: neighbours of one role are joined, and so is a run of tool messages. Messages without content are left out. */
function turnsOf(messages: readonly Message[]): Fields[] {
  const turns: { role: string; content: string | readonly Fields[] }[] = []
  for (const message of messages) {
    if (message.role === 'system') continue
    const role = message.role === 'tool' ? 'user' : message.role
    const content = contentOf(message)
    const last = turns.at(-1)
    if (last?.role === role) last.content = [...blocksOf(last.content), ...blocksOf(content)]
    else if (content.length > 0) turns.push({ role, content })
  }
  return turns
}

function blocksOf(content: string | readonly Fields[]): readonly Fields[] {
  if (typeof content !== 'string') return content
  return isBlank(content) ? [] : [{ type: 'text', text: content }]
}

function contentOf(message: Exclude<Message, { role: 'system' }>): string | readonly Fields[] {
  if (message.role === 'tool')
    return [{ type: 'tool_result', tool_use_id: message.toolCallId, content: message.content }]
  const { content } = message
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : []
  if (typeof content === 'string' && calls.length === 0) return isBlank(content) ? [] : content
  const said = typeof content === 'string' ? blocksOf(content) : (content ?? []).map(wireBlock)
  // Arguments that could not be parsed are sent back as {}: only an object is accepted.
  const uses = calls.map(({ id, name, arguments: input }) => ({
    type: 'tool_use',
    id,
    name,
    input: flat(input ?? {}),
  }))
  return [...said.filter((block) => block !== undefined), ...uses]
}

function wireBlock(block: ContentBlock): Fields | undefined {
  switch (block.type) {
    case 'text':
      return isBlank(block.text) ? undefined : { type: 'text', text: block.text }
    case 'image': {
      const { source, mediaType } = block
      if (source.type === 'url') return { type: 'image', source: { type: 'url', url: source.url } }
      return { type: 'image', source: { type: 'base64', media_type: mediaType, data: source.base64Data } }
    }
    case 'thinking':
      // Anthropic signs its thoughts: one without a signature is another provider's.
      if (block.signature === undefined) return undefined
      return { type: 'thinking', thinking: block.text, signature: block.signature }
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: block.data }
    default:
      return block satisfies never
  }
}
