// The providers of models, one row each. Everything outside of their folders that must know them reads this table: the
// configuration opens a model by it, and the worker thread makes one.
import type { Config } from '../config/config.ts'
import type { ProviderName } from '../config/models.ts'
import { GraphmillError } from '../errors.ts'
import type { JsonFormat, Llm } from './llm.ts'
import { createOffline } from './offline/offline.ts'
import { createOllama, type OllamaOptions, ollamaJson, onlyOllamaModel } from './ollama/ollama.ts'
import { createOpenAi, type OpenAiOptions, onlyModel, openAiJson } from './openai/openai.ts'

/** What a model is made from, as data that can be sent to another thread. */
interface Specs {
  readonly openai: Omit<OpenAiOptions, 'fetch'>
  readonly ollama: Omit<OllamaOptions, 'fetch' | 'onWarning'>
  readonly offline: object
}

/** Which model it is, for the thread that calls it. */
export type ModelSpec = { [P in ProviderName]: { readonly provider: P } & Specs[P] }[ProviderName]

export interface ProviderRow<Spec> {
  /** How people know its servers, and the variables that name one; undefined: it has no server. */
  readonly server: string | undefined
  /** Whether the configuration names one of its servers. */
  isConfigured(servers: Config['servers']): boolean
  /** The model that the configuration means. Throws `llm_not_configured`, and what asking the server for its models throws. */
  specOf(config: Config, signal: AbortSignal): Promise<Spec>
  /** Throws `configuration_invalid` for an address that is none. */
  create(spec: Spec): Llm
}

const openAiAddress = 'https://api.openai.com/v1'

/** The model of a few rules: one thread for all flows of the process, started by the first call. */
export const offline = createOffline()

/** By the name that `--llm` has for it. */
export const providers: { readonly [P in ProviderName]: ProviderRow<Specs[P]> } = {
  openai: {
    server: 'OpenAI (OPENAI_BASE_URL or OPENAI_API_KEY)',
    isConfigured: ({ openaiBaseUrl, openaiApiKey }) => (openaiBaseUrl ?? openaiApiKey) !== undefined,
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
    create: createOllama,
  },
  offline: {
    server: undefined,
    isConfigured: () => false,
    specOf: async () => ({}),
    create: () => offline,
  },
}

/** How providers are asked for JSON. The first holds for a model that does not say. */
export const jsonFormats: readonly [JsonFormat, ...JsonFormat[]] = [openAiJson, ollamaJson]

/** The model of a spec, which calls its server from this thread. */
export function createModel<P extends ProviderName>(spec: { readonly provider: P } & Specs[P]): Llm {
  return providers[spec.provider].create(spec)
}

function timeoutsOf(options: Config['options']) {
  return { timeoutMs: options['llm-timeout'] * 1000, callTimeoutMs: options['llm-call-timeout'] * 1000 }
}
