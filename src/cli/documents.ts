// How documents are read, by the configuration.
import type { Config } from '../config/config.ts'
import type { FindOptions } from '../documents/read.ts'
import type { SubprocessLimits } from '../subprocess/subprocess.ts'
import { skippedLines } from './skipped-files.ts'

export const limitOptions = ['document-timeout', 'document-memory'] as const
export const documentOptions = [...limitOptions, 'follow-links'] as const

/** The limits for reading a PDF or HTML file, or the ontologies. */
export function limitsOf({ options }: Pick<Config, 'options'>): SubprocessLimits {
  return { seconds: options['document-timeout'], memoryMb: options['document-memory'] }
}

/** How the files that `named` means are found; `say` prints a line about skipped files. */
export function findOptions(config: Config, named: string, say: (line: string) => void): FindOptions {
  return {
    limits: limitsOf(config),
    followLinks: config.options['follow-links'],
    base: config.options.base,
    onSkipped: (skipped) => skippedLines(named, skipped).forEach(say),
  }
}
