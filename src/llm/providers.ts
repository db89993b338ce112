// The providers of models, one row each. The configuration opens models by this table.
// Nothing else outside of the providers' folders knows which providers there are.
import type { Config } from '../config/config.ts'
import type { ProviderName } from '../config/models.ts'
import type { Secret } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import {
  type AnthropicOptions,
  anthropicJson,
  createAnthropic,
  onlyAnthropicModel,
} from './anthropic/anthropic.ts'
import { createGemini, type GeminiOptions, geminiJson, onlyGeminiModel } from './gemini/gemini.ts'
import type { JsonFormat, Llm } from './llm.ts'
import { createOffline } from './offline/offline.ts'
import { createOllama, type OllamaOptions, ollamaJson, onlyOllamaModel } from './ollama/ollama.ts'
import { createOpenAi, type OpenAiOptions, onlyModel, openAiJson } from './openai/openai.ts'
import { createTextService, type TextServiceOptions } from './text-service/text-service.ts'

/** What a model is made from: data that can be sent to another thread. */
interface Specs {
  readonly openai: Omit<OpenAiOptions, 'fetch'>
  readonly ollama: Omit<OllamaOptions, 'fetch' | 'onWarning'>
  readonly anthropic: Omit<AnthropicOptions, 'fetch'>
  readonly gemini: Omit<GeminiOptions, 'fetch'>
  readonly azure: Omit<OpenAiOptions, 'fetch'>
  readonly 'text-service': TextServiceOptions
  readonly offline: object
}

/** A model as data, for the thread that calls it. */
export type ModelSpec = { [P in ProviderName]: { readonly provider: P } & Specs[P] }[ProviderName]

export interface ProviderRow<Spec> {
  /** The name of its servers, and the variables that configure one, for messages; undefined if it needs none. */
  readonly server: string | undefined
  /** Whether one of its servers is configured. */
  isConfigured(servers: Config['servers']): boolean
  /** The key that is configured for its server. Default: its servers take none. */
  apiKeyOf?(servers: Config['servers']): Secret | undefined
  /** The configured model. Throws `llm_not_configured`, and the errors of listing the server's models. */
  specOf(config: Config, signal: AbortSignal): Promise<Spec>
  /** How its models are asked for JSON, unless a model says so itself; false when they can be asked only in the prompt. */
  readonly jsonFormat: JsonFormat | false
  /** Throws `configuration_invalid` for an invalid address. */
  create(spec: Spec): Llm
}

const openAiAddress = 'https://api.openai.com/v1'

/** The model of a few rules. All flows of the process share its thread, which the first call starts. */
export const offline = createOffline()

/** By the name that `--llm` takes. */
export const providers: { readonly [P in ProviderName]: ProviderRow<Specs[P]> } = {
  openai: {
    server: 'OpenAI (OPENAI_BASE_URL or OPENAI_API_KEY)',
    isConfigured: ({ openaiBaseUrl, openaiApiKey }) => (openaiBaseUrl ?? openaiApiKey) !== undefined,
    apiKeyOf: ({ openaiApiKey }) => openaiApiKey,
    async specOf({ options, servers }, signal) {
      const { openaiBaseUrl: baseUrl = openAiAddress, openaiApiKey: apiKey } = servers
      if (!apiKey && !servers.openaiBaseUrl)
        throw new GraphmillError(
          'llm_not_configured',
          'OPENAI_API_KEY is not set, nor OPENAI_BASE_URL for a server of your own.',
        )
      const server = { baseUrl, apiKey, ...timeoutsOf(options) }
      return { ...server, model: options.model ?? (await onlyModel(server, signal)) }
    },
    jsonFormat: openAiJson,
    create: createOpenAi,
  },
  ollama: {
    server: 'Ollama (OLLAMA_HOST)',
    isConfigured: ({ ollamaHost }) => ollamaHost !== undefined,
    async specOf({ options, servers }, signal) {
      const { ollamaHost: host = '' } = servers
      const model = options.model ?? (await onlyOllamaModel(host, signal))
      return { host, model, ...timeoutsOf(options), numCtx: options['num-ctx'] }
    },
    jsonFormat: ollamaJson,
    create: createOllama,
  },
  anthropic: {
    server: 'Anthropic (ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL)',
    isConfigured: ({ anthropicBaseUrl, anthropicApiKey }) =>
      (anthropicBaseUrl ?? anthropicApiKey) !== undefined,
    apiKeyOf: ({ anthropicApiKey }) => anthropicApiKey,
    async specOf({ options, servers }, signal) {
      const { anthropicBaseUrl: baseUrl, anthropicApiKey: apiKey } = servers
      if (!apiKey && !baseUrl)
        throw new GraphmillError(
          'llm_not_configured',
          'ANTHROPIC_API_KEY is not set, nor ANTHROPIC_BASE_URL for another server.',
        )
      const server = { baseUrl, apiKey, ...timeoutsOf(options) }
      return { ...server, model: options.model ?? (await onlyAnthropicModel(server, signal)) }
    },
    jsonFormat: anthropicJson,
    create: createAnthropic,
  },
  gemini: {
    server: 'Gemini (GEMINI_API_KEY or GEMINI_BASE_URL)',
    isConfigured: ({ geminiApiKey, geminiBaseUrl }) => (geminiApiKey ?? geminiBaseUrl) !== undefined,
    apiKeyOf: ({ geminiApiKey }) => geminiApiKey,
    async specOf({ options, servers }, signal) {
      const { geminiBaseUrl: baseUrl, geminiApiKey: apiKey } = servers
      if (!apiKey && !baseUrl)
        throw new GraphmillError(
          'llm_not_configured',
          'GEMINI_API_KEY is not set, nor GEMINI_BASE_URL for a server of your own.',
        )
      const server = { baseUrl, apiKey, ...timeoutsOf(options) }
      return { ...server, model: options.model ?? (await onlyGeminiModel(server, signal)) }
    },
    jsonFormat: geminiJson,
    create: createGemini,
  },
  azure: {
    server: 'Azure OpenAI (AZURE_OPENAI_ENDPOINT)',
    isConfigured: ({ azureEndpoint, azureApiKey, azureToken }) =>
      (azureEndpoint ?? azureApiKey ?? azureToken) !== undefined,
    apiKeyOf: ({ azureApiKey, azureToken }) => azureToken ?? azureApiKey,
    async specOf({ options, servers }, signal) {
      const { azureEndpoint: baseUrl, azureApiKey: apiKey, azureToken: token, azureApiVersion } = servers
      if (!baseUrl) throw new GraphmillError('llm_not_configured', 'AZURE_OPENAI_ENDPOINT is not set.')
      const azure = { apiVersion: azureApiVersion, token }
      const server = { baseUrl, apiKey, azure, ...timeoutsOf(options) }
      return { ...server, model: options.model ?? (await onlyModel(server, signal)) }
    },
    jsonFormat: openAiJson,
    create: (spec) => ({ ...createOpenAi(spec), provider: 'azure' }),
  },
  'text-service': {
    server: undefined,
    isConfigured: () => false,
    specOf: async ({ options }) => ({
      model: options.model ?? 'text-completion',
      timeoutMs: options['llm-call-timeout'] * 1000,
    }),
    jsonFormat: false,
    create: createTextService,
  },
  offline: {
    server: undefined,
    isConfigured: () => false,
    specOf: async () => ({}),
    jsonFormat: false,
    create: () => offline,
  },
}

/** The model of a spec. It calls its server from this thread. */
export function createModel<P extends ProviderName>(spec: { readonly provider: P } & Specs[P]): Llm {
  return providers[spec.provider].create(spec)
}

function timeoutsOf(options: Config['options']) {
  return { timeoutMs: options['llm-timeout'] * 1000, callTimeoutMs: options['llm-call-timeout'] * 1000 }
}
