// The wires that the fixtures name, one line each: a provider on the recording server, and what of its requests the fixtures state.
import { createAnthropicProvider } from '../../../src/complete/anthropic/anthropic.ts'
import { createGeminiProvider } from '../../../src/complete/gemini/gemini.ts'
import { createOpenAiProvider } from '../../../src/complete/openai/openai.ts'
import type { Provider } from '../../../src/complete/provider.ts'
import type { Recorded, RecordingServer } from '../../support/recording-server.ts'
import type { Fields } from './fixture.ts'

export interface Mapping {
  /** The model of fixtures whose answers name none. */
  readonly model: string
  readonly provider: (server: RecordingServer, options: ProviderSetup) => Provider
  /** A request as the fixtures state it. Default: its body. */
  readonly body?: (request: Recorded) => Fields
  /** One form for bodies that the specification calls equivalent, applied to what is sent and to what is stated. */
  readonly normal?: (body: Fields) => Fields
}

interface ProviderSetup {
  readonly model: string
  readonly native?: boolean
}

export const mappings: Readonly<Record<string, Mapping>> = {
  openai: {
    model: 'test-model',
    provider: ({ url: baseUrl }, options) => createOpenAiProvider({ baseUrl, ...options }),
    normal: openAiNormal,
  },
  gemini: {
    model: 'gemini-test',
    provider: ({ origin: baseUrl }, options) => createGeminiProvider({ baseUrl, ...options }),
    // The model is a part of the path.
    body: ({ path, json }) => ({ model: /\/models\/([^:]*):generateContent$/.exec(path)?.[1], ...json }),
  },
  streaming_unsupported_stub: {
    model: 'test-model',
    provider: ({ url: baseUrl }, options) => createOpenAiProvider({ baseUrl, ...options, streaming: false }),
    normal: openAiNormal,
  },
  anthropic: {
    model: 'claude-test',
    provider: ({ origin: baseUrl }, options) => createAnthropicProvider({ baseUrl, ...options }),
  },
}

/**
 * A list of one text block is its text (llm-provider 3.1.1, fixture 009). The text of a tool call's arguments is compared as JSON,
 * since fixtures 005 and 053 write it with different white space.
 */
function openAiNormal({ messages, ...body }: Fields): Fields {
  return { ...body, messages: (messages as readonly Fields[]).map(normalMessage) }
}

function normalMessage(message: Fields): Fields {
  const { content, tool_calls: calls } = message
  const [block, ...more] = Array.isArray(content) ? (content as Fields[]) : []
  const isText = block?.['type'] === 'text' && more.length === 0 && Object.keys(block).length === 2
  return {
    ...message,
    ...(isText && { content: block['text'] }),
    ...(Array.isArray(calls) && { tool_calls: calls.map(normalCall) }),
  }
}

function normalCall(call: { readonly function: { readonly arguments: string } }): unknown {
  return {
    ...call,
    function: { ...call.function, arguments: JSON.parse(call.function.arguments) as unknown },
  }
}
