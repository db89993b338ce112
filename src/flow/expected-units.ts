// Units of work: what must be done with every chunk, by the names that `progress` has for it.
import type { FlowSettings } from './processor.ts'

const rows = 'extract-rows'

/** The unit of one row schema. */
export function rowUnit(schemaName: string): string {
  return `${rows}:${schemaName}`
}

/** The units that every chunk of a flow must pass: one for each extractor, but for rows one for each row schema. */
export function expectedUnits(settings: FlowSettings): string[] {
  return settings.extractors.flatMap((name) => unitsOf(name, settings))
}

/** The units of one processor. */
export function unitsOf(processor: string, { rowSchemas = [] }: FlowSettings): string[] {
  return processor === rows ? rowSchemas.map((schema) => rowUnit(schema.name)) : [processor]
}
