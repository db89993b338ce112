// The body of a request for content by OpenArmature's Gemini mapping, as it is sent. The model is in the path.
// Managed fields: contents, systemInstruction, tools and toolConfig at the root; in generationConfig the declared sampling fields, and
// responseMimeType and responseJsonSchema when there is a schema.

import { flat, sorted } from '../../llm/cache/canonical.ts'
import { contentBody } from '../../llm/gemini/gemini.ts'
import type { JsonSchema } from '../../llm/llm.ts'
import { samplingOf } from '../llm-provider.ts'
import { jsonOf } from '../managed-body.ts'
import type {
  AssistantMessage,
  ContentBlock,
  Message,
  ProviderRequest,
  ToolCall,
  ToolChoice,
} from '../provider.ts'

type Fields = Readonly<Record<string, unknown>>

/** The JSON of the body. `schema` is absent without one, and on the fallback path. Throws `provider_invalid_request`. */
export function generateBody(request: ProviderRequest, schema: JsonSchema | undefined): string {
  const { messages, tools = [], toolChoice, config = {} } = request
  const [first] = messages
  const content = {
    systemInstruction: first?.role === 'system' ? { parts: [{ text: first.content }] } : undefined,
    contents: turnsOf(messages),
    tools: tools.length > 0 ? [{ functionDeclarations: tools.map(declared) }] : undefined,
    toolConfig: toolChoice == null ? undefined : { functionCallingConfig: callingOf(toolChoice) },
  }
  const own = schema && { responseMimeType: 'application/json', responseJsonSchema: schema }
  const body = contentBody(content, samplingOf(config), jsonOf(config.extras ?? {}), own)
  return JSON.stringify(sorted(jsonOf(body)))
}

function declared({ name, description, parameters }: NonNullable<ProviderRequest['tools']>[number]): Fields {
  return { name, description, parameters: flat(parameters) }
}

function callingOf(choice: ToolChoice): Fields {
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] }
  return { mode: choice === 'required' ? 'ANY' : choice.toUpperCase() }
}

/** Each run of tool messages becomes one user turn. A turn without a part is left out: it would be refused. */
function turnsOf(messages: readonly Message[]): Fields[] {
  const turns: { readonly role: string; readonly parts: Fields[] }[] = []
  const calls = new Map<string, ToolCall>()
  let results: Fields[] = []
  for (const message of messages) {
    if (message.role === 'system') continue
    if (message.role === 'tool') {
      if (results.length === 0) turns.push({ role: 'user', parts: results })
      const { toolCallId: id, content } = message
      const name = calls.get(id)?.name
      results.push({ functionResponse: { name, id, response: { result: content } } })
      continue
    }
    results = []
    const made = message.role === 'assistant' ? (message.toolCalls ?? []) : []
    for (const call of made) calls.set(call.id, call)
    const parts = [...partsOf(message.content), ...made.map(callPart)]
    if (parts.length > 0) turns.push({ role: message.role === 'user' ? 'user' : 'model', parts })
  }
  return turns
}

function partsOf(content: AssistantMessage['content'] | readonly ContentBlock[]): Fields[] {
  if (typeof content === 'string') return content === '' ? [] : [{ text: content }]
  return (content ?? []).flatMap(blockParts)
}

function blockParts(block: ContentBlock): Fields[] {
  switch (block.type) {
    case 'text':
      return [{ text: block.text, ...signed(block.signature) }]
    case 'image': {
      const { source, mediaType } = block
      if (source.type === 'inline') return [{ inlineData: { mimeType: mediaType, data: source.base64Data } }]
      return [{ fileData: { mimeType: typeOfUrl(source.url) ?? mediaType, fileUri: source.url } }]
    }
    case 'thinking':
      // Gemini signs what follows a thought: a signed one is another provider's.
      return block.signature !== undefined || block.text === '' ? [] : [{ text: block.text, thought: true }]
    case 'redacted_thinking':
      return []
    default:
      return block satisfies never
  }
}

/** Arguments that could not be parsed are sent back as {}: only an object is accepted. */
function callPart({ id, name, arguments: args, signature }: ToolCall): Fields {
  return { functionCall: { name, id, args: flat(args ?? {}) }, ...signed(signature) }
}

function signed(signature: string | undefined): Fields {
  return signature ? { thoughtSignature: signature } : {}
}

const types: Readonly<Record<string, string>> = {
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  png: 'image/png',
  gif: 'image/gif',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
}

/** By the extension of its path; undefined when that says nothing. */
function typeOfUrl(url: string): string | undefined {
  const path = URL.parse(url)?.pathname ?? url
  const extension = /\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(types, extension) ? types[extension] : undefined
}
