// What is counted of documents, models and facts. All of it is read from messages that were published, so a message that is
// handled twice counts twice: these are rates to watch, the ledger's numbers are the ones to trust.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

export type ExtractionMetrics = ReturnType<typeof createExtractionMetrics>

/** Seconds that a model may take: one call, by default at most 120, and a run of eight such calls and their waits. */
const modelSeconds = [0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 240, 480, 960, 1920]

/** The price of a model per million tokens; undefined where none is known. */
export type PriceOf = (model: string) => { readonly prompt: number; readonly completion: number } | undefined

export interface CompletedCall {
  /** As its server names it. */
  readonly model: string
  /** Undefined where none was sent. */
  readonly temperature: number | undefined
  readonly seconds: number
}

export function createExtractionMetrics(registry: Registry, priceOf: PriceOf) {
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Counter({ name, help, labelNames, registers })
  const seconds = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    new Histogram({ name, help, labelNames, buckets: modelSeconds, registers })
  const tokens = counter('tg_metering_tokens_total', 'Tokens paid for, input or output', [
    'model',
    'direction',
  ])
  const cost = counter('tg_metering_cost_usd_total', 'What they cost, by the prices of the configuration', [
    'model',
    'direction',
  ])
  const completion = seconds('tg_text_completion_duration_seconds', 'From asking the model to its end', [
    'processor',
  ])
  const completionByModel = seconds('graphmill_model_call_seconds', 'The same, by model', ['model'])
  const model = new Gauge({
    name: 'tg_text_completion_model_info',
    help: '1 for every model and temperature that was asked',
    labelNames: ['processor', 'model', 'temperature'],
    registers,
  })
  return {
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
    chunkSize: new Histogram({
      name: 'tg_chunk_size',
      help: 'Characters of a chunk',
      labelNames: ['processor'],
      buckets: [100, 250, 500, 1000, 1500, 2000, 3000, 4000, 8000, 16_000],
      registers,
    }),
    duration: seconds('tg_extraction_duration_seconds', 'From the start of a run to its last facts', [
      'processor',
      'extractor',
    ]),
    triples: counter('tg_extraction_triple_total', 'Triples of facts', ['processor', 'extractor']),
    entities: counter('tg_extraction_entity_total', 'Entity contexts of facts', ['processor', 'extractor']),
    empty: counter('tg_extraction_empty_total', 'Runs without a fact', ['processor', 'extractor']),
    facts: counter('graphmill_facts_total', 'Facts by kind', ['extractor', 'kind']),
    firstItem: seconds('graphmill_first_item_seconds', 'From the start of a run to its first item', [
      'prompt',
      'model',
    ]),
    calls: counter('graphmill_model_calls_total', 'Calls of the model, by what they were for', [
      'prompt',
      'model',
      'reason',
    ]),
    cacheHits: counter('graphmill_cache_hits_total', 'Replies that were remembered', ['prompt', 'model']),
    rejected: counter('graphmill_rejected_total', 'Rejected items by reason', [
      'processor',
      'prompt',
      'model',
      'reason',
    ]),
    repaired: counter('graphmill_repaired_total', 'Accepted items that were repaired', ['prompt', 'model']),
    repeated: counter('graphmill_repeated_total', 'Accepted items equal to an earlier one', [
      'prompt',
      'model',
    ]),
    outputModes: counter('graphmill_output_mode_total', 'Replies in JSON by how the model was asked for it', [
      'prompt',
      'model',
      'mode',
    ]),
    truncated: counter('graphmill_truncated_total', 'Replies that stayed cut off', ['prompt', 'model']),
    incomplete: counter('graphmill_incomplete_total', 'Replies that leave their unit partial, by reason', [
      'prompt',
      'model',
      'reason',
    ]),
  }
}
