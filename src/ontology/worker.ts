// The thread in which one version of the ontologies is read, indexed and asked.
import { parentPort, workerData } from 'node:worker_threads'
import { coded } from '../errors.ts'
import { readOntologyBounded } from './bounded-load.ts'
import { sound } from './load.ts'
import { createDesk, type Desk } from './ontology-service.ts'
import { type Answer, embeddedId, type Opened, type Question, type ThreadOptions } from './worker-client.ts'

const port = parentPort!
const { paths, files, limits, ...options } = workerData as ThreadOptions

function failure(thrown: unknown): NonNullable<Answer['error']> {
  const { code, message, retryAfterMs, details } = coded(thrown)
  return { code, message, details, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

async function answer(desk: Desk, { id, method, given }: Question): Promise<void> {
  try {
    const value = await (desk[method] as (...given: readonly unknown[]) => Promise<unknown>)(...given)
    port.postMessage({ id, value } satisfies Answer)
  } catch (thrown) {
    port.postMessage({ id, error: failure(thrown) } satisfies Answer)
  }
}

try {
  const loaded = sound(await readOntologyBounded(files ?? paths, limits))
  const desk = createDesk(loaded, options, (call) =>
    port.postMessage({ id: embeddedId, value: call } satisfies Answer),
  )
  port.on('message', (question: Question) => void answer(desk, question))
  const opened: Opened = { summary: desk.summary, files: loaded.files }
  port.postMessage({ id: 0, value: opened } satisfies Answer)
} catch (thrown) {
  port.postMessage({ id: 0, error: failure(thrown) } satisfies Answer)
}
