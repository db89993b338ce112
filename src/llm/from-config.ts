// From configuration to a model. `offline` is never chosen in silence where real extraction is meant.
import type { Config } from '../config/config.ts'
import { GraphmillError } from '../errors.ts'
import type { Llm } from './llm.ts'
import { createOffline } from './offline/offline.ts'
import { createOllama, onlyOllamaModel } from './ollama/ollama.ts'
import { createOpenAi, onlyModel } from './openai/openai.ts'
import { inWorker } from './worker/worker-client.ts'

/** One thread for all flows of the process, started by the first call. */
const offline = createOffline()

const openAiAddress = 'https://api.openai.com/v1'

/**
 * The model that the configuration names: by `--llm`, else by the one server that is configured, else `fallback`, which
 * is never taken in place of a model that is named.
 * Throws `llm_not_configured`, `configuration_invalid` when two servers are configured, and what naming the model throws.
 */
export async function openLlm(
  config: Config,
  fallback: 'offline' | undefined,
  signal: AbortSignal,
): Promise<Llm> {
  const llm = await openModel(config, fallback, signal)
  const { 'output-mode': outputMode, temperature } = config.options
  return {
    ...llm,
    ...(outputMode !== undefined && { outputMode }),
    ...(temperature !== undefined && { sampling: { temperature } }),
  }
}

async function openModel(config: Config, fallback: 'offline' | undefined, signal: AbortSignal): Promise<Llm> {
  const chosen = config.options.llm ?? guessProvider(config)
  const { model } = config.options
  if (chosen === undefined && model !== undefined)
    throw new GraphmillError(
      'llm_not_configured',
      `The model ${model} is named, but no server is configured that could have it.`,
    )
  const provider = chosen ?? fallback
  const limits = {
    timeoutMs: config.options['llm-timeout'] * 1000,
    callTimeoutMs: config.options['llm-call-timeout'] * 1000,
  }
  switch (provider) {
    case undefined:
      throw new GraphmillError('llm_not_configured', 'No model is configured.')
    case 'offline':
      return offline
    case 'openai': {
      const { openaiBaseUrl: baseUrl = openAiAddress, openaiApiKey: apiKey } = config.servers
      const server = { baseUrl, apiKey, ...limits }
      if (!apiKey && !config.servers.openaiBaseUrl)
        throw new GraphmillError(
          'llm_not_configured',
          'OPENAI_API_KEY is not set, nor OPENAI_BASE_URL for a server of your own.',
        )
      const options = { ...server, model: model ?? (await onlyModel(server, signal)) }
      return inWorker(createOpenAi(options), { provider, ...options })
    }
    case 'ollama': {
      const { ollamaHost: host = '' } = config.servers
      const options = {
        host,
        model: model ?? (await onlyOllamaModel(host, signal)),
        ...limits,
        numCtx: config.options['num-ctx'],
      }
      return inWorker(createOllama(options), { provider, ...options })
    }
    default:
      return provider satisfies never
  }
}

function guessProvider({ servers }: Config): 'openai' | 'ollama' | undefined {
  const openai = servers.openaiBaseUrl !== undefined || servers.openaiApiKey !== undefined
  const ollama = servers.ollamaHost !== undefined
  if (openai && ollama)
    throw new GraphmillError(
      'configuration_invalid',
      'Both OpenAI (OPENAI_BASE_URL or OPENAI_API_KEY) and Ollama (OLLAMA_HOST) are configured: name one with --llm.',
    )
  return openai ? 'openai' : ollama ? 'ollama' : undefined
}
