// The thread in which one version of the ontologies is read, indexed and asked.
import { answerCalls, notify } from '../workers/answer-calls.ts'
import { readOntologyBounded } from './bounded-load.ts'
import { sound } from './load.ts'
import { createOntologyService, type OntologyService } from './ontology-service.ts'
import type { OntologyTask, Opened } from './worker-client.ts'

let service: OntologyService

answerCalls(async (task: OntologyTask): Promise<unknown> => {
  if (task.method !== 'open')
    return (service[task.method] as (...given: readonly unknown[]) => Promise<unknown>)(...task.given)
  const { paths, files, limits, ...options } = task.options
  const loaded = sound(await readOntologyBounded(files ?? paths, limits))
  service = createOntologyService(loaded, options, notify)
  return { summary: service.summary, files: loaded.files } satisfies Opened
})
