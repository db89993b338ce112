// OpenArmature's provider on any model that streams text, such as Ollama's own API: all of the contract but tools, which such
// a model does not take.
import { randomUUID } from 'node:crypto'
import { isSameJson, sorted } from '../llm/cache/canonical.ts'
import type { CompletionRequest, JsonSchema, Llm, Sampling, TextMessage } from '../llm/llm.ts'
import type { CallOptions, ContentBlock, Provider, ProviderRequest, RuntimeConfig } from '../llm/provider.ts'
import { textOf } from '../llm/provider.ts'
import { invalid, ProviderError } from '../llm/provider-error.ts'
import { jsonFormatOf } from '../llm/structured-output/modes.ts'
import { createRefusals } from '../llm/structured-output/schema-refusal.ts'
import { completeOn, type Exchange, type Reading } from './call.ts'

type Fields = Readonly<Record<string, unknown>>

export interface LlmProviderOptions {
  /** Whether the server constrains output to a schema. Default: whether the model has a JSON format. */
  readonly native?: boolean | undefined
}

/** A provider on `llm`. Tools and tool messages are refused before anything is sent. */
export function createLlmProvider(llm: Llm, options: LlmProviderOptions = {}): Provider {
  const { native = jsonFormatOf(llm) !== undefined } = options

  function accept({ messages, tools = [], toolChoice }: ProviderRequest): void {
    const calls = messages.some(
      ({ role, ...rest }) => role === 'tool' || ('toolCalls' in rest && rest.toolCalls),
    )
    if (tools.length > 0 || toolChoice != null || calls)
      throw invalid(`${llm.destination} is not asked with tools.`)
  }

  async function exchange({ request, path, checked, how, signal }: Exchange) {
    const schema = path === 'native' ? checked.responseSchema?.schema : undefined
    const asked = completionRequest(llm, request, schema)
    return read(llm, asked, how, signal)
  }

  const wire = { native, refusals: createRefusals(), accept, exchange }
  return {
    model: llm.model,
    ready: (signal = new AbortController().signal) => llm.ready(signal),
    complete: (request, how) => completeOn(wire, request, how),
  }
}

function completionRequest(
  llm: Llm,
  request: ProviderRequest,
  schema: JsonSchema | undefined,
): CompletionRequest {
  const { config = {} } = request
  return {
    messages: request.messages.map((message) => ({
      role: message.role as TextMessage['role'],
      content: textOf(message),
    })),
    sampling: samplingOf(config),
    extras: joined(sorted(config.extras ?? {}) as Fields, schema ? jsonFormatOf(llm)?.schema(schema) : {}),
  }
}

function samplingOf(config: RuntimeConfig): Sampling {
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

function joined(given: Fields, managed: Fields = {}): Fields {
  const conflict = Object.keys(managed).find(
    (name) => name in given && !isSameJson(given[name], managed[name]),
  )
  if (conflict) throw invalid(`The extra field ${conflict} contradicts the request's own.`)
  return { ...given, ...managed }
}

async function read(
  llm: Llm,
  request: CompletionRequest,
  { stream = false, onToken }: CallOptions,
  signal: AbortSignal,
): Promise<Reading> {
  const callId = randomUUID()
  const heard = { content: '', reasoning: '' }
  let chunkIndex = 0
  for await (const event of llm.stream(request, signal)) {
    if (event.type === 'delta') {
      heard[event.kind] += event.text
      if (stream) onToken?.({ deltaKind: event.kind, delta: event.text, chunkIndex: chunkIndex++, callId })
      continue
    }
    const { finishReason, usage, model, raw } = event
    const message = { role: 'assistant', content: contentOf(heard) } as const
    return { message, finishReason, usage, model, raw: (raw ?? {}) as Fields }
  }
  signal.throwIfAborted()
  throw new ProviderError(
    'llm_unavailable',
    'provider_unavailable',
    `${llm.destination} ended without an end.`,
  )
}

function contentOf(heard: { content: string; reasoning: string }): string | readonly ContentBlock[] {
  if (heard.reasoning === '') return heard.content
  const thinking: ContentBlock = { type: 'thinking', text: heard.reasoning }
  return heard.content === '' ? [thinking] : [thinking, { type: 'text', text: heard.content }]
}
