// `graphmill extract`: the whole flow in one process, by the library's `extract`. Triples go to standard output or a file, all else to
// standard error. Exit: 0 every chunk done, 3 some partial, 4 some chunk dead or document failed, 2 wrong usage, 1 anything else.
import { rename, writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { Config } from '../../config/config.ts'
import { optionTable } from '../../config/options.ts'
import { GraphmillError } from '../../errors.ts'
import { openExtraction } from '../../extraction/extract.ts'
import type { ExtractionSummary } from '../../extraction/summary.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { priceOf, readPrices } from '../../llm/limits/prices.ts'
import { offline } from '../../llm/providers.ts'
import { createLogger } from '../../observe/log.ts'
import type { TripleStore } from '../../rdf/store.ts'
import { redact } from '../../redact.ts'
import { replaceRows } from '../../rows/replaced-rows.ts'
import { coloured } from '../colour.ts'
import { costLines, costOptions, limitCost } from '../cost.ts'
import { limitsOf } from '../documents.ts'
import { type Estimate, estimateLines, estimateRow, estimator, newEstimate } from '../dry-run.ts'
import { exitCodeOf } from '../exit-code.ts'
import { failureText } from '../failure.ts'
import { addOptions, configOf } from '../options.ts'
import { createDeathNotes, say, showProgress } from '../progress.ts'
import { sampled } from '../sample-facts.ts'
import { createRejectionNotes } from '../show-rejected.ts'
import { skippedLines } from '../skipped-files.ts'
import { openOutput, storeOptions, writesPage } from '../stores.ts'
import { emptyLines, summaryLines } from '../summary.ts'
import { announceModel, createWiring, type FlowWiring, modelOptions } from '../wiring.ts'

export function addExtract(command: Command): void {
  command
    .argument('<files...>', 'files, folders, patterns, URLs, or - for standard input')
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
    'rows',
    'rows-format',
    'summary',
    'strict-exit',
    'workspace',
    'flow',
    'collection',
    'log-level',
  ])
}

async function extract(files: readonly string[], config: Config): Promise<number> {
  const shutdown = onShutdown()
  const extraction = await openCommand(files, config, shutdown.asked)
  const { strict, estimate, store, run, rows } = extraction
  let failure: unknown
  try {
    await follow(extraction)
  } catch (thrown) {
    failure = thrown
  } finally {
    shutdown.dispose()
  }
  const isBroken = failure !== undefined && !shutdown.asked.aborted
  const summary = run.summary()
  const hasRows = !isBroken && summary.units.done + summary.units.partial > 0
  if (!hasRows) await rows?.discard()
  const tables = hasRows ? await rows?.finish() : undefined
  if (failure === undefined || shutdown.asked.aborted) await store.close()
  else await store.close().catch(() => undefined)
  if (isBroken && summary.documents.length === 0) throw failure
  if (estimate && failure === undefined) return reportEstimate(estimate, summary, extraction)
  const exitCode = failure !== undefined || shutdown.asked.aborted ? 1 : exitCodeOf(summary, strict)
  const written = [...outputsOf(config), ...(tables ? rows!.paths : [])]
  reportSummary(summary, extraction, written)
  if (shutdown.asked.aborted) {
    const rest = ' with --resume: what the model has answered is remembered, only the rest is asked'
    const resume = extraction.flowWiring.replies && !extraction.isForgetful() ? rest : ''
    say(`stopped before the end; to go on, run the same command again${resume}`)
  }
  await reportJson({ ...summary, ...(tables && { rows: tables }), written, exitCode }, config)
  if (shutdown.asked.aborted) return 1
  if (failure !== undefined) throw failure
  return exitCode
}

type OpenCommand = Awaited<ReturnType<typeof openCommand>>

/** Opens the model and the output. The extraction has not begun. */
async function openCommand(files: readonly string[], config: Config, signal: AbortSignal) {
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
  // Nothing is written when the model can't be asked.
  if (!estimate) await llm.ready(signal)
  const store = sampled(estimate ? nowhere : await openOutput(config))
  const { rowSchemas = [] } = flowWiring.flows[0].settings
  const rows =
    options.rows === undefined || estimate
      ? undefined
      : await replaceRows(options.rows, rowSchemas, options['rows-format'])
  const run = openExtraction(files, {
    ...flowWiring,
    ...flowWiring.flows[0],
    ...flowWiring.flows[0].settings,
    llm: { ...llm, ready: async () => undefined },
    processors: estimate ? [estimator(estimate)] : [],
    store,
    prices: Object.fromEntries(prices),
    limit: options.limit,
    collection: options.collection,
    followLinks: options['follow-links'],
    documentLimits: limitsOf(config),
    events: ['failed', 'rejected', 'skipped', ...(rows ? (['fact'] as const) : [])],
    failures: 'report',
    signal,
  })
  return {
    config,
    flowWiring,
    log,
    prices,
    estimate,
    store,
    run,
    rows,
    strict: options['strict-exit'],
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
  const hasRows = settings.extractors.includes('extract-rows')
  if (options.rows !== undefined && !hasRows)
    throw new GraphmillError('usage', '--rows needs rows: name them with --extractors rows and --schemas.')
  if (hasRows && options.rows === undefined && !options['dry-run'])
    say('graphmill: rows are counted and written nowhere: name a folder for them with --rows.')
}

/** Where the triples of a dry run go. */
const nowhere: TripleStore = { write: async () => undefined, close: async () => undefined }

/** Runs the extraction, and shows how far it is and what fails: the first rejected item and error of each kind, every source. */
async function follow({ run, rows, flowWiring, log }: OpenCommand): Promise<void> {
  const { tracker, circuits } = run
  const display = showProgress({ ...flowWiring, documents: tracker.documents, circuits })
  const noteRejected = createRejectionNotes({ titleOf: tracker.titleOf, log })
  const noteDeath = createDeathNotes()
  try {
    for await (const event of run) {
      if (event.type === 'fact') {
        if (event.kind === 'rows') await rows?.add(event.fact.table, { ...event, values: event.fact.values })
      } else if (event.type === 'rejected') noteRejected(event)
      else if (event.type === 'skipped') skippedLines(event.name, event.files).forEach(say)
      else if (event.type !== 'failed') continue
      else if (event.documentId) noteDeath(event.error)
      else say(`graphmill: ${failureText(event.error)} ${event.error.remedy}`)
    }
  } finally {
    display.stop()
  }
}

function reportEstimate(
  estimate: Estimate,
  summary: ExtractionSummary,
  { config, flowWiring, prices }: OpenCommand,
): number {
  const { chunks } = summary
  const price = priceOf(flowWiring.llm.model, prices)
  for (const line of limitLines(summary, config)) say(line)
  const lines = config.options.json
    ? [JSON.stringify(estimateRow(estimate, chunks, price))]
    : estimateLines(estimate, chunks, price)
  for (const line of lines) process.stdout.write(`${line}\n`)
  return summary.outcome === 'failed' ? 4 : 0
}

function reportSummary(
  summary: ExtractionSummary,
  extraction: OpenCommand,
  written: readonly string[],
): void {
  const { config, prices, run, store, flowWiring } = extraction
  for (const line of [...limitLines(summary, config), ...summaryLines(summary)]) say(painted(line))
  for (const line of costLines(run.tracker.usage(), prices)) say(line)
  for (const line of emptyLines(summary, flowWiring.llm.isLocal === true)) say(painted(line))
  if (config.options.out !== undefined && config.options.store === undefined)
    for (const line of store.sample()) say(`  ${line}`)
  if (written.length > 0) say(`written    ${written.join(', ')}`)
}

/** The files of triples that were written. */
const outputsOf = ({ options }: Config): readonly string[] =>
  options.store === undefined ? (options.out ?? []) : []

/** The same object for `--json` and `--summary`. Standard output may hold the triples; then it is the last line of standard error. */
async function reportJson(summary: object, { options }: Config): Promise<void> {
  const text = redact(JSON.stringify(summary))
  if (options.json) {
    const isFree = options.out !== undefined || options.store !== undefined
    if (isFree) process.stdout.write(`${text}\n`)
    else say(text)
  }
  const path = options.summary
  if (path === undefined) return
  const beside = `${path}.${process.pid}.tmp`
  try {
    await writeFile(beside, `${text}\n`)
    await rename(beside, path)
  } catch (cause) {
    throw new GraphmillError('output_failed', `${path}: ${(cause as Error).message}`, { cause })
  }
}

const limitLines = ({ limited }: ExtractionSummary, { options }: Config): string[] =>
  limited ? [`limited    to the first ${options.limit} chunks; the rest was left out`] : []

/** What went wrong stands out in the summary. */
function painted(line: string): string {
  if (line.startsWith('failed ')) return coloured('red', line, process.stderr)
  return /^(incomplete|limited|nothing) /.test(line) ? coloured('yellow', line, process.stderr) : line
}
