// The ontologies of a flow, by version. New chunks use the current version; replies are checked against the version of their prompt. The
// last three stay loaded. A broken version is never used, and the one before stays current.
import { GraphmillError } from '../errors.ts'
import type { OntologyService, OntologySummary } from './ontology-service.ts'
import { openRestartingService, type RestartingService } from './restarting-service.ts'
import type { OntologyOptions } from './worker-client.ts'

/** Versions that stay loaded, including the current one. */
const keptVersions = 3

/** The ontologies of a flow, for `FlowSettings.ontologies`. */
export interface Ontologies {
  /** The current version. */
  current(): OntologyService
  /** A version, if it is one of the last three. Throws `version_gone`. */
  at(version: string): OntologyService
  /**
   * Reads the files again, with changed options if given, and makes them current. Throws `ontology_invalid` or `ontology_context_remote`
   * with all problems in `details.problems`; then the version before stays current.
   */
  reload(changed?: OntologyOptions): Promise<OntologySummary>
  close(): Promise<void>
}

/** Throws what `reload` throws. */
export async function openOntologies(options: OntologyOptions): Promise<Ontologies> {
  /** The current one comes last. */
  let services: RestartingService[] = [await openRestartingService(options)]
  let inForce = options

  return {
    current: () => services.at(-1)!,
    at(version) {
      const service = services.find(({ summary }) => summary.version === version)
      if (service) return service
      throw new GraphmillError('version_gone', `Version ${version} of the ontologies is no longer loaded.`, {
        details: { version },
      })
    },
    async reload(changed = inForce) {
      const opened = await openRestartingService(changed)
      inForce = changed
      const { version } = opened.summary
      const others = services.filter(({ summary }) => summary.version !== version)
      const same = services.filter(({ summary }) => summary.version === version)
      const gone = others.slice(0, Math.max(0, others.length - (keptVersions - 1)))
      services = [...others.slice(gone.length), opened]
      await Promise.all([...gone, ...same].map((service) => service.close()))
      return opened.summary
    },
    async close() {
      await Promise.all(services.map((service) => service.close()))
    },
  }
}
