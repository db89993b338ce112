// An ontology service that survives the death of its thread (out of memory, a defect): the next question starts a new thread from the files
// as they were read, so that the version stays the same. A question whose thread died is asked once more.
import { GraphmillError } from '../errors.ts'
import type { OntologyService } from './ontology-service.ts'
import { type OntologyOptions, type OntologyWorker, openOntologyWorker } from './worker-client.ts'

export interface RestartingService extends OntologyService {
  /** Ends the service; open questions fail with `aborted`. */
  close(): Promise<void>
}

/**
 * Resolves when the ontologies are read and indexed. Throws what reading them throws. A question throws `unexpected` when a second
 * thread dies while it is answered; the next question starts a third.
 */
export async function openRestartingService(
  options: OntologyOptions,
  open = openOntologyWorker,
): Promise<RestartingService> {
  let worker = await open(options)
  const { summary, files } = worker
  let opening: Promise<OntologyWorker> | undefined
  let closed = false

  /** The running thread, or a new one in place of a dead one. Concurrent callers share the new one. */
  async function runningWorker(): Promise<OntologyWorker> {
    if (closed || !worker.ended()) return worker
    opening ??= open({ ...options, files })
      .then((opened) => (worker = opened))
      .finally(() => (opening = undefined))
    return opening
  }

  async function ask<T>(question: (service: OntologyWorker) => Promise<T>): Promise<T> {
    for (let isLast = false; ; isLast = true) {
      const service = await runningWorker()
      try {
        return await question(service)
      } catch (error) {
        if (closed || !service.ended()) throw error
        if (isLast)
          throw new GraphmillError('unexpected', 'The thread of the ontologies died twice.', { cause: error })
      }
    }
  }

  return {
    summary,
    select: (text, signal) => ask((service) => service.select(text, signal)),
    check: (items, signal) => ask((service) => service.check(items, signal)),
    triples: (from, signal) => ask((service) => service.triples(from, signal)),
    async close() {
      closed = true
      await opening?.catch(() => undefined)
      await worker.close()
    },
  }
}
