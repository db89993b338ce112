// An ontology service in a worker thread: reading, indexing and searching 10,000 classes never blocks the event loop of this one.
import type { InputFile } from '../input-file.ts'
import type { EmbeddingsCall, OntologyMeter } from '../observe/ontology-metrics.ts'
import type { SubprocessLimits } from '../subprocess/subprocess.ts'
import { siblingModule } from '../workers/sibling-module.ts'
import { startWorker } from '../workers/worker-calls.ts'
import type { OntologyTerms } from './element-list.ts'
import type { OntologyService, OntologyServiceOptions, OntologySummary } from './ontology-service.ts'

/** Which ontologies are read, and how a chunk finds what it needs of them. */
export interface OntologyOptions extends OntologyServiceOptions {
  /** Files and folders, and files that were read before. */
  readonly paths: readonly (string | InputFile)[]
  /** What reading them may take. */
  readonly limits?: SubprocessLimits
  /** Learns what is chosen and embedded. Default: nothing does. */
  readonly meter?: OntologyMeter
}

export interface OntologyWorkerOptions extends OntologyOptions {
  /** The content of `paths` from an earlier reading. Default: they are read now. */
  readonly files?: readonly InputFile[]
}

/** What a thread answers when it is ready. */
export interface Opened {
  readonly summary: OntologySummary
  readonly files: readonly InputFile[]
}

export interface OntologyWorker extends OntologyService, Opened {
  /** Whether the thread is over: every question fails from then on. */
  ended(): boolean
  /** Ends the thread. Open questions fail with `aborted`. */
  close(): Promise<void>
}

/** What the thread is asked: first to open the ontologies, then questions to their service. */
export type OntologyTask =
  | { readonly method: 'open'; readonly options: Omit<OntologyWorkerOptions, 'meter'> }
  | { readonly method: 'select' | 'check' | 'triples'; readonly given: readonly unknown[] }

/** Resolves when the ontologies are read and indexed. Throws what reading them throws. */
export async function openOntologyWorker({
  meter,
  ...options
}: OntologyWorkerOptions): Promise<OntologyWorker> {
  const worker = startWorker(siblingModule('worker', import.meta.url), {
    subject: 'The thread of the ontologies',
    onNotice: (call) => meter?.embedded(call as EmbeddingsCall),
  })
  const ask = <T>(task: OntologyTask, signal?: AbortSignal) => worker.call<T>(task, signal)

  async function select(text: string, signal?: AbortSignal): Promise<OntologyTerms> {
    const start = performance.now()
    const terms = await ask<OntologyTerms>({ method: 'select', given: [text] }, signal)
    meter?.selected({ elements: countOf(terms), seconds: (performance.now() - start) / 1000 })
    return terms
  }

  try {
    return {
      ...(await ask<Opened>({ method: 'open', options })),
      select,
      check: (items, signal) => ask({ method: 'check', given: [items] }, signal),
      triples: (from, signal) => ask({ method: 'triples', given: [from] }, signal),
      ended: () => worker.ended !== undefined,
      close: worker.close,
    }
  } catch (error) {
    await worker.close()
    throw error
  }
}

function countOf(terms: OntologyTerms): number {
  const { classes, object_properties, datatype_properties } = terms
  return [classes, object_properties, datatype_properties].reduce(
    (sum, elements) => sum + Object.keys(elements).length,
    0,
  )
}
