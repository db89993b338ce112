// A desk in a worker thread: reading and indexing 10,000 classes, and searching them, never keeps the loop of this one busy.
import { Worker } from 'node:worker_threads'
import { type ErrorCode, GraphmillError } from '../errors.ts'
import type { EmbeddingsCall, OntologyMeter } from '../observe/ontology-metrics.ts'
import type { SubprocessLimits } from '../subprocess/subprocess.ts'
import type { OntologyTerms } from './element-list.ts'
import type { OntologyFile } from './load.ts'
import type { OntologyService, OntologyServiceOptions, OntologySummary } from './ontology-service.ts'

export interface OntologyOptions extends OntologyServiceOptions {
  /** Files and folders. */
  readonly paths: readonly string[]
  /** What reading them may take. */
  readonly limits?: SubprocessLimits
  /** Told what is chosen and embedded. Default: nobody is. */
  readonly meter?: OntologyMeter
}

export interface OntologyWorkerOptions extends OntologyOptions {
  /** What `paths` named when they were read before; default: they are read now. */
  readonly files?: readonly OntologyFile[]
}

/** What a thread says when it is ready. */
export interface Opened {
  readonly summary: OntologySummary
  readonly files: readonly OntologyFile[]
}

export interface OntologyWorker extends OntologyService, Opened {
  /** Whether the thread is over; all that was or is asked is answered with why. */
  ended(): boolean
  /** Ends the thread; what is still asked is answered with `aborted`. */
  close(): Promise<void>
}

/** The id of what answers no question: that the embeddings server was asked. */
export const embeddedId = -1

/** What goes to the thread, and what comes back; 0 is the first answer, that it is ready or why it is not. */
export interface Question {
  readonly id: number
  readonly method: 'select' | 'check' | 'triples'
  readonly given: readonly unknown[]
}

export interface Answer {
  readonly id: number
  readonly value?: unknown
  readonly error?: {
    readonly code: ErrorCode
    readonly message: string
    readonly retryAfterMs?: number
    readonly details: Readonly<Record<string, unknown>>
  }
}

/** Resolves when the ontologies are read and indexed. Throws what reading them throws. */
export async function openOntologyWorker({
  meter,
  ...options
}: OntologyWorkerOptions): Promise<OntologyWorker> {
  const file = new URL(`./worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  const worker = new Worker(file, { workerData: options })
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>()
  let asked = 0
  let ended: GraphmillError | undefined

  function wait<T>(id: number): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    if (ended) reject(ended)
    else waiting.set(id, { resolve: resolve as (value: unknown) => void, reject })
    // Only what is being waited for keeps the process alive.
    if (waiting.size > 0) worker.ref()
    return promise
  }

  function end(error: GraphmillError): void {
    ended ??= error
    for (const { reject } of waiting.values()) reject(ended)
    waiting.clear()
  }

  async function ask<T>(
    method: Question['method'],
    given: readonly unknown[],
    signal?: AbortSignal,
  ): Promise<T> {
    signal?.throwIfAborted()
    const id = ++asked
    const answer = wait<T>(id)
    const leave = () => waiting.get(id)?.reject(signal?.reason)
    signal?.addEventListener('abort', leave)
    if (!ended) worker.postMessage({ id, method, given } satisfies Question)
    try {
      return await answer
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }

  async function select(text: string, signal?: AbortSignal): Promise<OntologyTerms> {
    const start = performance.now()
    const terms = await ask<OntologyTerms>('select', [text], signal)
    meter?.selected({ elements: countOf(terms), seconds: (performance.now() - start) / 1000 })
    return terms
  }

  worker.on('message', ({ id, value, error }: Answer) => {
    if (id === embeddedId) return meter?.embedded(value as EmbeddingsCall)
    const waiter = waiting.get(id)
    waiting.delete(id)
    if (waiting.size === 0) worker.unref()
    if (error) waiter?.reject(new GraphmillError(error.code, error.message, error))
    else waiter?.resolve(value)
  })
  worker.on('error', (cause) =>
    end(new GraphmillError('unexpected', 'The thread of the ontologies failed.', { cause })),
  )
  worker.on('exit', () => end(new GraphmillError('aborted', 'The thread of the ontologies has ended.')))

  const close = async () => {
    await worker.terminate()
  }
  try {
    return {
      ...(await wait<Opened>(0)),
      select,
      check: (items, signal) => ask('check', [items], signal),
      triples: (from, signal) => ask('triples', [from], signal),
      ended: () => ended !== undefined,
      close,
    }
  } catch (error) {
    await close()
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
