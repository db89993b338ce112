// The table of all fuzz targets: the runner, the command line and CI take them from here.

export interface TargetEntry {
  /** A module beside this one that exports one FuzzTarget. */
  readonly module: `./${string}.ts`
  /** How many inputs a run takes that is not bounded by time alone: the same ones each time. */
  readonly iterations: number
  /** So many of them every run takes, however busy the machine: some seconds of CPU. */
  readonly least: number
  /** Where an input may take longer than others: milliseconds. */
  readonly hangMs?: number
}

export const targets: Readonly<Record<string, TargetEntry>> = {
  items: { module: './items.ts', iterations: 20_000, least: 5_000 },
  decoder: { module: './decoder.ts', iterations: 20_000, least: 20_000 },
  headers: { module: './headers.ts', iterations: 20_000, least: 5_000 },
  patterns: { module: './patterns.ts', iterations: 3_000, least: 1_000 },
  templates: { module: './templates.ts', iterations: 20_000, least: 500 },
  documents: { module: './documents.ts', iterations: 2_000, least: 200, hangMs: 45_000 },
  http: { module: './http.ts', iterations: 2_000, least: 500 },
}
