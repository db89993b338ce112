// What is counted of ontologies, and of the embeddings server that helps to choose from them.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** What the ontologies of a flow tell while they work. */
export interface OntologyMeter {
  /** So many elements were chosen for a chunk's prompt. */
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
  /** From where the ontologies in force are told. */
  inForce(tell: () => readonly LoadedOntologies[]): void
}

/** The only one that reads ontologies. */
const processor = 'extract-ontology'

export function createOntologyMetrics(registry: Registry): OntologyMetrics {
  const registers = [registry]
  let tell: () => readonly LoadedOntologies[] = () => []
  new Gauge({
    name: 'tg_ontology_loaded_count',
    help: 'Ontologies in force',
    labelNames: ['processor', 'workspace'],
    registers,
    collect() {
      this.reset()
      for (const { workspace, ontologies } of tell()) this.inc({ processor, workspace }, ontologies)
    },
  })
  new Gauge({
    name: 'tg_ontology_element_count',
    help: 'Classes, relations and attributes in force',
    labelNames: ['processor'],
    registers,
    collect() {
      this.reset()
      for (const { elements } of tell()) this.inc({ processor }, elements)
    },
  })
  const elements = new Histogram({
    name: 'tg_ontology_selection_count',
    help: "Elements chosen for a chunk's prompt",
    labelNames: ['processor'],
    buckets: [1, 5, 10, 20, 50, 100, 200, 500, 1000],
    registers,
  })
  const seconds = new Histogram({
    name: 'tg_ontology_selection_duration_seconds',
    help: 'How long it took to choose them',
    labelNames: ['processor'],
    buckets: [0.001, 0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  })
  const requests = new Counter({
    name: 'tg_embeddings_request_total',
    help: 'Requests that the embeddings server has answered',
    labelNames: ['processor', 'model'],
    registers,
  })
  const requestSeconds = new Histogram({
    name: 'tg_embeddings_duration_seconds',
    help: 'How long they took',
    labelNames: ['processor', 'model'],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
    registers,
  })
  const texts = new Histogram({
    name: 'tg_embeddings_batch_size',
    help: 'Texts of a request',
    labelNames: ['processor', 'model'],
    buckets: [1, 5, 10, 25, 50, 100],
    registers,
  })
  return {
    selected(selection) {
      elements.observe({ processor }, selection.elements)
      seconds.observe({ processor }, selection.seconds)
    },
    embedded(call) {
      const labels = { processor, model: call.model }
      requests.inc(labels)
      requestSeconds.observe(labels, call.seconds)
      texts.observe(labels, call.texts)
    },
    inForce(from) {
      tell = from
    },
  }
}
