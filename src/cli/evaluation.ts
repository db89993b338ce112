// A run of `graphmill eval`: the documents of the gold files go through the flow, some hundreds at a time, and each is scored when it
// has ended. Only the numbers of a document are kept.
import type { Config } from '../config/config.ts'
import { optionTable } from '../config/options.ts'
import { addCounts, sumOf } from '../counts.ts'
import { documentId, type TextSource } from '../documents/read.ts'
import { createCollector } from '../evaluation/collector.ts'
import { type FoundFact, factPorts, type Kind, kindOfPort } from '../evaluation/facts.ts'
import { type GoldDocument, type GoldSummary, readGold } from '../evaluation/gold.ts'
import type { GoldTerms } from '../evaluation/gold-facts.ts'
import { createReplay, damageOf, type ReplayMode } from '../evaluation/replay.ts'
import { createReport, type EvaluationReport } from '../evaluation/report.ts'
import { type DocumentScore, scoreDocument } from '../evaluation/score.ts'
import { findProcessors } from '../extraction/find-processors.ts'
import { openLocalFlow } from '../extraction/local-flow.ts'
import { errorResult } from '../extraction/summary.ts'
import { loadDocument } from '../flow/load-document.ts'
import { readPrices } from '../llm/limits/prices.ts'
import { offline } from '../llm/providers.ts'
import { createLogger } from '../observe/log.ts'
import type { DocumentStatus } from '../progress/document-status.ts'
import { createProgressAggregate, type ProgressAggregate } from '../progress/progress-aggregate.ts'
import { createTokenUsage, type TokenUsageRow, totalCost } from '../progress/token-usage.ts'
import type { Counts } from '../progress/totals.ts'
import { limitCost } from './cost.ts'
import { createDeathNotes, say, showProgress } from './progress.ts'
import { createRejectionNotes } from './show-rejected.ts'
import { announceModel, createWiring } from './wiring.ts'

/** The most documents that are in the flow at once. A batch ends earlier when its texts have this many characters. */
const maxBatch = { documents: 500, characters: 4 * 1024 * 1024 }

export interface EvaluationOptions {
  readonly paths: readonly string[]
  readonly terms: GoldTerms
  readonly summary: GoldSummary
  /** Its extractors are those of the run. */
  readonly config: Config
  readonly replay: ReplayMode | undefined
}

/** A document that is in the flow. */
interface OpenDocument {
  readonly gold: GoldDocument
  readonly found: FoundFact[]
}

/** The scores and sums of the documents that have ended. */
interface Results {
  readonly scores: DocumentScore[]
  readonly usage: TokenUsageRow[]
  rejected: Counts
  partial: number
  failed: number
}

/**
 * Runs the flow over all gold documents. When `signal` aborts, the result is what is known by then.
 * Throws the errors of opening the model, of a document that can't be loaded, and what an operator must fix.
 */
export async function evaluate(
  options: EvaluationOptions,
  fault: AbortController,
  signal: AbortSignal,
): Promise<EvaluationReport> {
  const evaluation = await openEvaluation(options, fault, signal)
  const { local, flowWiring, batch, results } = evaluation
  const following = Promise.allSettled([followProgress(evaluation), followRejected(evaluation)])
  const documents = () => batch.aggregate.documents()
  const display = showProgress({ ...flowWiring, documents, circuits: local.circuits })
  try {
    for await (const documents of batchesOf(readGold(options.paths, options.terms)))
      await runBatch(documents, evaluation, signal)
  } catch (thrown) {
    if (!signal.aborted) throw thrown
  } finally {
    display.stop()
    closeBatch(evaluation)
    await local.close()
    await following
  }
  return reportOf(results, options, evaluation)
}

type Evaluation = Awaited<ReturnType<typeof openEvaluation>>

async function openEvaluation(
  { config, replay, terms }: EvaluationOptions,
  fault: AbortController,
  signal: AbortSignal,
) {
  const log = createLogger(config.options['log-level'] ?? optionTable['log-level'].defaults.eval)
  const flowWiring = await createWiring(
    { fallback: offline, needsModel: replay === undefined, needsPrompts: true, provenance: 'none', log },
    signal,
  ).wire(config)
  const batch = { open: new Map<string, OpenDocument>(), aggregate: createProgressAggregate() }
  const replayed = () => [...batch.open.values()].map(({ gold }) => gold)
  const llm = replay ? createReplay(replay, replayed) : limitCost(flowWiring.llm, config)
  say(replay ? `graphmill: no model is asked: gold facts are replayed (${replay})` : announceModel(llm))
  await llm.ready(signal)
  const extractors = await findProcessors(config.options.extractors)
  const collector = createCollector(extractors, {
    rowSchemas: terms.rowSchemas,
    collect: (id, facts) => batch.open.get(id)?.found.push(...facts),
  })
  const processors = [...(await findProcessors(['chunk-text', 'prompt'])), ...extractors, collector]
  const store = { write: async () => undefined, close: async () => undefined }
  const { collection } = config.options
  const onOperatorFault = (error: Error) => fault.abort(error)
  const local = await openLocalFlow(
    { ...flowWiring, llm, processors, store, collection, source: 'eval', onOperatorFault },
    signal,
  )
  const results: Results = { scores: [], usage: [], rejected: {}, partial: 0, failed: 0 }
  const given = new Set(factPorts(extractors).map(kindOfPort))
  return { local, flowWiring, batch, results, llm, given }
}

async function* batchesOf(documents: AsyncIterable<GoldDocument>): AsyncGenerator<GoldDocument[]> {
  let batch: GoldDocument[] = []
  let characters = 0
  for await (const document of documents) {
    batch.push(document)
    characters += document.text.length
    if (batch.length < maxBatch.documents && characters < maxBatch.characters) continue
    yield batch
    batch = []
    characters = 0
  }
  if (batch.length > 0) yield batch
}

async function runBatch(
  documents: readonly GoldDocument[],
  evaluation: Evaluation,
  signal: AbortSignal,
): Promise<void> {
  const { local, batch } = evaluation
  const sources = documents.map(sourceOf)
  batch.aggregate = createProgressAggregate()
  for (const [n, gold] of documents.entries())
    batch.open.set(await documentId(sources[n]!), { gold, found: [] })
  for (const source of sources) await loadDocument(source, local.source, signal)
  await local.untilDone(() => [...batch.open.keys()].every((id) => hasEnded(batch.aggregate, id)))
  closeBatch(evaluation)
}

function sourceOf({ id, text }: GoldDocument): TextSource {
  return {
    title: id,
    uri: '',
    mediaType: 'text/plain',
    async *text() {
      yield text
    },
  }
}

function hasEnded(aggregate: ProgressAggregate, id: string): boolean {
  const state = aggregate.status(id)?.state ?? 'queued'
  return state !== 'queued' && state !== 'running'
}

/**
 * Scores the documents of the batch that have ended and whose facts have all arrived, and forgets the batch. A document with a call
 * that `--max-cost` did not admit has not been read.
 */
function closeBatch({ batch, results, given }: Evaluation): void {
  for (const [id, { gold, found }] of batch.open) {
    const status = batch.aggregate.status(id)
    if (!status || !hasEnded(batch.aggregate, id) || found.length < sumOf(status.totals.facts)) continue
    if (status.incomplete['max_cost']) continue
    results.scores.push(scoreDocument(gold, found, [...given]))
    results.rejected = addCounts([results.rejected, status.totals.rejected])
    if (isFailed(status)) results.failed++
    else if (status.units.partial > 0) results.partial++
  }
  batch.open.clear()
}

const isFailed = ({ state, units }: DocumentStatus) => state === 'failed' || units.dead > 0

/** Counts the entries on `progress`. Those of earlier batches matter only for their tokens. */
async function followProgress({ local, batch, results }: Evaluation): Promise<void> {
  const noteDeath = createDeathNotes()
  for await (const message of local.messages('progress')) {
    if (batch.open.has(message.documentId)) batch.aggregate.add(message)
    const tokens = createTokenUsage()
    tokens.add(message)
    addRows(results.usage, tokens.rows())
    const { kind, error } = message.payload
    if (kind === 'dead' && error) noteDeath(errorResult(error.type, error.message))
  }
}

async function followRejected({ local, batch, flowWiring: { log } }: Evaluation): Promise<void> {
  const titleOf = (id: string) => batch.open.get(id)?.gold.id ?? id
  const note = createRejectionNotes({ titleOf, log })
  for await (const { documentId, chunkId, payload } of local.messages('rejected'))
    for (const item of payload.items) note({ ...item, promptId: payload.promptId, documentId, chunkId })
}

/** Adds rows to those of the same model and reason, whatever their documents. */
function addRows(sums: TokenUsageRow[], rows: readonly TokenUsageRow[]): void {
  for (const row of rows) {
    const sum = sums.find(({ model, reason }) => model === row.model && reason === row.reason)
    if (!sum) {
      sums.push({ ...row, documentId: '', unit: '' })
      continue
    }
    for (const name of ['calls', 'promptTokens', 'completionTokens', 'unreported'] as const)
      sum[name] += row[name]
  }
}

function reportOf(
  { scores, usage, rejected, partial, failed }: Results,
  { config, summary, replay }: EvaluationOptions,
  { llm, given }: Evaluation,
): EvaluationReport {
  const sum = (name: 'promptTokens' | 'completionTokens' | 'unreported') =>
    usage.reduce((total, row) => total + row[name], 0)
  const { total, unknown } = totalCost(usage, readPrices(config.options.prices))
  return createReport({
    model: llm.model,
    prompts: config.options.prompts,
    gold: summary.digest,
    documents: summary.documents,
    partial,
    failed,
    notExtracted: summary.kinds.filter((kind: Kind) => !given.has(kind)),
    rejected,
    calls: addCounts(usage.map(({ reason, calls }) => ({ [reason]: calls }))),
    promptTokens: sum('promptTokens'),
    completionTokens: sum('completionTokens'),
    unreported: sum('unreported'),
    cost: llm.isLocal ? 0 : unknown.size > 0 ? null : total,
    scores,
    damageOf: replay === 'damaged' ? damageOf : undefined,
  })
}
