// `graphmill extract`: the whole flow in one process on the memory broker. Triples go to standard output or a file, all else to
// standard error. Exit: 0 every chunk done, 3 some partial, 4 some chunk dead or document failed, 2 wrong usage, 1 anything else.
import type { Command } from 'commander'
import { chunkText } from '../../../processors/chunk-text.ts'
import type { Config } from '../../config/config.ts'
import { optionTable } from '../../config/options.ts'
import { findDocuments, type NamedSource } from '../../documents/read.ts'
import { GraphmillError, toGraphmillError } from '../../errors.ts'
import { loadDocument } from '../../flow/load-document.ts'
import type { AnyProcessor } from '../../flow/processor.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { priceOf, readPrices } from '../../llm/limits/prices.ts'
import { offline } from '../../llm/providers.ts'
import { createLogger } from '../../observe/log.ts'
import { createProgressAggregate } from '../../progress/progress-aggregate.ts'
import { createTokenUsage } from '../../progress/token-usage.ts'
import type { TripleStore } from '../../rdf/store.ts'
import { coloured } from '../colour.ts'
import { costLines, costOptions, limitCost } from '../cost.ts'
import { findOptions } from '../documents.ts'
import { type Estimate, estimateLines, estimateRow, estimator, newEstimate } from '../dry-run.ts'
import { exitCodeOf } from '../exit-code.ts'
import { failureText } from '../failure.ts'
import { type ChunkLimit, limitChunks } from '../limit.ts'
import { openLocalFlow } from '../local-flow.ts'
import { addOptions, configOf } from '../options.ts'
import { createDeathNotes, say, showProgress } from '../progress.ts'
import { sampled } from '../sample-facts.ts'
import { showRejected } from '../show-rejected.ts'
import { openOutput, storeOptions, writesPage } from '../stores.ts'
import { summaryLines } from '../summary.ts'
import { announceModel, createWiring, type FlowWiring, findProcessors, modelOptions } from '../wiring.ts'

export function addExtract(command: Command): void {
  command
    .argument('<files...>', 'files, folders, patterns, or - for standard input')
    .action(async (files: string[]) => {
      process.exitCode = await extract(files, configOf(command))
    })
  addOptions(command, [
    ...modelOptions,
    ...costOptions,
    'dry-run',
    'json',
    'limit',
    'resume',
    'chunk-size',
    'chunk-overlap',
    'schemas',
    'provenance',
    'ungrounded',
    'follow-links',
    ...storeOptions,
    'strict-exit',
    'workspace',
    'flow',
    'collection',
    'log-level',
  ])
}

async function extract(files: readonly string[], config: Config): Promise<number> {
  const shutdown = onShutdown()
  const fault = new AbortController()
  const signal = AbortSignal.any([shutdown.asked, fault.signal])
  const extraction = await openExtraction(config, fault, signal)
  const started = performance.now()
  try {
    await loadAndFinish(files, extraction, signal)
  } finally {
    shutdown.dispose()
  }
  if (extraction.estimate) return reportEstimate(extraction.estimate, extraction)
  reportSummary(extraction, (performance.now() - started) / 1000)
  if (fault.signal.aborted) throw fault.signal.reason
  if (shutdown.asked.aborted) {
    const rest = ' with --resume: what the model has answered is remembered, only the rest is asked'
    const resume = extraction.flowWiring.replies && !extraction.isForgetful() ? rest : ''
    say(`stopped before the end; to go on, run the same command again${resume}`)
    return 1
  }
  return exitCodeOf(extraction.aggregate.documents(), extraction, config.options['strict-exit'])
}

type Extraction = Awaited<ReturnType<typeof openExtraction>>

/** Opens the model and the output, and starts the flow on a broker in memory. */
async function openExtraction(config: Config, fault: AbortController, signal: AbortSignal) {
  const { options } = config
  const log = createLogger(options['log-level'] ?? optionTable['log-level'].defaults.extract)
  let isForgetful = false
  const onCacheFailure = (cacheDir: string, error: unknown) => {
    isForgetful = true
    const why = error instanceof Error ? ` (${error.message})` : ''
    say(`graphmill: replies of the model cannot be remembered in ${cacheDir}${why}: name another --cache-dir`)
  }
  // A page shows where facts stand in the text.
  const provenance = writesPage(config) ? 'subgraph' : optionTable.provenance.defaults.extract
  const flowWiring = await createWiring({ fallback: offline, provenance, log, onCacheFailure }, signal).wire(
    config,
  )
  if (options.resume && options['no-cache'])
    throw new GraphmillError('usage', '--resume replays the cache: leave --no-cache out.')
  const prices = readPrices(options.prices)
  const llm = limitCost(flowWiring.llm, config)
  announce(config, flowWiring)
  const estimate = options['dry-run'] ? newEstimate() : undefined
  if (!estimate) await flowWiring.llm.ready(signal)

  const store = sampled(estimate ? nowhere : await openOutput(config))
  const limit = options.limit === undefined ? undefined : limitChunks(chunkText, options.limit)
  const processors = await processorsOf(flowWiring, { estimate, limit })
  const local = await openLocalFlow(
    {
      flowWiring,
      llm,
      processors,
      store,
      collection: options.collection,
      source: 'extract',
      onOperatorFault: (error) => fault.abort(error),
    },
    signal,
  )
  return {
    config,
    flowWiring,
    log,
    prices,
    estimate,
    limit,
    store,
    local,
    aggregate: createProgressAggregate(),
    tokenUsage: createTokenUsage(),
    /** The names of the documents that were loaded, by id. */
    loaded: new Map<string, Set<string>>(),
    /** What is wrong with those that could not be loaded. */
    unloaded: [] as string[],
    /** Whether documents were left out for the limit. */
    skipped: false,
    /** Whether replies of the model could not be remembered. */
    isForgetful: () => isForgetful,
  }
}

/** Says which model gets the text, and which settings may have unexpected effects. */
function announce({ options }: Config, { llm, flows: [{ settings }] }: FlowWiring): void {
  say(announceModel(llm))
  const isStream = options.store === undefined && !options['dry-run']
  if (isStream && options.format === 'turtle' && settings.provenance === 'subgraph')
    say('graphmill: Turtle holds no graphs: provenance stands among the facts; --format trig keeps it apart.')
  if (settings.extractors.includes('extract-rows'))
    say(
      'graphmill: rows are counted here and written nowhere: `graphmill run` publishes them on their topic.',
    )
}

/** The processors of the flow, with those of an estimate or a limit in place of the usual ones. */
async function processorsOf(
  { flows }: FlowWiring,
  { estimate, limit }: { readonly estimate: Estimate | undefined; readonly limit: ChunkLimit | undefined },
): Promise<AnyProcessor[]> {
  const { extractors } = flows[0].settings
  const replaced: Readonly<Record<string, AnyProcessor | undefined>> = {
    prompt: estimate && estimator(estimate),
    'chunk-text': limit?.processor,
  }
  const names = ['chunk-text', 'prompt', ...extractors, 'emit-triples', 'store-triples']
  return (await findProcessors(names)).map((processor) => replaced[processor.name] ?? processor)
}

/** Where the triples of a dry run go. */
const nowhere: TripleStore = { write: async () => undefined, close: async () => undefined }

/** Loads the documents, shows the progress, and closes all when every document has ended or `signal` aborts. */
async function loadAndFinish(
  files: readonly string[],
  extraction: Extraction,
  signal: AbortSignal,
): Promise<void> {
  const { flowWiring, aggregate, store, local, log } = extraction
  const titleOf = (documentId: string) => aggregate.status(documentId)?.title || documentId
  const following = Promise.allSettled([
    followProgress(extraction),
    showRejected(local.messages('rejected'), { titleOf, log }),
  ])
  const display = showProgress({ aggregate, circuits: local.circuits, ...flowWiring })
  try {
    extraction.skipped = await loadAll(files, extraction, signal)
    await local.untilDone(() =>
      aggregate.documents().every(({ state }) => state !== 'queued' && state !== 'running'),
    )
    // A file that holds an older result must not keep it when nothing was found.
    if (aggregate.documents().some(({ state }) => state !== 'failed'))
      await store.write([], flowWiring.flows[0])
  } catch (thrown) {
    if (!signal.aborted) throw thrown
  } finally {
    display.stop()
    await local.close()
    await following
  }
}

/** Loads every document that can be read, and reports the others at once. Resolves to whether the limit left documents out. */
async function loadAll(
  files: readonly string[],
  extraction: Extraction,
  signal: AbortSignal,
): Promise<boolean> {
  const { config, local, loaded, unloaded, limit } = extraction
  const report = (thrown: unknown) => {
    signal.throwIfAborted()
    const error = toGraphmillError(thrown)
    if (!error.code.startsWith('document_')) throw error
    unloaded.push(`${error.message} ${error.remedy}`)
    say(`graphmill: ${failureText(error)} ${error.remedy}`)
  }
  for (const named of files) {
    let found: NamedSource[] = []
    try {
      found = await findDocuments(named, signal, findOptions(config, named, say))
    } catch (thrown) {
      report(thrown)
    }
    for (const document of found) {
      if (limit?.reached) return true
      try {
        const { documentId } = await loadDocument(document, local.source, signal)
        loaded.set(documentId, (loaded.get(documentId) ?? new Set()).add(document.name))
      } catch (thrown) {
        report(thrown)
      }
      if (limit) await local.untilIdle([chunkText])
    }
  }
  return false
}

/** Counts the entries on `progress`, and shows the first error of each kind that cost a message. */
async function followProgress(extraction: Extraction): Promise<void> {
  const noteDeath = createDeathNotes()
  for await (const message of extraction.local.messages('progress')) {
    extraction.aggregate.add(message)
    extraction.tokenUsage.add(message)
    noteDeath(message)
  }
}

function reportEstimate(estimate: Estimate, extraction: Extraction): number {
  const { config, flowWiring, aggregate, prices } = extraction
  const documents = aggregate.documents()
  const chunks = documents.reduce((sum, document) => sum + document.chunks, 0)
  const price = priceOf(flowWiring.llm.model, prices)
  for (const line of limitLines(extraction)) say(line)
  const lines = config.options.json
    ? [JSON.stringify(estimateRow(estimate, chunks, price))]
    : estimateLines(estimate, chunks, price)
  for (const line of lines) process.stdout.write(`${line}\n`)
  return documents.some(({ state }) => state === 'failed') ? 4 : 0
}

function reportSummary(extraction: Extraction, seconds: number): void {
  const { aggregate, tokenUsage, prices, config, store } = extraction
  const lines = [...limitLines(extraction), ...summaryLines(aggregate.documents(), extraction, seconds)]
  for (const line of lines) say(painted(line))
  for (const line of costLines(tokenUsage.rows(), prices)) say(line)
  if (config.options.out === undefined || config.options.store !== undefined) return
  for (const line of store.sample()) say(`  ${line}`)
  say(`written    ${config.options.out.join(', ')}`)
}

const limitLines = ({ skipped, limit, config }: Extraction): string[] =>
  skipped || limit?.cut
    ? [`limited    to the first ${config.options.limit} chunks; the rest was left out`]
    : []

/** What went wrong stands out in the summary. */
function painted(line: string): string {
  if (line.startsWith('failed ')) return coloured('red', line, process.stderr)
  return /^(incomplete|limited) /.test(line) ? coloured('yellow', line, process.stderr) : line
}
