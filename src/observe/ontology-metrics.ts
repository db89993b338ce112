// Metrics of ontologies, and of the embeddings server that helps to choose from them.
import type { Instruments } from './instruments.ts'

/** Counts what the ontologies of a flow do. */
export interface OntologyMeter {
  /** Elements were chosen for a chunk's prompt. */
  selected(selection: { readonly elements: number; readonly seconds: number }): void
  /** The embeddings server has answered. */
  embedded(call: EmbeddingsCall): void
}

export interface EmbeddingsCall {
  readonly model: string
  readonly texts: number
  readonly seconds: number
}

/** The ontologies of a flow that are in force. */
export interface LoadedOntologies {
  readonly workspace: string
  readonly ontologies: number
  /** Classes, relations and attributes. */
  readonly elements: number
}

export interface OntologyMetrics extends OntologyMeter {
  /** Sets the function that lists the ontologies in force. */
  inForce(list: () => readonly LoadedOntologies[]): void
}

/** The only processor that reads ontologies. */
const processor = 'extract-ontology'
const labels = ['processor'] as const
const modelLabels = ['processor', 'model'] as const
const elementBuckets = [1, 5, 10, 20, 50, 100, 200, 500, 1000]
const selectionSeconds = [0.001, 0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const requestSeconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
const textBuckets = [1, 5, 10, 25, 50, 100]

export function createOntologyMetrics({ counter, histogram, collectedGauge }: Instruments): OntologyMetrics {
  let loaded: () => readonly LoadedOntologies[] = () => []
  collectedGauge('tg_ontology_loaded_count', 'Ontologies in force', ['processor', 'workspace'], (gauge) => {
    for (const { workspace, ontologies } of loaded()) gauge.inc({ processor, workspace }, ontologies)
  })
  collectedGauge(
    'tg_ontology_element_count',
    'Classes, relations and attributes in force',
    labels,
    (gauge) => {
      for (const { elements } of loaded()) gauge.inc({ processor }, elements)
    },
  )
  const count = 'tg_ontology_selection_count'
  const elements = histogram(count, "Elements chosen for a chunk's prompt", labels, elementBuckets)
  const duration = 'tg_ontology_selection_duration_seconds'
  const seconds = histogram(duration, 'How long it took to choose them', labels, selectionSeconds)
  const answered = 'Requests that the embeddings server has answered'
  const requests = counter('tg_embeddings_request_total', answered, modelLabels)
  const requestDuration = 'tg_embeddings_duration_seconds'
  const requestTimes = histogram(requestDuration, 'How long they took', modelLabels, requestSeconds)
  const texts = histogram('tg_embeddings_batch_size', 'Texts of a request', modelLabels, textBuckets)
  return {
    selected(selection) {
      elements.observe({ processor }, selection.elements)
      seconds.observe({ processor }, selection.seconds)
    },
    embedded(call) {
      const series = { processor, model: call.model }
      requests.inc(series)
      requestTimes.observe(series, call.seconds)
      texts.observe(series, call.texts)
    },
    inForce(list) {
      loaded = list
    },
  }
}
