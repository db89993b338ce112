// The ontologies of a flow, by version: new chunks get the one in force, replies are checked against the one that their prompt had.
// The last three stay loaded. A version that is broken never comes into force, and the one before stays.
import { GraphmillError } from '../errors.ts'
import type { OntologyService, OntologySummary } from './ontology-service.ts'
import { openRestartingService, type RestartingService } from './restarting-service.ts'
import type { OntologyOptions } from './worker-client.ts'

/** Versions that stay loaded, the one in force included. */
const keptVersions = 3

export interface Ontologies {
  /** The version in force. */
  current(): OntologyService
  /** A version, as long as it is one of the last three. Throws `version_gone`. */
  at(version: string): OntologyService
  /**
   * Reads the files again, with other options where given, and puts them in force. Throws `ontology_invalid` or `ontology_context_remote`, with all
   * problems in `details.problems`, and leaves in force what was.
   */
  reload(changed?: OntologyOptions): Promise<OntologySummary>
  close(): Promise<void>
}

/** Throws what `reload` throws. */
export async function openOntologies(options: OntologyOptions): Promise<Ontologies> {
  /** The last in force last. */
  let desks: RestartingService[] = [await openRestartingService(options)]
  let inForce = options

  return {
    current: () => desks.at(-1)!,
    at(version) {
      const service = desks.find(({ summary }) => summary.version === version)
      if (service) return service
      throw new GraphmillError('version_gone', `Version ${version} of the ontologies is no longer loaded.`, {
        details: { version },
      })
    },
    async reload(changed = inForce) {
      const opened = await openRestartingService(changed)
      inForce = changed
      const { version } = opened.summary
      const others = desks.filter(({ summary }) => summary.version !== version)
      const same = desks.filter(({ summary }) => summary.version === version)
      const gone = others.slice(0, Math.max(0, others.length - (keptVersions - 1)))
      desks = [...others.slice(gone.length), opened]
      await Promise.all([...gone, ...same].map((service) => service.close()))
      return opened.summary
    },
    async close() {
      await Promise.all(desks.map((service) => service.close()))
    },
  }
}
