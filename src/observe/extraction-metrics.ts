// Metrics of documents, models and facts. All are counted from published messages, so a message that is handled twice counts
// twice. Use them as rates to watch; for exact numbers use the ledger.
import { createLabelBound, type Instruments } from './instruments.ts'

export type ExtractionMetrics = ReturnType<typeof createExtractionMetrics>

/** Buckets in seconds: up to one call (120 by default), and up to a run of eight such calls with their waits. */
const modelSeconds = [0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 240, 480, 960, 1920]

const chunkSizes = [100, 250, 500, 1000, 1500, 2000, 3000, 4000, 8000, 16_000]

/** The price of a model per million tokens; undefined when none is known. */
export type PriceOf = (model: string) => { readonly prompt: number; readonly completion: number } | undefined

export interface CompletedCall {
  /** The name that its server gives it. */
  readonly model: string
  /** Undefined when none was sent. */
  readonly temperature: number | undefined
  readonly seconds: number
}

export function createExtractionMetrics({ counter, histogram, gauge }: Instruments, priceOf: PriceOf) {
  const seconds = <L extends string>(name: string, help: string, labels: readonly L[]) =>
    histogram(name, help, labels, modelSeconds)
  const paid = ['model', 'direction'] as const
  const tokens = counter('tg_metering_tokens_total', 'Tokens paid for, input or output', paid)
  const costHelp = 'What they cost, by the prices of the configuration'
  const cost = counter('tg_metering_cost_usd_total', costHelp, paid)
  const completionHelp = 'From asking the model to its end'
  const completion = seconds('tg_text_completion_duration_seconds', completionHelp, ['processor'])
  const completionByModel = seconds('graphmill_model_call_seconds', 'The same, by model', ['model'])
  const model = gauge('tg_text_completion_model_info', '1 for every model and temperature that was asked', [
    'processor',
    'model',
    'temperature',
  ])
  const extractor = ['processor', 'extractor'] as const
  const prompt = ['prompt', 'model'] as const
  return {
    /** The label of a model by the name that its server gives it, and of the extractor that a message names as its source. */
    modelLabel: createLabelBound(),
    extractorLabel: createLabelBound(),
    /** Tokens of a model that were paid for. */
    paid(model: string, direction: 'input' | 'output', count: number): void {
      tokens.inc({ model, direction }, count)
      const price = priceOf(model)?.[direction === 'input' ? 'prompt' : 'completion']
      if (price !== undefined) cost.inc({ model, direction }, (count * price) / 1_000_000)
    },
    /** A call of a model that came to its end. */
    completed(processor: string, call: CompletedCall): void {
      completion.observe({ processor }, call.seconds)
      completionByModel.observe({ model: call.model }, call.seconds)
      model.set({ processor, model: call.model, temperature: call.temperature ?? '' }, 1)
    },
    chunkSize: histogram('tg_chunk_size', 'Characters of a chunk', ['processor'], chunkSizes),
    duration: seconds(
      'tg_extraction_duration_seconds',
      'From the start of a run to its last facts',
      extractor,
    ),
    triples: counter('tg_extraction_triple_total', 'Triples of facts', extractor),
    entities: counter('tg_extraction_entity_total', 'Entity contexts of facts', extractor),
    empty: counter('tg_extraction_empty_total', 'Runs without a fact', extractor),
    facts: counter('graphmill_facts_total', 'Facts by kind', ['extractor', 'kind']),
    late: counter(
      'graphmill_late_parts_total',
      'Parts and removals of documents that came after a newer version, and were passed over',
      ['processor'],
    ),
    superseded: counter(
      'graphmill_superseded_units_total',
      'Units that ended without the model, because their document no longer has the chunk',
      ['extractor'],
    ),
    ungrounded: counter('graphmill_ungrounded_total', 'Facts that do not stand in the text', extractor),
    firstItem: seconds('graphmill_first_item_seconds', 'From the start of a run to its first item', prompt),
    calls: counter('graphmill_model_calls_total', 'Calls of the model, by what they were for', [
      ...prompt,
      'reason',
    ]),
    cacheHits: counter('graphmill_cache_hits_total', 'Replies that were remembered', prompt),
    rejected: counter('graphmill_rejected_total', 'Rejected items by reason', [
      'processor',
      ...prompt,
      'reason',
    ]),
    repaired: counter('graphmill_repaired_total', 'Accepted items that were repaired', prompt),
    repeated: counter('graphmill_repeated_total', 'Accepted items equal to an earlier one', prompt),
    outputModes: counter('graphmill_output_mode_total', 'Replies in JSON by how the model was asked for it', [
      ...prompt,
      'mode',
    ]),
    truncated: counter('graphmill_truncated_total', 'Replies that stayed cut off', prompt),
    incomplete: counter('graphmill_incomplete_total', 'Replies that leave their unit partial, by reason', [
      ...prompt,
      'reason',
    ]),
  }
}
