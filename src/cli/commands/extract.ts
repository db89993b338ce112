// `graphmill extract`: the whole flow in one process on the memory broker. Triples go to standard output or a file, all else to
// standard error. Exit: 0 every chunk done, 3 some partial, 4 some chunk dead or document failed, 2 wrong usage, 1 anything else.
import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { chunkText } from '../../../processors/chunk-text.ts'
import type { Broker } from '../../broker/broker.ts'
import { createMemoryCluster } from '../../broker/memory/memory.ts'
import { parseTopic } from '../../broker/topics.ts'
import type { Config } from '../../config/config.ts'
import { optionTable } from '../../config/options.ts'
import { type FindOptions, findDocuments, type NamedSource } from '../../documents/read.ts'
import { type ErrorCode, errorTable, GraphmillError, toGraphmillError } from '../../errors.ts'
import { loadDocument } from '../../flow/load-document.ts'
import { inputGroup, inputTopic, type MessageOf, outputRoute } from '../../flow/ports.ts'
import type { AnyProcessor } from '../../flow/processor.ts'
import { type FlowRuntime, run } from '../../flow/run.ts'
import { onShutdown } from '../../flow/shutdown.ts'
import { type Price, priceOf, readPrices } from '../../llm/limits/prices.ts'
import { offline } from '../../llm/providers.ts'
import type { Message } from '../../messages/envelope.ts'
import { createLogger } from '../../observe/log.ts'
import {
  createProgressAggregate,
  type DocumentStatus,
  type ProgressAggregate,
} from '../../progress/progress-aggregate.ts'
import { createTokenUsage } from '../../progress/token-usage.ts'
import type { TripleStore } from '../../rdf/store.ts'
import { coloured } from '../colour.ts'
import { costLines, costOptions, limitCost } from '../cost.ts'
import { findOptions } from '../documents.ts'
import { type Estimate, estimateLines, estimateRow, estimator, newEstimate } from '../dry-run.ts'
import { failureText } from '../failure.ts'
import { type ChunkLimit, limitChunks } from '../limit.ts'
import { ontologyOptions } from '../ontologies.ts'
import { addOptions, configOf } from '../options.ts'
import { say, showProgress } from '../progress.ts'
import { replyOptions } from '../reply-cache.ts'
import { showRejected } from '../show-rejected.ts'
import { openOutput, storeOptions } from '../stores.ts'
import { exitCodeOf, summaryLines } from '../summary.ts'
import { type Assembly, announceModel, createWiring, findProcessors } from '../wiring.ts'

/** Bytes that may wait on a topic before its publishers are held up. */
const maxTopicBytes = 32 * 1024 * 1024

export function addExtract(program: Command): void {
  const command = program
    .command('extract')
    .description(
      'extract a knowledge graph from text, Markdown, HTML and PDF files; triples go to standard output',
    )
    .argument('<files...>', 'files, folders, patterns, or - for standard input')
    .action(async (files: string[]) => {
      process.exitCode = await extract(files, configOf(command))
    })
  addOptions(command, [
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
    ...costOptions,
    'dry-run',
    'json',
    'limit',
    'resume',
    'chunk-size',
    'chunk-overlap',
    'schemas',
    'provenance',
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
  const { options } = config
  const shutdown = onShutdown()
  const fault = new AbortController()
  const signal = AbortSignal.any([shutdown.asked, fault.signal])
  const log = createLogger(options['log-level'] ?? optionTable['log-level'].defaults.extract)
  let isForgetful = false
  const onCacheFailure = (cacheDir: string, error: unknown) => {
    isForgetful = true
    const why = error instanceof Error ? ` (${error.message})` : ''
    say(`graphmill: replies of the model cannot be remembered in ${cacheDir}${why}: name another --cache-dir`)
  }
  const assembly = await createWiring(
    { fallback: offline, provenance: optionTable.provenance.defaults.extract, log, onCacheFailure },
    signal,
  ).assemble(config)
  if (options.resume && options['no-cache'])
    throw new GraphmillError('usage', '--resume replays the cache: leave --no-cache out.')
  const prices = readPrices(options.prices)
  const llm = limitCost(assembly.llm, config)
  const estimate = options['dry-run'] ? newEstimate() : undefined
  say(announceModel(assembly.llm))
  if (mixesProvenance(config, assembly))
    say('graphmill: Turtle holds no graphs: provenance stands among the facts; --format trig keeps it apart.')
  if (assembly.flows[0]!.settings.extractors.includes('extract-rows'))
    say(
      'graphmill: rows are counted here and written nowhere: `graphmill run` publishes them on their topic.',
    )
  if (!estimate) await assembly.llm.ready(signal)

  const store = estimate ? nowhere : await openOutput(config)
  const needed = [
    'chunk-text',
    'prompt',
    ...assembly.flows[0]!.settings.extractors,
    'emit-triples',
    'store-triples',
  ]
  const limit = options.limit === undefined ? undefined : limitChunks(chunkText, options.limit)
  const stand = { prompt: estimate && estimator(estimate), 'chunk-text': limit?.processor }
  const processors = findProcessors(needed).map(
    (processor) => stand[processor.name as keyof typeof stand] ?? processor,
  )
  const unread = new Set(['rejected', 'rows', 'entity-contexts', 'progress', 'schemas'])
  const cluster = createMemoryCluster({
    dropSettled: true,
    maxTopicBytes,
    discard: (topic) => unread.has(parseTopic(topic)?.role ?? ''),
  })
  const broker = cluster.connect()
  const runtime = await run(
    { ...assembly, llm, broker, processors, store, onOperatorFault: (error) => fault.abort(error) },
    signal,
  )

  const started = performance.now()
  const aggregate = createProgressAggregate()
  const spending = createTokenUsage()
  const followed = { broker, runtime, assembly }
  const titleOf = (documentId: string) => aggregate.status(documentId)?.title || documentId
  const following = Promise.allSettled([
    follow([aggregate, spending], followed, signal),
    showRejected(messagesOn('rejected', followed, signal), { titleOf, log }),
  ])
  const display = showProgress({ aggregate, circuits: runtime.circuits, ...assembly })
  const loaded = new Map<string, Set<string>>()
  const unloaded: string[] = []
  let skipped = false
  try {
    const find = (named: string) => findOptions(config, named, say)
    const loading = {
      broker,
      runtime,
      assembly,
      collection: options.collection,
      find,
      loaded,
      unloaded,
      limit,
    }
    skipped = await loadAll(files, loading, signal)
    await untilDone({ broker, aggregate, processors, assembly }, signal)
    // A file that holds an older result must not keep it where nothing was found.
    if (aggregate.documents().some(({ state }) => state !== 'failed'))
      await store.write([], assembly.flows[0]!)
  } catch (thrown) {
    if (!signal.aborted) throw thrown
  } finally {
    display.stop()
    await runtime.stop(0)
    await store.close()
    await broker.close()
    await following
    shutdown.dispose()
  }

  const documents = aggregate.documents()
  const limited = skipped || limit?.cut
  const lines = limited ? [`limited    to the first ${options.limit} chunks; the rest was left out`] : []
  if (estimate) {
    for (const line of lines) say(line)
    const price = priceOf(assembly.llm.model, prices)
    return reportEstimate(estimate, documents, { price, json: options.json })
  }
  lines.push(...summaryLines(documents, { loaded, unloaded }, (performance.now() - started) / 1000))
  for (const line of lines) say(painted(line))
  for (const line of costLines(spending.rows(), prices)) say(line)
  if (fault.signal.aborted) throw fault.signal.reason
  if (shutdown.asked.aborted) {
    const rest = ' with --resume: what the model has answered is remembered, only the rest is asked'
    const resume = assembly.replies && !isForgetful ? rest : ''
    say(`stopped before the end; to go on, run the same command again${resume}`)
    return 1
  }
  return exitCodeOf(documents, { loaded, unloaded }, options['strict-exit'])
}

/** Whether provenance loses its graph on the way to a file or standard output. */
function mixesProvenance({ options }: Config, { flows }: Assembly): boolean {
  const toStream = options.store === undefined && !options['dry-run']
  return toStream && options.format === 'turtle' && flows[0]!.settings.provenance === 'subgraph'
}

/** Where the triples of a dry run go. */
const nowhere: TripleStore = { write: async () => undefined, close: async () => undefined }

function reportEstimate(
  estimate: Estimate,
  documents: readonly DocumentStatus[],
  { price, json }: { readonly price: Price | undefined; readonly json: boolean },
): number {
  const chunks = documents.reduce((sum, document) => sum + document.chunks, 0)
  const lines = json
    ? [JSON.stringify(estimateRow(estimate, chunks, price))]
    : estimateLines(estimate, chunks, price)
  for (const line of lines) process.stdout.write(`${line}\n`)
  return documents.some(({ state }) => state === 'failed') ? 4 : 0
}

interface LoadOptions {
  readonly broker: Broker
  readonly runtime: FlowRuntime
  readonly assembly: Assembly
  readonly collection: string
  /** How what is named is looked for. */
  find(named: string): FindOptions
  /** The names of the documents that were loaded are added here, by id. */
  readonly loaded: Map<string, Set<string>>
  /** What is wrong with those that could not be is added here. */
  readonly unloaded: string[]
  /** Where only so many chunks are wanted. */
  readonly limit: ChunkLimit | undefined
}

/**
 * Every document that can be read; the others are reported at once, and gone past.
 * Resolves to whether documents were left out for the limit.
 */
async function loadAll(
  files: readonly string[],
  options: LoadOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { broker, runtime, assembly, collection, loaded, unloaded, limit } = options
  const source = {
    ...assembly,
    broker,
    codec: runtime.codec,
    circuits: runtime.circuits,
    scope: assembly.flows[0]!,
    collection,
    source: 'extract',
  }
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
      found = await findDocuments(named, signal, options.find(named))
    } catch (thrown) {
      report(thrown)
    }
    for (const document of found) {
      if (limit?.reached) return true
      try {
        const { documentId } = await loadDocument(document, source, signal)
        loaded.set(documentId, (loaded.get(documentId) ?? new Set()).add(document.name))
      } catch (thrown) {
        report(thrown)
      }
      if (limit) await untilChunked(options, signal)
    }
  }
  return false
}

/** Resolves when chunk-text has nothing to do. */
async function untilChunked({ broker, assembly }: LoadOptions, signal: AbortSignal): Promise<void> {
  const place = { space: assembly.space, ...assembly.flows[0]! }
  const group = inputGroup('document', place, 'chunk-text')
  const topic = inputTopic('document', place, 'chunk-text')
  while ((await broker.lag(group, topic)).total > 0) await wait(20, undefined, { signal })
}

interface Followed {
  readonly broker: Broker
  readonly runtime: FlowRuntime
  readonly assembly: Assembly
}

/** Counts what is said on progress; the first error of each kind that cost a message is shown. */
async function follow(
  readers: readonly { add(message: Message<'Progress'>): unknown }[],
  followed: Followed,
  signal: AbortSignal,
): Promise<void> {
  const said = new Set<string>()
  for await (const message of messagesOn('progress', followed, signal)) {
    for (const reader of readers) reader.add(message)
    const { kind, error } = message.payload
    if (kind !== 'dead' || !error || said.has(error.type)) continue
    said.add(error.type)
    say(`graphmill: ${error.message} [${error.type}] ${errorTable[error.type as ErrorCode].remedy}`)
  }
}

async function* messagesOn<P extends 'progress' | 'rejected'>(
  port: P,
  { broker, runtime, assembly }: Followed,
  signal: AbortSignal,
): AsyncGenerator<MessageOf<P>> {
  const { topic } = outputRoute(port, { space: assembly.space, ...assembly.flows[0]! })
  for await (const { value, headers } of broker.read({ topic, from: 'earliest', until: 'never' }, signal))
    yield runtime.codec.decode(value, headers) as MessageOf<P>
}

interface Watched {
  readonly broker: Broker
  readonly aggregate: ProgressAggregate
  readonly processors: readonly AnyProcessor[]
  readonly assembly: Assembly
}

/** Resolves when every document has ended and nothing is in anybody's hands. */
async function untilDone(
  { broker, aggregate, processors, assembly }: Watched,
  signal: AbortSignal,
): Promise<void> {
  const place = { space: assembly.space, ...assembly.flows[0]! }
  const ended = () => aggregate.documents().every(({ state }) => state !== 'queued' && state !== 'running')
  const idle = async () => {
    for (const { name, inputs } of processors)
      for (const port of inputs)
        if ((await broker.lag(inputGroup(port, place, name), inputTopic(port, place, name))).total > 0)
          return false
    return true
  }
  // Idle twice over, with the tally read in between: what the last message led to is counted by then.
  while (!(ended() && (await idle()) && ended())) await wait(20, undefined, { signal })
}

/** What went wrong stands out in the summary. */
function painted(line: string): string {
  if (line.startsWith('failed ')) return coloured('red', line, process.stderr)
  return /^(incomplete|limited) /.test(line) ? coloured('yellow', line, process.stderr) : line
}
