// How documents are read, as the configuration says.
import type { Config } from '../config/config.ts'
import type { FindOptions } from '../documents/read.ts'
import type { SubprocessLimits } from '../subprocess/subprocess.ts'
import { skippedLines } from './skipped-files.ts'

export const limitOptions = ['document-timeout', 'document-memory'] as const
export const documentOptions = [...limitOptions, 'follow-links'] as const

/** What reading a PDF or HTML file, or the ontologies, may take. */
export function limitsOf({ options }: Pick<Config, 'options'>): SubprocessLimits {
  return { seconds: options['document-timeout'], memoryMb: options['document-memory'] }
}

/** How what `named` means is looked for; `say` prints a line. */
export function findOptions(config: Config, named: string, say: (line: string) => void): FindOptions {
  return {
    limits: limitsOf(config),
    followLinks: config.options['follow-links'],
    onSkipped: (skipped) => skippedLines(named, skipped).forEach(say),
  }
}
