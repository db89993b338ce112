// What a folder holds that is read only where it is named itself: said in one line, so that no text vanishes in silence.
import { extname } from 'node:path'

/** Endings that are shown, at most. */
const mostEndings = 8

/** The line about these files of a folder. */
export function passedOverLine(folder: string, paths: readonly string[]): string {
  const endings = [...new Set(paths.map((path) => extname(path).toLowerCase()))].sort()
  const named = endings.filter((ending) => ending !== '')
  const shown = named.slice(0, mostEndings)
  if (named.length > mostEndings) shown.push('…')
  if (endings.includes('')) shown.push('without ending')
  const [files, one] = paths.length === 1 ? ['1 file', 'it'] : [`${paths.length} files`, 'one']
  return `graphmill: ${folder}: ${files} passed over (${shown.join(', ')}); name ${one} to have it read.`
}
