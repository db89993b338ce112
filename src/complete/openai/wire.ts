// The body of a chat completion request by OpenArmature's OpenAI mapping, as it is sent.
// Managed fields: model, messages, tools, tool_choice, response_format, stream, stream_options, the declared sampling fields
// and stop.

import { flat, sorted } from '../../llm/cache/canonical.ts'
import { managedBody } from '../managed-body.ts'
import {
  type ContentBlock,
  type Message,
  type ProviderRequest,
  type RuntimeConfig,
  type Tool,
  textOf,
} from '../provider.ts'

type Fields = Readonly<Record<string, unknown>>

export interface BodyOptions {
  readonly model: string
  readonly stream: boolean
  /** Absent without a schema, and on the fallback path. */
  readonly responseFormat?: Fields | undefined
}

/** The JSON of the body. Throws `provider_invalid_request` when an extra contradicts a managed field, or is not JSON. */
export function completionBody(request: ProviderRequest, options: BodyOptions): string {
  const stops = { name: 'stop', orString: true }
  return managedBody({ managed: managedFields(request, options), config: request.config ?? {}, stops })
}

function managedFields(request: ProviderRequest, { model, stream, responseFormat }: BodyOptions): Fields {
  const { messages, tools = [], toolChoice, config = {} } = request
  return {
    model,
    messages: messages.map(wireMessage),
    tools: tools.length > 0 ? tools.map(wireTool) : undefined,
    tool_choice:
      typeof toolChoice === 'object' && toolChoice !== null
        ? { type: 'function', function: { name: toolChoice.name } }
        : (toolChoice ?? undefined),
    ...sampling(config),
    response_format: responseFormat,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
}

function sampling(config: RuntimeConfig): Fields {
  return {
    temperature: config.temperature ?? undefined,
    max_tokens: config.maxTokens ?? undefined,
    top_p: config.topP ?? undefined,
    seed: config.seed ?? undefined,
    frequency_penalty: config.frequencyPenalty ?? undefined,
    presence_penalty: config.presencePenalty ?? undefined,
  }
}

/** The properties of parameters are sorted too, as OpenArmature's rule of stable bytes says of tools. */
function wireTool({ name, description, parameters }: Tool): Fields {
  return { type: 'function', function: { name, description, parameters: flat(parameters) } }
}

/** Thoughts and signatures belong to the provider that made them and are not sent. */
function wireMessage(message: Message): Fields {
  const { role } = message
  switch (role) {
    case 'system':
      return { role, content: message.content }
    case 'tool':
      return { role, content: message.content, tool_call_id: message.toolCallId }
    case 'user':
      return { role, content: wireContent(message) }
    case 'assistant': {
      const calls = message.toolCalls ?? []
      if (calls.length === 0) return { role, content: wireContent(message) }
      return {
        role,
        content: textOf(message) === '' ? null : wireContent(message),
        tool_calls: calls.map(({ id, name, arguments: given }) => ({
          id,
          type: 'function',
          // Arguments that could not be parsed are sent back as {}: a server accepts only an object.
          function: { name, arguments: JSON.stringify(sorted(given ?? {})) },
        })),
      }
    }
    default:
      return role satisfies never
  }
}

function wireContent(message: Message): unknown {
  const { content } = message
  if (typeof content === 'string') return content
  const blocks = (content ?? []).map(wireBlock).filter((block) => block !== undefined)
  return blocks.length > 1 || blocks[0]?.['type'] === 'image_url' ? blocks : textOf(message)
}

function wireBlock(block: ContentBlock): Fields | undefined {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text }
    case 'image': {
      const { source, mediaType, detail } = block
      const url = source.type === 'url' ? source.url : `data:${mediaType};base64,${source.base64Data}`
      return { type: 'image_url', image_url: { url, detail } }
    }
    case 'thinking':
    case 'redacted_thinking':
      return undefined
    default:
      return block satisfies never
  }
}
