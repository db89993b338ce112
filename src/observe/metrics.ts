// The metrics of a process, under TrustGraph's names if it has them. docs/metrics.md lists them all.
import { collectDefaultMetrics, Registry } from 'prom-client'
import { version } from '../version.ts'
import { type Consumer, type ConsumerStatus, type Consumers, createConsumers } from './consumers.ts'
import { createDocumentMetrics, type DocumentMetrics, type FlowName } from './document-metrics.ts'
import { createExtractionMetrics, type ExtractionMetrics, type PriceOf } from './extraction-metrics.ts'
import { createInstruments, type Instruments, removeSeries } from './instruments.ts'
import { type LimitState, showLimits } from './limit-metrics.ts'
import { createOntologyMetrics, type OntologyMetrics } from './ontology-metrics.ts'
import { createStoreMetrics, type StoreMetrics } from './store-metrics.ts'

/** The outcome of a message: handled, put back after a rate limit, to be retried, given up, or taken over by another group member. */
export type DeliveryOutcome = 'ok' | 'limited' | 'retried' | 'dead' | 'dropped'

export interface FlowMetrics {
  readonly registry: Registry
  readonly extraction: ExtractionMetrics
  readonly ontology: OntologyMetrics
  readonly store: StoreMetrics
  readonly documents: DocumentMetrics
  /** A consumer runs. */
  consuming(consumer: Consumer): ConsumerMeter
  published(processor: string, topic: string): void
  dead(processor: string, code: string): void
  /** Records of a topic were deleted before they were read: how many, or undefined when that is not known. */
  lost(processor: string, topic: string, count: number | undefined): void
  /** An entry of a compacted topic was skipped. */
  unreadable(processor: string, topic: string): void
  /** Sets the source of what is configured, and what of it runs. */
  configuration(state: ConfigurationState): void
  /** Removes the series of a flow that is gone; `isGone` tells its topics. */
  forget(flow: FlowName, isGone: (topic: string) => boolean): Promise<void>
  /** Sets the function that lists the open circuits. */
  circuits(open: () => readonly string[]): void
  /** Sets the source of the limits that are shared with other replicas. */
  limits(states: () => readonly LimitState[]): void
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
  /** A message was taken. Returns the time, for `ended`. */
  started(): number
  /** A message that was taken at `begun` has this outcome. */
  ended(begun: number, outcome: DeliveryOutcome): void
  stopped(): void
}

/** TrustGraph's values of `status`: a message that is tried again was an error, too, unless the model's rate limit was met. */
const statusOf = { ok: 'ok', retried: 'error', dead: 'error', dropped: 'dropped' } as const

const consumerLabels = ['processor', 'consumer'] as const

export interface MetricsOptions {
  /** A monotonic clock, in milliseconds. Default: `performance.now`. */
  readonly now?: () => number
  /** Default: no price is known. */
  readonly priceOf?: PriceOf
}

export function createMetrics({
  now = () => performance.now(),
  priceOf = () => undefined,
}: MetricsOptions = {}): FlowMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const instruments = createInstruments(registry)
  const consumers = createConsumers({ now })
  const counted = consumerMetrics(instruments)
  const { state, seconds, processed, limited, produced, lostRecords, lostRanges, unreadable } = counted
  const letters = instruments.counter('graphmill_dead_letters_total', 'Messages given up, by error code', [
    'processor',
    'code',
  ])
  const info = instruments.gauge('tg_processor_info', '1 for every processor that has run here', [
    'processor',
    'version',
  ])
  showConsumers(instruments, consumers)
  const documents = createDocumentMetrics(instruments, now)
  const shown = showProcess(instruments)

  function showState(labels: { processor: string; consumer: string }, running: boolean): void {
    state.set({ ...labels, tg_consumer_state: 'running' }, running ? 1 : 0)
    state.set({ ...labels, tg_consumer_state: 'stopped' }, running ? 0 : 1)
  }

  return {
    registry,
    extraction: createExtractionMetrics(instruments, priceOf),
    ontology: createOntologyMetrics(instruments),
    store: createStoreMetrics(instruments),
    documents,
    consuming(consumer) {
      const labels = { processor: consumer.processor, consumer: consumer.topic }
      const listed = consumers.add(consumer)
      info.set({ processor: consumer.processor, version }, 1)
      showState(labels, true)
      return {
        started() {
          listed.inFlight++
          return now()
        },
        ended(begun, outcome) {
          seconds.observe(labels, (now() - begun) / 1000)
          listed.inFlight--
          if (outcome === 'limited') limited.inc(labels)
          else processed.inc({ ...labels, status: statusOf[outcome] })
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
    async forget(flow, isGone) {
      await documents.forget(flow)
      for (const metric of Object.values(counted))
        await removeSeries(metric, ({ consumer, producer }) => isGone(String(consumer ?? producer)))
    },
    ...shown,
    limits: showLimits(instruments),
    consumers: () => consumers.status(),
  }
}

/** Metrics of what is consumed and published, by topic. */
function consumerMetrics({ counter, gauge, histogram }: Instruments) {
  const stateLabels = [...consumerLabels, 'tg_consumer_state'] as const
  return {
    state: gauge('tg_consumer_state', '1 for the state that the consumer is in', stateLabels),
    seconds: histogram(
      'tg_consumer_request_duration_seconds',
      'From taking a message to settling it',
      consumerLabels,
      [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 480, 960, 1920],
    ),
    processed: counter(
      'tg_consumer_processing_total',
      'Messages by outcome: ok, error (tried again or dead), dropped (another member has it)',
      [...consumerLabels, 'status'],
    ),
    limited: counter(
      'tg_consumer_rate_limit_total',
      'Messages put back because the model was asked too often',
      consumerLabels,
    ),
    produced: counter('tg_producer_messages_total', 'Messages stored by the broker', [
      'processor',
      'producer',
    ]),
    lostRecords: counter(
      'graphmill_lost_records_total',
      'Records that the broker deleted before they were read, as far as their number is known',
      consumerLabels,
    ),
    lostRanges: counter(
      'graphmill_lost_ranges_total',
      'Gaps that such records have left, also of unknown size',
      consumerLabels,
    ),
    unreadable: counter(
      'graphmill_unreadable_total',
      'Entries of a compacted topic that cannot be read, and were skipped',
      consumerLabels,
    ),
  }
}

function showConsumers({ collectedGauge }: Instruments, consumers: Consumers): void {
  collectedGauge('graphmill_in_flight', 'Messages in flight', consumerLabels, (gauge) => {
    for (const { processor, topic, inFlight } of consumers.inFlight())
      gauge.inc({ processor, consumer: topic }, inFlight)
  })
  // The broker is asked once per scrape. A lag that is not known is not shown.
  const help = "Messages that the consumer's group has not settled"
  const lagLabels = [...consumerLabels, 'workspace', 'flow'] as const
  collectedGauge('graphmill_lag', help, lagLabels, async (gauge) => {
    const found = await consumers.status()
    gauge.reset() // again, in case two scrapes overlap
    for (const { processor, topic, workspace, flow, lag } of found)
      if (lag !== null) gauge.set({ processor, consumer: topic, workspace, flow }, lag)
  })
}

/** Metrics of the process as a whole. The returned functions set their sources. */
function showProcess({
  gauge,
  collectedGauge,
}: Instruments): Pick<FlowMetrics, 'circuits' | 'configuration'> {
  let openCircuits: () => readonly string[] = () => []
  let configured: ConfigurationState = { isCurrent: () => true, flows: () => [] }
  collectedGauge('graphmill_circuit_open', '1 for what is unavailable, and paused', ['circuit'], (gauge) => {
    for (const circuit of openCircuits()) gauge.set({ circuit }, 1)
  })
  collectedGauge(
    'graphmill_configuration_current',
    '1 when what is configured runs, 0 when a change was refused or a flow does not run',
    [],
    (gauge) => gauge.set(configured.isCurrent() ? 1 : 0),
  )
  collectedGauge(
    'graphmill_flow_running',
    '1 for a flow that runs or drains, 0 for one that has failed and is retried',
    ['workspace', 'flow'],
    (gauge) => {
      for (const { name, runs } of configured.flows()) {
        const [workspace = '', flow = ''] = name.split('/')
        gauge.set({ workspace, flow }, runs ? 1 : 0)
      }
    },
  )
  gauge('graphmill_build_info', 'Always 1', ['version', 'node']).set(
    { version, node: process.versions.node },
    1,
  )
  return {
    circuits(open) {
      openCircuits = open
    },
    configuration(state) {
      configured = state
    },
  }
}
