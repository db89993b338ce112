// The thread in which one version of the ontologies is read, indexed and asked.
import { parentPort, workerData } from 'node:worker_threads'
import { toGraphmillError } from '../errors.ts'
import { readOntologyBounded } from './bounded-load.ts'
import { sound } from './load.ts'
import { createOntologyService, type OntologyService } from './ontology-service.ts'
import {
  type Answer,
  embeddedId,
  type OntologyWorkerOptions,
  type Opened,
  type Question,
} from './worker-client.ts'

const port = parentPort!
const { paths, files, limits, ...options } = workerData as OntologyWorkerOptions

function failure(thrown: unknown): NonNullable<Answer['error']> {
  const { code, message, retryAfterMs, details } = toGraphmillError(thrown)
  return { code, message, details, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

async function answer(service: OntologyService, { id, method, given }: Question): Promise<void> {
  try {
    const value = await (service[method] as (...given: readonly unknown[]) => Promise<unknown>)(...given)
    port.postMessage({ id, value } satisfies Answer)
  } catch (thrown) {
    port.postMessage({ id, error: failure(thrown) } satisfies Answer)
  }
}

try {
  const loaded = sound(await readOntologyBounded(files ?? paths, limits))
  const service = createOntologyService(loaded, options, (call) =>
    port.postMessage({ id: embeddedId, value: call } satisfies Answer),
  )
  port.on('message', (question: Question) => void answer(service, question))
  const opened: Opened = { summary: service.summary, files: loaded.files }
  port.postMessage({ id: 0, value: opened } satisfies Answer)
} catch (thrown) {
  port.postMessage({ id: 0, error: failure(thrown) } satisfies Answer)
}
