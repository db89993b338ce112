// The ontologies of a command's flows, by the configuration.
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { GraphmillError } from '../errors.ts'
import type { OntologyMetrics } from '../observe/ontology-metrics.ts'
import { endpointOf } from '../ontology/embeddings.ts'
import { type Ontologies, openOntologies } from '../ontology/ontologies.ts'
import type { OntologyServiceOptions } from '../ontology/ontology-service.ts'
import { limitOptions, limitsOf } from './documents.ts'

export const ontologyOptions = [
  'ontologies',
  'ontology-budget',
  'embeddings',
  'embeddings-model',
  'embeddings-key',
  ...limitOptions,
] as const

/**
 * Opens the ontologies of flows. A flow that is opened again keeps the versions that it had loaded, so that replies to them can
 * still be checked. If a file is invalid, the versions loaded before stay in use.
 */
export function createOntologyOpener(
  metrics: OntologyMetrics | undefined,
): (config: Config) => Promise<Ontologies> {
  const opened = new Map<string, { readonly workspace: string; readonly ontologies: Ontologies }>()
  metrics?.inForce(() =>
    [...opened.values()].map(({ workspace, ontologies }) => {
      const { ids, classes, relations, attributes } = ontologies.current().summary
      return { workspace, ontologies: ids.length, elements: classes + relations + attributes }
    }),
  )
  /** Throws `configuration_invalid`, and what reading the files throws. */
  return async (config) => {
    const { ontologies: named, 'ontology-budget': budget, workspace, flow } = config.options
    const supplied = config.supplied?.ontologies
    const paths = supplied ? [...named, supplied] : named
    if (paths.length === 0)
      throw new GraphmillError(
        'configuration_invalid',
        'ontologies must name the files for the extractor ontology.',
      )
    const embeddings = embeddingsOf(config)
    const limits = limitsOf(config)
    const options = {
      paths,
      budget,
      limits,
      ...(embeddings && { embeddings }),
      ...(metrics && { meter: metrics }),
    }
    const key = JSON.stringify([workspace, flow])
    const known = opened.get(key)
    if (known) await known.ontologies.reload(options)
    else opened.set(key, { workspace, ontologies: await openOntologies(options) })
    return opened.get(key)!.ontologies
  }
}

/** The embeddings endpoint, if one is configured. Throws `configuration_invalid`. */
export function embeddingsOf({ options, cacheDir, servers }: Config): OntologyServiceOptions['embeddings'] {
  const { embeddings: url, 'embeddings-model': model, 'embeddings-key': given } = options
  if (url === undefined) return undefined
  if (model === undefined)
    throw new GraphmillError(
      'configuration_invalid',
      'embeddings-model must name the model of the embeddings endpoint.',
    )
  const { origin } = endpointOf(url)
  // The key of the language model is sent only to its own server.
  const ownServer = URL.parse(servers.openaiBaseUrl ?? 'https://api.openai.com')?.origin
  const apiKey = given ?? (origin === ownServer ? servers.openaiApiKey : undefined)
  return { url, model, apiKey, timeoutMs: options['llm-timeout'] * 1000, cacheDir: join(cacheDir, 'vectors') }
}
