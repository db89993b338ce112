// Metrics of documents, from those who know their state (the ledger), and of the time until their triples are stored.
import { type Instruments, removeSeries } from './instruments.ts'
import { createPolledValues } from './polled-values.ts'

/** What a process knows of the documents of a flow. */
export interface DocumentFigures {
  /** Documents that have not ended. */
  readonly open: number
  /** When the one of them that waits longest made its last progress, in milliseconds since 1970; undefined when none is open. */
  readonly oldestProgress: number | undefined
  /** Units that have ended in this process, by how. */
  readonly units: Readonly<Record<'done' | 'partial' | 'dead', number>>
}

export interface FlowName {
  readonly workspace: string
  readonly flow: string
}

export interface DocumentMetrics {
  /** Sets what is asked for the figures of a flow. Call the result when they are not to be shown any more. */
  of(scope: FlowName, figures: () => Promise<DocumentFigures>): () => void
  /** A processor takes triples: a rate needs a value before the first ones. */
  stores(labels: FlowName & { readonly processor: string }): void
  /** Triples of a document are durable: how long after it was loaded. */
  stored(labels: FlowName & { readonly processor: string }, seconds: number): void
  /** The flow is gone. */
  forget(flow: FlowName): Promise<void>
}

const flowLabels = ['workspace', 'flow'] as const

/** Up to a day; the objective of `deploy/helm/graphmill/files/alerts.yaml` is one of them. */
export const storedSeconds = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 86_400]

export function createDocumentMetrics(
  { collectedGauge, collectedCounter, histogram }: Instruments,
  now: () => number,
): DocumentMetrics {
  const figures = createPolledValues<DocumentFigures>({ now })
  const flows = new Map<FlowName, { readonly fresh: () => DocumentFigures | undefined }>()

  async function known(): Promise<(DocumentFigures & FlowName)[]> {
    await figures.refresh()
    return [...flows].flatMap(([{ workspace, flow }, { fresh }]) => {
      const found = fresh()
      return found ? [{ workspace, flow, ...found }] : []
    })
  }

  collectedGauge('graphmill_documents_open', 'Documents that have not ended', flowLabels, async (gauge) => {
    const found = await known()
    gauge.reset() // again, in case two scrapes overlap
    for (const { workspace, flow, open } of found) gauge.set({ workspace, flow }, open)
  })
  collectedGauge(
    'graphmill_oldest_progress_timestamp_seconds',
    'When the open document that waits longest made its last progress',
    flowLabels,
    async (gauge) => {
      const found = await known()
      gauge.reset()
      for (const { workspace, flow, oldestProgress } of found)
        if (oldestProgress !== undefined) gauge.set({ workspace, flow }, oldestProgress / 1000)
    },
  )
  collectedCounter(
    'graphmill_units_total',
    'Units that have ended: done, partial or dead',
    [...flowLabels, 'state'],
    async (counter) => {
      const found = await known()
      counter.reset()
      for (const { workspace, flow, units } of found)
        for (const [state, count] of Object.entries(units)) counter.inc({ workspace, flow, state }, count)
    },
  )
  const stored = histogram(
    'graphmill_load_to_triples_seconds',
    'From the start of loading a document until triples of it are durable, by message',
    ['processor', ...flowLabels],
    storedSeconds,
  )
  return {
    of(scope, ask) {
      const value = figures.add(ask)
      flows.set(scope, value)
      return () => {
        value.remove()
        flows.delete(scope)
      }
    },
    stores: (labels) => stored.zero(labels),
    stored: (labels, seconds) => stored.observe(labels, seconds),
    forget: ({ workspace, flow }) =>
      removeSeries(stored, (labels) => labels['workspace'] === workspace && labels['flow'] === flow),
  }
}
