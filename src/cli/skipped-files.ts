// The files of a folder or pattern that are not read, as lines for standard error, so that no text is left out silently.
import { extname } from 'node:path'
import type { SkippedFile } from '../documents/files.ts'

/** The most file extensions that are listed. */
const mostEndings = 8

/** One line for all files with other extensions, and one for each other skipped file. */
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
  if (endings.includes('')) shown.push('no extension')
  const [files, one] = paths.length === 1 ? ['1 file', 'it'] : [`${paths.length} files`, 'one']
  return `graphmill: ${named}: ${files} skipped (${shown.join(', ')}); name ${one} to read it.`
}
