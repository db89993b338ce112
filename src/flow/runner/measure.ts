// Metrics of documents, models and facts, from the messages that are published. Processors themselves count nothing.
import type { Header, Message } from '../../messages/envelope.ts'
import type { ProgressInit, PromptResponseInit, SpentInit, UsageInit } from '../../messages/generated.ts'
import type { DocumentMetrics } from '../../observe/document-metrics.ts'
import type { ExtractionMetrics } from '../../observe/extraction-metrics.ts'
import type { Output } from '../processor.ts'

export interface Published {
  readonly processor: string
  /** The handled message, or the header of one that could not be decoded. */
  readonly cause: Header | Message
  readonly output: Output
  /** When the cause was taken and when the output was stored, in milliseconds since 1970. */
  readonly takenAt: number
  readonly storedAt: number
}

export function measure(metrics: ExtractionMetrics, published: Published): void {
  const { processor, cause, output } = published
  switch (output.to) {
    case 'chunk':
      metrics.chunkSize.observe({ processor }, output.payload.text.length)
      break
    // Facts are published by their extractor, and become triples elsewhere.
    case 'triples':
      if (isOfFacts(cause))
        metrics.triples.inc(
          { processor, extractor: metrics.extractorLabel(extractorOf(cause.source)) },
          output.payload.triples.length,
        )
      break
    case 'entity-contexts':
      metrics.entities.inc(
        { processor, extractor: extractorOf(cause.source) },
        output.payload.entities.length,
      )
      break
    case 'rejected': {
      const { promptId: prompt = '', items } = output.payload
      const model = metrics.modelLabel(output.payload.model ?? '')
      for (const { reason } of items) metrics.rejected.inc({ processor, prompt, model, reason })
      break
    }
    case 'reply':
      measureReply(metrics, output.payload, published)
      break
    case 'text-reply': {
      const { model, outputMode: mode, usage } = output.payload
      const labels = { prompt: '', model: metrics.modelLabel(model ?? '') }
      measureUsage(metrics, labels, usage)
      if (mode) metrics.outputModes.inc({ ...labels, mode })
      break
    }
    case 'progress':
      measureProgress(metrics, output.payload, published)
  }
}

/** The end of a flow: a processor that takes triples keeps them. Messages from elsewhere do not say when their document was loaded. */
export function measureHandled(
  documents: DocumentMetrics,
  { type, workspace, flow, versionTime }: Message,
  { processor, handledAt }: { readonly processor: string; readonly handledAt: number },
): void {
  if (type === 'Triples' && versionTime > 0)
    documents.stored({ processor, workspace, flow }, Math.max(0, handledAt - versionTime) / 1000)
}

/** An extractor, or a unit of it, as `--extractors` names it: `definitions`, `rows:mill`. */
const extractorOf = (unit: string) => unit.replace(/^extract-/, '')

/** Other triples describe documents, chunks and ontologies. */
const isOfFacts = (cause: Header | Message) =>
  'type' in cause && cause.type !== 'TextDocument' && cause.type !== 'Chunk'

function measureReply(
  metrics: ExtractionMetrics,
  replyPart: PromptResponseInit,
  { takenAt, storedAt }: Published,
): void {
  const { promptId = '', model, run, seq = 0, accepted = 0, outputMode } = replyPart
  const labels = { prompt: promptId, model: metrics.modelLabel(model ?? '') }
  // A run from the cache started before its message was taken.
  if (run.startedAt >= takenAt && seq === 0 && accepted > 0)
    metrics.firstItem.observe(labels, Math.max(0, storedAt - run.startedAt) / 1000)
  if (replyPart.endOfStream === false) return
  measureUsage(metrics, labels, replyPart.usage)
  if (replyPart.repaired) metrics.repaired.inc(labels, replyPart.repaired)
  if (replyPart.duplicates) metrics.repeated.inc(labels, replyPart.duplicates)
  if (outputMode) metrics.outputModes.inc({ ...labels, mode: outputMode })
  if (replyPart.truncated) metrics.truncated.inc(labels)
  if (replyPart.incomplete) metrics.incomplete.inc({ ...labels, reason: replyPart.incomplete })
}

function measureUsage(
  metrics: ExtractionMetrics,
  { prompt, model }: { readonly prompt: string; readonly model: string },
  usage: UsageInit | null | undefined,
): void {
  if (!usage) return
  const { spent = [] } = usage
  for (const { reason, calls = 1, ...paid } of spent) {
    const labels = { prompt, model: metrics.modelLabel(paid.model || model) }
    if (reason === 'cached') metrics.cacheHits.inc(labels, calls)
    else {
      metrics.calls.inc({ ...labels, reason }, calls)
      measureTokens(metrics, labels.model, paid)
    }
  }
  if (spent.length === 0) measureTokens(metrics, model, usage)
}

function measureTokens(
  { paid }: ExtractionMetrics,
  model: string,
  { promptTokens, completionTokens }: Pick<SpentInit, 'promptTokens' | 'completionTokens'>,
): void {
  if (promptTokens) paid(model, 'input', promptTokens)
  if (completionTokens) paid(model, 'output', completionTokens)
}

function measureProgress(
  metrics: ExtractionMetrics,
  entry: ProgressInit,
  { processor, cause, storedAt }: Published,
): void {
  if (entry.kind === 'spent') {
    const prompt = 'payload' in cause && cause.type === 'PromptRequest' ? cause.payload.promptId : ''
    measureUsage(metrics, { prompt, model: metrics.modelLabel(entry.model ?? '') }, entry.usage)
  }
  if (entry.kind === 'late') metrics.late.inc({ processor })
  if (entry.kind === 'superseded') metrics.superseded.inc({ extractor: extractorOf(entry.unit ?? '') })
  if (entry.kind !== 'reply') return
  const labels = { processor, extractor: extractorOf(entry.unit ?? processor) }
  for (const [kind, count] of Object.entries(entry.facts ?? {}))
    metrics.facts.inc({ extractor: labels.extractor, kind }, count)
  if (entry.ungrounded) metrics.ungrounded.inc(labels, entry.ungrounded)
  if (!entry.last || entry.error) return
  const remembered = entry.usage?.spent?.some(({ reason }) => reason === 'cached') ?? false
  if (entry.run && !remembered)
    metrics.duration.observe(labels, Math.max(0, storedAt - entry.run.startedAt) / 1000)
  if ('payload' in cause && cause.type === 'PromptResponse' && cause.payload.accepted === 0)
    metrics.empty.inc(labels)
}
