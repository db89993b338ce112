// OpenArmature's provider on any model that streams text, such as Ollama's own API: the whole contract except tools and images,
// which an `Llm` does not take.
import { randomUUID } from 'node:crypto'
import { sorted } from '../llm/cache/canonical.ts'
import type { CompletionRequest, JsonSchema, Llm, Sampling, TextMessage } from '../llm/llm.ts'
import { invalid, ProviderError } from '../llm/provider-error.ts'
import { joinedExtras, jsonFormatOf, nativeFields } from '../llm/structured-output/modes.ts'
import { Refusals } from '../llm/structured-output/schema-refusal.ts'
import { readWholeReply } from '../llm/structured-output/whole-reply.ts'
import { completeOn, type Exchange, type ProviderReply } from './call.ts'
import {
  type AssistantBlock,
  type CallOptions,
  type Message,
  type Provider,
  type ProviderRequest,
  type RuntimeConfig,
  textOf,
} from './provider.ts'

type Fields = Readonly<Record<string, unknown>>

/** A provider of `complete` from a model of the flow. */
export interface LlmProviderOptions {
  /** Whether the server constrains output to a schema. Default: whether the model has a JSON format. */
  readonly native?: boolean | undefined
}

/** A provider on `llm`. Tools, tool messages and images are refused before anything is sent. */
export function createLlmProvider(llm: Llm, options: LlmProviderOptions = {}): Provider {
  const { native = jsonFormatOf(llm) !== undefined } = options

  function accept(request: ProviderRequest): void {
    const { messages, tools = [], toolChoice } = request
    if (messages.some(hasImage)) {
      const message = `${llm.destination} is asked with text only, and a message has an image.`
      throw new ProviderError('llm_request_invalid', 'provider_unsupported_content_block', message)
    }
    const calls = messages.some(
      ({ role, ...rest }) => role === 'tool' || ('toolCalls' in rest && rest.toolCalls),
    )
    if (tools.length > 0 || toolChoice != null || calls)
      throw invalid(`${llm.destination} is not asked with tools.`)
  }

  async function exchange({ request, path, loose, checked, how, signal }: Exchange) {
    const schema = path === 'native' ? checked.responseSchema?.schema : undefined
    const asked = completionRequest(request, schema && nativeFields(llm, schema, loose))
    return read(llm, asked, how, signal)
  }

  const isStrict = (schema: JsonSchema) => jsonFormatOf(llm)?.loose?.(schema) !== undefined
  const refusals = new Refusals(llm)
  const wire = { model: llm.model, system: llm.provider, native, refusals, isStrict, accept, exchange }
  return {
    model: llm.model,
    ready: (signal = new AbortController().signal) => llm.ready(signal),
    complete: (request, how) => completeOn(wire, request, how),
  }
}

function hasImage({ content }: Message): boolean {
  return Array.isArray(content) && content.some(({ type }) => type === 'image')
}

function completionRequest(request: ProviderRequest, native: Fields | undefined): CompletionRequest {
  const { config = {} } = request
  return {
    messages: request.messages.map((message) => ({
      role: message.role as TextMessage['role'],
      content: textOf(message),
    })),
    sampling: samplingOf(config),
    extras: joinedExtras(sorted(config.extras ?? {}) as Fields, native),
  }
}

export function samplingOf(config: RuntimeConfig): Sampling {
  const { temperature, maxTokens, topP, seed, frequencyPenalty, presencePenalty, stopSequences } = config
  return {
    ...(temperature != null && { temperature }),
    ...(maxTokens != null && { maxTokens }),
    ...(topP != null && { topP }),
    ...(seed != null && { seed }),
    ...(frequencyPenalty != null && { frequencyPenalty }),
    ...(presencePenalty != null && { presencePenalty }),
    ...(stopSequences != null && { stop: stopSequences }),
  }
}

async function read(
  llm: Llm,
  request: CompletionRequest,
  { stream = false, onToken }: CallOptions,
  signal: AbortSignal,
): Promise<ProviderReply> {
  const callId = randomUUID()
  let chunkIndex = 0
  const { content, reasoning, raw, ...known } = await readWholeReply(llm, request, {
    signal,
    onDelta({ kind, text }) {
      if (stream) onToken?.({ deltaKind: kind, delta: text, chunkIndex: chunkIndex++, callId })
    },
  })
  return {
    message: { role: 'assistant', content: contentOf(content, reasoning) },
    ...known,
    raw: (raw ?? {}) as Fields,
  }
}

function contentOf(content: string, reasoning: string): string | readonly AssistantBlock[] {
  if (reasoning === '') return content
  const thinking: AssistantBlock = { type: 'thinking', text: reasoning }
  return content === '' ? [thinking] : [thinking, { type: 'text', text: content }]
}
