// The metrics of a process, with TrustGraph's names where it has them; docs/metrics.md lists them all.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { version } from '../version.ts'
import { type Consumer, type ConsumerStatus, createConsumers } from './consumers.ts'
import { createExtractionMetrics, type ExtractionMetrics, type PriceOf } from './extraction-metrics.ts'
import { createOntologyMetrics, type OntologyMetrics } from './ontology-metrics.ts'
import { createStoreMetrics, type StoreMetrics } from './store-metrics.ts'

/**
 * What became of a message: handled, put back because the model asked for patience, to be tried again, given up, or taken over by
 * another member of the group.
 */
export type DeliveryOutcome = 'ok' | 'limited' | 'retried' | 'dead' | 'dropped'

export interface FlowMetrics {
  readonly registry: Registry
  readonly extraction: ExtractionMetrics
  readonly ontology: OntologyMetrics
  readonly store: StoreMetrics
  /** A consumer runs. */
  consuming(consumer: Consumer): ConsumerMeter
  published(processor: string, topic: string): void
  dead(processor: string, code: string): void
  /** Records of a topic were deleted before they were read: how many, or undefined when that is not known. */
  lost(processor: string, topic: string, count: number | undefined): void
  /** An entry of a topic that is only read was passed over. */
  unreadable(processor: string, topic: string): void
  /** From where it is told what is configured, and what of it runs. */
  configuration(told: ConfigurationState): void
  /** Shows no topic any more of which this is true: its flow is gone. */
  forget(isGone: (topic: string) => boolean): Promise<void>
  /** From where the open circuits are told. */
  circuits(open: () => readonly string[]): void
  /** The consumers that run now, with their lag. */
  consumers(): Promise<readonly ConsumerStatus[]>
}

export interface ConfigurationState {
  /** Whether what runs is what is configured. */
  readonly isCurrent: () => boolean
  /** By `workspace/flow`. */
  readonly flows: () => readonly { readonly name: string; readonly runs: boolean }[]
}

export interface ConsumerMeter {
  /** A message was taken in hand; call the result with what became of it. */
  started(): (outcome: DeliveryOutcome) => void
  stopped(): void
}

/** What `forget` needs of a metric; a histogram tells its series once for each bucket, with its bound as `le`. */
interface RemovableMetric {
  get(): Promise<{ readonly values: readonly { readonly labels: Record<string, string | number> }[] }>
  remove(labels: Record<string, string | number>): void
}

/** TrustGraph's words: a message that is tried again was an error, too, unless the model only asked for patience. */
const statusOf = { ok: 'ok', retried: 'error', dead: 'error', dropped: 'dropped' } as const

export interface MetricsOptions {
  /** Milliseconds from anywhere on. Default: of a clock that nobody sets. */
  readonly now?: () => number
  /** Default: no price is known. */
  readonly priceOf?: PriceOf
}

export function createMetrics({
  now = () => performance.now(),
  priceOf = () => undefined,
}: MetricsOptions = {}): FlowMetrics {
  const registry = new Registry()
  const registers = [registry]
  const labelNames = ['processor', 'consumer'] as const
  collectDefaultMetrics({ register: registry })
  const consumers = createConsumers({ now })
  let open: () => readonly string[] = () => []
  let configuration: ConfigurationState = { isCurrent: () => true, flows: () => [] }

  const state = new Gauge({
    name: 'tg_consumer_state',
    help: '1 for the state that the consumer is in',
    labelNames: [...labelNames, 'tg_consumer_state'],
    registers,
  })
  const seconds = new Histogram({
    name: 'tg_consumer_request_duration_seconds',
    help: 'From taking a message to settling it',
    labelNames,
    buckets: [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 480, 960, 1920],
    registers,
  })
  const processed = new Counter({
    name: 'tg_consumer_processing_total',
    help: 'Messages by what became of them: ok, error (tried again or dead), dropped (another member has it)',
    labelNames: [...labelNames, 'status'],
    registers,
  })
  const limited = new Counter({
    name: 'tg_consumer_rate_limit_total',
    help: 'Messages put back because the model was asked too often',
    labelNames,
    registers,
  })
  const produced = new Counter({
    name: 'tg_producer_messages_total',
    help: 'Messages stored by the broker',
    labelNames: ['processor', 'producer'],
    registers,
  })
  const info = new Gauge({
    name: 'tg_processor_info',
    help: '1 for every processor that has run here',
    labelNames: ['processor', 'version'],
    registers,
  })
  const letters = new Counter({
    name: 'graphmill_dead_letters_total',
    help: 'Messages given up, by error code',
    labelNames: ['processor', 'code'],
    registers,
  })
  const lostRecords = new Counter({
    name: 'graphmill_lost_records_total',
    help: 'Records that the broker deleted before they were read, as far as it is known how many',
    labelNames,
    registers,
  })
  const lostRanges = new Counter({
    name: 'graphmill_lost_ranges_total',
    help: 'Gaps that such records have left, also of unknown size',
    labelNames,
    registers,
  })
  const unreadable = new Counter({
    name: 'graphmill_unreadable_total',
    help: 'Entries of a compacted topic that can not be read, and were passed over',
    labelNames,
    registers,
  })
  new Gauge({
    name: 'graphmill_in_flight',
    help: 'Messages in hand',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { processor, topic, inFlight } of consumers.inFlight())
        this.inc({ processor, consumer: topic }, inFlight)
    },
  })
  // One look at the broker serves a scrape; what is not known is not shown.
  new Gauge({
    name: 'graphmill_lag',
    help: "Messages that the consumer's group has not settled",
    labelNames,
    registers,
    async collect() {
      const found = await consumers.status()
      this.reset()
      for (const { processor, topic, lag } of found)
        if (lag !== null) this.set({ processor, consumer: topic }, lag)
    },
  })
  new Gauge({
    name: 'graphmill_circuit_open',
    help: '1 for what is away, and paused',
    labelNames: ['circuit'],
    registers,
    collect() {
      this.reset()
      for (const circuit of open()) this.set({ circuit }, 1)
    },
  })
  new Gauge({
    name: 'graphmill_configuration_current',
    help: '1 when what is configured runs, 0 when a change was refused or a flow does not run',
    registers,
    collect() {
      this.set(configuration.isCurrent() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'graphmill_flow_running',
    help: '1 for a flow that runs or drains, 0 for one that could not be started or go on and is tried again',
    labelNames: ['workspace', 'flow'],
    registers,
    collect() {
      this.reset()
      for (const { name, runs } of configuration.flows()) {
        const [workspace = '', flow = ''] = name.split('/')
        this.set({ workspace, flow }, runs ? 1 : 0)
      }
    },
  })
  new Gauge({
    name: 'graphmill_build_info',
    help: 'Always 1',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version, node: process.versions.node }, 1)

  function showState(labels: { processor: string; consumer: string }, running: boolean): void {
    state.set({ ...labels, tg_consumer_state: 'running' }, running ? 1 : 0)
    state.set({ ...labels, tg_consumer_state: 'stopped' }, running ? 0 : 1)
  }

  return {
    registry,
    extraction: createExtractionMetrics(registry, priceOf),
    ontology: createOntologyMetrics(registry),
    store: createStoreMetrics(registry),
    consuming(consumer) {
      const labels = { processor: consumer.processor, consumer: consumer.topic }
      const listed = consumers.add(consumer)
      info.set({ processor: consumer.processor, version }, 1)
      showState(labels, true)
      return {
        started() {
          listed.inFlight++
          const end = seconds.startTimer(labels)
          return (outcome) => {
            end()
            listed.inFlight--
            if (outcome === 'limited') limited.inc(labels)
            else processed.inc({ ...labels, status: statusOf[outcome] })
          }
        },
        stopped() {
          listed.remove()
          showState(labels, false)
        },
      }
    },
    published: (processor, producer) => produced.inc({ processor, producer }),
    dead: (processor, code) => letters.inc({ processor, code }),
    lost(processor, consumer, count = 0) {
      lostRecords.inc({ processor, consumer }, count)
      lostRanges.inc({ processor, consumer })
    },
    unreadable: (processor, consumer) => unreadable.inc({ processor, consumer }),
    configuration(told) {
      configuration = told
    },
    async forget(isGone) {
      const counting = [seconds, processed, limited, produced, lostRecords, lostRanges, unreadable]
      const byTopic: readonly RemovableMetric[] = [state, ...counting]
      for (const metric of byTopic)
        for (const { labels } of (await metric.get()).values) {
          const { le: _, ...series } = labels
          if (isGone(String(series['consumer'] ?? series['producer']))) metric.remove(series)
        }
    },
    circuits(tell) {
      open = tell
    },
    consumers: () => consumers.status(),
  }
}
