// Processors and extractors by the names that people write.
import { loadProcessors, processorNames } from '../../processors/modules.ts'
import { suggest } from '../config/config.ts'
import { GraphmillError } from '../errors.ts'
import type { AnyProcessor } from '../flow/processor.ts'

/** Processors by name. Throws `usage`, with a suggestion, for an unknown name. */
export async function findProcessors(names: readonly string[]): Promise<AnyProcessor[]> {
  const unknown = names.find((name) => !processorNames.includes(name))
  if (unknown === undefined) return loadProcessors(names)
  throw new GraphmillError('usage', `There is no processor ${unknown}.${suggest(unknown, processorNames)}`)
}

/** The full names of extractors given in short (`definitions`) or in full. Throws `usage` for an unknown one; `own` are known, too. */
export function extractorNames(given: readonly string[], own: readonly string[] = []): string[] {
  const known = processorNames.filter((name) => name.startsWith('extract-'))
  if (given.length === 0) throw new GraphmillError('usage', 'No extractor is named.')
  const short = known.map((name) => name.slice('extract-'.length))
  const full = given.map((name) =>
    name.startsWith('extract-') || own.includes(name) ? name : `extract-${name}`,
  )
  const unknown = full.find((name) => !known.includes(name) && !own.includes(name))?.slice('extract-'.length)
  if (unknown !== undefined)
    throw new GraphmillError(
      'usage',
      `There is no extractor ${unknown}.${suggest(unknown, short)} There are: ${short.join(', ')}.`,
    )
  return [...new Set(full)]
}
