// From a configuration to the parts of a flow runtime, for the commands that have flows.
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { localProvider } from '../config/models.ts'
import { checkSecret, secretText } from '../config/secret.ts'
import { GraphmillError } from '../errors.ts'
import { extractorNames } from '../extraction/find-processors.ts'
import { systemClock, uuids } from '../flow/clock.ts'
import { readContextKeys } from '../flow/context-signature.ts'
import type { LimitsTopic } from '../flow/limits-topic.ts'
import { type Clock, checkOverlap, type FlowSettings, type Ids, type Scope } from '../flow/processor.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import { priceOf, readPrices } from '../llm/limits/prices.ts'
import { createRateLimiter, type RateLimiter } from '../llm/limits/rate-limiter.ts'
import { readBudget, tokenPrice } from '../llm/limits/shared-budget.ts'
import type { SharedLimits } from '../llm/limits/shared-limits.ts'
import type { Llm } from '../llm/llm.ts'
import type { FlowMetrics } from '../observe/metrics.ts'
import type { Catalogue } from '../prompt/catalogue/prompt.ts'
import { loadUncompiled } from '../prompt/catalogue/uncompiled.ts'
import type { RunLimits } from '../prompt/engine/reply.ts'
import type { RowSchema } from '../rows/row-schema.ts'
import { createOntologyOpener, ontologyOptions } from './ontologies.ts'
import { createCacheOpener, limitsOf, replyOptions } from './reply-cache.ts'

/** The options of commands that extract. */
export const modelOptions = [
  'llm',
  'model',
  'llm-timeout',
  'llm-call-timeout',
  'temperature',
  'num-ctx',
  'output-mode',
  'concurrency',
  'requests-per-minute',
  'tokens-per-minute',
  'prompts',
  'extractors',
  ...ontologyOptions,
  ...replyOptions,
] as const

export interface FlowWiring {
  readonly llm: Llm
  readonly rateLimiter: RateLimiter
  readonly prompts: Catalogue
  readonly limits: RunLimits
  /** The cache of replies, if there is one. */
  readonly replies: ReplyCache | undefined
  readonly log: Logger
  readonly clock: Clock
  readonly ids: Ids
  readonly space: string
  /** See `RunnerOptions`. */
  readonly contextKey: (() => string) | undefined
  readonly flows: readonly [Scope & { readonly settings: FlowSettings }]
}

export interface WiringOptions {
  /** The model when none is configured. */
  readonly fallback: Llm | undefined
  /** Whether a processor calls a model. Default true. */
  readonly needsModel?: boolean
  /** Whether prompts are rendered: by a model that is asked, or by one that takes its place. Default: `needsModel`. */
  readonly needsPrompts?: boolean
  /** The default of `--provenance`. */
  readonly provenance: 'none' | 'subgraph'
  readonly log: Logger
  /** Where limits are shared with other replicas. Default: they are not. */
  readonly limitsTopic?: LimitsTopic
  /** Default: no metrics of ontologies. */
  readonly metrics?: FlowMetrics
  /** Called once for each folder in which replies can't be remembered. Default: logs a warning. */
  readonly onCacheFailure?: (cacheDir: string, error: unknown) => void
}

/** Makes the parts of one flow after another. Flows with the same model share its rate limiter. */
export interface Wiring {
  /** Throws the errors of opening the model and of loading prompts and ontologies. */
  wire(config: Config): Promise<FlowWiring>
}

export function createWiring(options: WiringOptions, signal: AbortSignal): Wiring {
  const { fallback, needsModel = true, needsPrompts = needsModel, provenance, log, metrics } = options
  const { limitsTopic } = options
  const warn = (cacheDir: string, err: unknown) =>
    log.warn({ err, cacheDir }, 'replies of the model cannot be remembered')
  const rateLimiters = new Map<string, RateLimiter>()
  const openOntologies = createOntologyOpener(metrics?.ontology)
  const openReplies = createCacheOpener(options.onCacheFailure ?? warn)

  function rateLimiterOf(llm: Llm, config: Config): RateLimiter {
    const { options } = config
    const workspace = options['limit-scope'] === 'workspace' ? options.workspace : ''
    const key = JSON.stringify([workspace, llm.circuit])
    const rateLimiter =
      rateLimiters.get(key) ??
      createRateLimiter({
        concurrency: options.concurrency,
        requestsPerMinute: options['requests-per-minute'],
        tokensPerMinute: options['tokens-per-minute'],
        shared: needsModel && limitsTopic ? shareLimits(limitsTopic, llm, config) : undefined,
        onPause: ({ error, leftMs }) =>
          log.warn({ err: error, remedy: error.remedy, delayMs: leftMs }, 'calls to the model are paused'),
      })
    rateLimiters.set(key, rateLimiter)
    return rateLimiter
  }

  return {
    async wire(config) {
      const { space, workspace, flow } = config.options
      const llm = needsModel ? await openModel(config, fallback, signal) : unasked
      return {
        llm,
        rateLimiter: rateLimiterOf(llm, config),
        prompts: await loadPrompts(config, needsPrompts),
        limits: limitsOf(config),
        replies: await openReplies(config, llm),
        log,
        clock: systemClock,
        ids: uuids,
        space,
        contextKey: contextKeyOf(config),
        flows: [{ workspace, flow, settings: await settingsOf(config, openOntologies, provenance) }],
      }
    },
  }
}

/** What the model's limits share with other replicas, if they do. Throws `configuration_invalid` for a budget that cannot be kept. */
function shareLimits(topic: LimitsTopic, llm: Llm, { options, origins }: Config): SharedLimits | undefined {
  const { 'limit-scope': scope, budget: given, concurrency } = options
  const terms = given === undefined ? undefined : readBudget(given)
  if (scope === 'replica') {
    if (!terms) return undefined
    throw new GraphmillError(
      'configuration_invalid',
      'A budget is kept by all replicas together: add --limit-scope workspace or --limit-scope all.',
    )
  }
  const price = terms?.unit === 'tokens' ? tokenPrice : priceOf(llm.model, readPrices(options.prices))
  if (terms && !price && !llm.isLocal)
    throw new GraphmillError(
      'configuration_invalid',
      `budget needs a price of ${llm.model}: --prices ${llm.model}=IN/OUT, per million tokens; or give it in tokens, as in 5000000tokens/day.`,
    )
  return topic.share({
    workspace: scope === 'workspace' ? options.workspace : '',
    id: llm.circuit.replace(/^llm:/, ''),
    model: llm.model,
    concurrency: origins.concurrency === 'default' ? undefined : concurrency,
    requestsPerMinute: options['requests-per-minute'],
    tokensPerMinute: options['tokens-per-minute'],
    budget: terms && price && { ...terms, price },
  })
}

async function loadPrompts({ options: { prompts }, supplied }: Config, compile: boolean): Promise<Catalogue> {
  if (!compile) return loadUncompiled(prompts, supplied?.prompts)
  const { loadCatalogue } = await import('../prompt/catalogue/catalogue.ts')
  return loadCatalogue(prompts, supplied?.prompts)
}

async function openModel(config: Config, fallback: Llm | undefined, signal: AbortSignal): Promise<Llm> {
  const { openLlm } = await import('../llm/from-config.ts')
  return openLlm(config, fallback, signal)
}

/** Throws `configuration_invalid`, and the errors of loading row schemas and ontologies. */
async function settingsOf(
  config: Config,
  openOntologies: ReturnType<typeof createOntologyOpener>,
  provenance: WiringOptions['provenance'],
): Promise<FlowSettings> {
  const { 'chunk-size': chunkSize, 'chunk-overlap': chunkOverlap } = config.options
  const extractors = chosenExtractors(config)
  const ontologies = extractors.includes('extract-ontology') ? await openOntologies(config) : undefined
  const rowSchemas = await rowSchemasOf(config, extractors)
  checkOverlap({ chunkSize, chunkOverlap })
  return {
    extractors,
    chunkSize,
    chunkOverlap,
    ...(ontologies && { ontologies }),
    rowSchemas,
    provenance: config.options.provenance ?? provenance,
    ungrounded: config.options.ungrounded,
    replace: config.options.replace,
  }
}

/** Throws `configuration_invalid` when the text is no list of keys. */
export function contextKeyOf({ options }: Config): (() => string) | undefined {
  const secret = options['context-key']
  if (secret === undefined) return undefined
  readContextKeys(checkSecret(secret))
  return () => secretText(secret)
}

/** The model of a process whose processors call none. */
const unasked: Llm = {
  provider: localProvider,
  isLocal: true,
  model: 'none',
  destination: 'nowhere',
  circuit: 'llm:none',
  stream() {
    throw new GraphmillError('llm_not_configured', 'No model was opened for these processors.')
  },
  ready: () => Promise.resolve(),
}

/** The full names of the flow's extractors: those that are named, else the default ones and those for configured schemas and ontologies. */
export function chosenExtractors({ options, origins }: Config): string[] {
  const rows = options.schemas.length > 0 ? ['rows'] : []
  const ontology = options.ontologies.length > 0 ? ['ontology'] : []
  const configured = origins.extractors === 'default' ? [...rows, ...ontology] : []
  return extractorNames([...options.extractors, ...configured])
}

/** Throws `row_schema_invalid`, and `configuration_invalid` when there is an extractor for rows and no row schema. */
async function rowSchemasOf(
  { options, supplied }: Config,
  extractors: readonly string[],
): Promise<readonly RowSchema[]> {
  if (!extractors.includes('extract-rows')) return []
  const schemas = [...options.schemas, ...(supplied?.schemas ? [supplied.schemas] : [])]
  if (schemas.length > 0) return (await import('../rows/load.ts')).loadRowSchemas(schemas)
  throw new GraphmillError(
    'configuration_invalid',
    'No row schemas are named (schemas) for the extractor rows.',
  )
}

/** Which model gets the text: the first line that a user sees. */
export function announceModel(llm: Llm): string {
  if (llm.isLocal)
    return 'graphmill: no model is asked: a few offline rules read the text; they know English prose only and are for trying out. For a real model set OPENAI_BASE_URL and OPENAI_API_KEY.'
  return `graphmill: the text goes to ${llm.provider} ${llm.model} at ${llm.destination}`
}
