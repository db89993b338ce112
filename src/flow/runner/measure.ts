// What a message that was published says of documents, models and facts, for the metrics. Processors themselves count nothing.
import type { Header, Message } from '../../messages/envelope.ts'
import type { ProgressInit, PromptResponseInit, SpentInit, UsageInit } from '../../messages/generated.ts'
import type { ExtractionMetrics } from '../../observe/extraction-metrics.ts'
import type { Output } from '../processor.ts'

export interface Published {
  readonly processor: string
  /** What was in hand: a message, or of one that could not be read its header. */
  readonly cause: Header | Message
  readonly output: Output
  /** When the cause was taken in hand, and when the output was stored; milliseconds since 1970. */
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
          { processor, extractor: extractorOf(cause.source) },
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
      const { promptId: prompt = '', model, items } = output.payload
      for (const { reason } of items) metrics.rejected.inc({ processor, prompt, model: model ?? '', reason })
      break
    }
    case 'reply':
      measureReply(metrics, output.payload, published)
      break
    case 'text-reply': {
      const { model, outputMode: mode, usage } = output.payload
      const labels = { prompt: '', model: model ?? '' }
      measureUsage(metrics, labels, usage)
      if (mode) metrics.outputModes.inc({ ...labels, mode })
      break
    }
    case 'progress':
      measureProgress(metrics, output.payload, published)
  }
}

/** An extractor, or a unit of it, as `--extractors` names it: `definitions`, `rows:mill`. */
const extractorOf = (unit: string) => unit.replace(/^extract-/, '')

/** Other triples say what documents, chunks and ontologies are. */
const isOfFacts = (cause: Header | Message) =>
  'type' in cause && cause.type !== 'TextDocument' && cause.type !== 'Chunk'

function measureReply(
  metrics: ExtractionMetrics,
  part: PromptResponseInit,
  { takenAt, storedAt }: Published,
): void {
  const labels = { prompt: part.promptId ?? '', model: part.model ?? '' }
  // A remembered run has started in another life.
  const live = part.run.startedAt >= takenAt
  if (live && (part.seq ?? 0) === 0 && (part.accepted ?? 0) > 0)
    metrics.firstItem.observe(labels, Math.max(0, storedAt - part.run.startedAt) / 1000)
  if (part.endOfStream === false) return
  measureUsage(metrics, labels, part.usage)
  if (part.repaired) metrics.repaired.inc(labels, part.repaired)
  if (part.duplicates) metrics.repeated.inc(labels, part.duplicates)
  if (part.outputMode) metrics.outputModes.inc({ ...labels, mode: part.outputMode })
  if (part.truncated) metrics.truncated.inc(labels)
  if (part.incomplete) metrics.incomplete.inc({ ...labels, reason: part.incomplete })
}

function measureUsage(
  metrics: ExtractionMetrics,
  { prompt, model }: { readonly prompt: string; readonly model: string },
  usage: UsageInit | null | undefined,
): void {
  if (!usage) return
  const { spent = [] } = usage
  for (const { reason, calls = 1, ...paid } of spent) {
    const labels = { prompt, model: paid.model || model }
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
    measureUsage(metrics, { prompt, model: entry.model ?? '' }, entry.usage)
  }
  if (entry.kind !== 'reply') return
  const labels = { processor, extractor: extractorOf(entry.unit ?? processor) }
  for (const [kind, count] of Object.entries(entry.facts ?? {}))
    metrics.facts.inc({ extractor: labels.extractor, kind }, count)
  if (!entry.last || entry.error) return
  const remembered = entry.usage?.spent?.some(({ reason }) => reason === 'cached') ?? false
  if (entry.run && !remembered)
    metrics.duration.observe(labels, Math.max(0, storedAt - entry.run.startedAt) / 1000)
  if ('payload' in cause && cause.type === 'PromptResponse' && cause.payload.accepted === 0)
    metrics.empty.inc(labels)
}
