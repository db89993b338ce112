// What is not read of a folder or pattern, said on standard error, so that no text vanishes in silence.
import { extname } from 'node:path'
import type { SkippedFile } from '../documents/files.ts'

/** Endings that are shown, at most. */
const mostEndings = 8

/** The lines about them: one for all files of other endings, one for each of the others. */
export function skippedLines(named: string, skipped: readonly SkippedFile[]): string[] {
  const others = skipped.filter(({ why }) => why === 'ending').map(({ path }) => path)
  const lines = others.length > 0 ? [endingsLine(named, others)] : []
  for (const { path, why } of skipped)
    if (why === 'outside')
      lines.push(`graphmill: ${path}: skipped: the link leads out of ${named}; --follow-links reads it.`)
    else if (why !== 'ending') lines.push(`graphmill: ${path}: skipped: it is a ${why}, not a file.`)
  return lines
}

function endingsLine(named: string, paths: readonly string[]): string {
  const endings = [...new Set(paths.map((path) => extname(path).toLowerCase()))].sort()
  const given = endings.filter((ending) => ending !== '')
  const shown = given.slice(0, mostEndings)
  if (given.length > mostEndings) shown.push('…')
  if (endings.includes('')) shown.push('without ending')
  const [files, one] = paths.length === 1 ? ['1 file', 'it'] : [`${paths.length} files`, 'one']
  return `graphmill: ${named}: ${files} passed over (${shown.join(', ')}); name ${one} to have it read.`
}
