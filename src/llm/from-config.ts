// From configuration to a model.
import type { Config } from '../config/config.ts'
import { configuredOrLocal, type ProviderName, providerNames } from '../config/models.ts'
import { GraphmillError } from '../errors.ts'
import { traced } from './call-span.ts'
import type { Llm } from './llm.ts'
import { createModel, type ModelSpec, offline, providers } from './providers.ts'

/**
 * The model that the configuration names: by `--llm`, else by the only server that is configured, else `fallback`, or
 * `offline` with `--llm auto`. Neither replaces a model that is named.
 * Throws `llm_not_configured`, `configuration_invalid` when two servers are configured, and the errors of listing its models.
 */
export async function openLlm(config: Config, fallback: Llm | undefined, signal: AbortSignal): Promise<Llm> {
  const { llm: named, model, 'output-mode': outputMode, temperature } = config.options
  const provider = named === undefined || named === configuredOrLocal ? configuredProvider(config) : named
  if (!provider && model !== undefined)
    throw new GraphmillError(
      'llm_not_configured',
      `The model ${model} is named, but no server is configured that could have it.`,
    )
  const local = named === configuredOrLocal ? offline : fallback
  const llm = provider ? await openModel(provider, config, signal) : local
  if (!llm) throw new GraphmillError('llm_not_configured', 'No model is configured.')
  return {
    ...llm,
    ...(outputMode !== undefined && { outputMode }),
    ...(temperature !== undefined && { sampling: { temperature } }),
  }
}

async function openModel(provider: ProviderName, config: Config, signal: AbortSignal): Promise<Llm> {
  const spec = { provider, ...(await providers[provider].specOf(config, signal)) } as ModelSpec
  const llm = createModel(spec)
  return llm.isLocal ? llm : traced(llm, { payload: config.options['trace-payload'] })
}

function configuredProvider({ servers }: Config): ProviderName | undefined {
  const configured = providerNames.filter((name) => providers[name].isConfigured(servers))
  if (configured.length > 1) {
    const names = new Intl.ListFormat('en-GB').format(configured.map((name) => providers[name].server!))
    throw new GraphmillError(
      'configuration_invalid',
      `Several model servers are configured, ${names}: name one with --llm.`,
    )
  }
  return configured[0]
}
