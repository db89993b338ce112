// What the tests of `complete` share: a recording server with a provider on it, the schemas of the published fixtures, and
// inputs that cannot be changed.
import { expect } from 'vitest'
import { createOpenAiProvider, type OpenAiProviderOptions } from '../../src/complete/openai/openai.ts'
import type { CallOptions, Provider, ProviderRequest } from '../../src/complete/provider.ts'
import { type Category, ProviderError } from '../../src/llm/provider-error.ts'
import { type RecordingServer, type Scripted, startRecordingServer } from '../support/recording-server.ts'

export const P = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
} as const

export const V = {
  type: 'object',
  properties: { value: { type: 'integer' } },
  required: ['value'],
  additionalProperties: false,
} as const

export const weather = {
  name: 'get_weather',
  description: 'Get current weather for a city.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
} as const

export const hi = [{ role: 'user', content: 'Hi' }] as const

export interface Setup extends AsyncDisposable {
  readonly server: RecordingServer
  readonly provider: Provider
  /** The bodies that were sent, parsed. */
  readonly wire: () => readonly Record<string, unknown>[]
}

/** A provider for test-model on a server with these answers. */
export async function setup(
  answers: Scripted | readonly Scripted[],
  options: Partial<OpenAiProviderOptions> = {},
): Promise<Setup> {
  const server = await startRecordingServer(Array.isArray(answers) ? answers : [answers as Scripted])
  const provider = createOpenAiProvider({ baseUrl: server.url, model: 'test-model', ...options })
  return {
    server,
    provider,
    wire: () => server.requests.map(({ json }) => json),
    [Symbol.asyncDispose]: () => server.close(),
  }
}

/** A completion that says `content`, with what `choice` and `root` add. */
export function completion(content: string | null, choice: object = {}, root: object = {}): Scripted {
  const { message, ...rest } = choice as { message?: object }
  return {
    body: {
      id: 'cc-1',
      object: 'chat.completion',
      created: 1700000000,
      model: 'test-model',
      choices: [
        { index: 0, message: { role: 'assistant', content, ...message }, finish_reason: 'stop', ...rest },
      ],
      usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
      ...root,
    },
  }
}

/** A completion that calls tools: pairs of id and arguments for get_weather. */
export function calling(calls: readonly (readonly [string, string])[], choice: object = {}): Scripted {
  const tool_calls = calls.map(([id, text]) => ({
    id,
    type: 'function',
    function: { name: 'get_weather', arguments: text },
  }))
  return completion(null, { message: { tool_calls }, finish_reason: 'tool_calls', ...choice })
}

/** Usage in the server's words. */
export function counted(prompt: unknown, written: unknown, total: unknown) {
  return { usage: { prompt_tokens: prompt, completion_tokens: written, total_tokens: total } }
}

/** An event of a stream. */
export function chunk(delta: object, finish: string | null = null) {
  return {
    id: 'cc-s',
    object: 'chat.completion.chunk',
    model: 'test-model',
    choices: [{ index: 0, delta, finish_reason: finish }],
  }
}

/** The event that has the usage. */
export function usageChunk(prompt: unknown, written: unknown, total: unknown) {
  return {
    id: 'cc-s',
    object: 'chat.completion.chunk',
    model: 'test-model',
    choices: [],
    ...counted(prompt, written, total),
  }
}

/** The error of a call, which must be of this category; the inputs are frozen first. */
export async function failure<E extends ProviderError = ProviderError>(
  provider: Provider,
  request: ProviderRequest,
  category: Category,
  options?: CallOptions,
): Promise<E> {
  const thrown: unknown = await provider.complete(frozen(request), options).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(thrown).toBeInstanceOf(ProviderError)
  expect((thrown as ProviderError).category).toBe(category)
  return thrown as E
}

/** The value, unchangeable at every depth. */
export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const child of Object.values(value)) frozen(child)
  }
  return value
}

/** The value with the keys of every object turned round, but not those of `properties`. */
export function turned<T>(value: T, own = false): T {
  if (Array.isArray(value)) return value.map((each) => turned(each)) as T
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, child]) => [key, turned(child, key === 'properties')])
  return Object.fromEntries(own ? entries : entries.reverse()) as T
}
