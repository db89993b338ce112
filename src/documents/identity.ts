// The id of a document that was read from a file: made of its path below a base, so that it is the same on every machine and does not
// depend on the text; that of one from an address; and its version, which is made of the text alone.
import { createHash, hash } from 'node:crypto'
import { dirname, relative, resolve, sep } from 'node:path'
import { GraphmillError } from '../errors.ts'

/** The id of the file at `path`. Throws `usage` when it does not lie below `base`. */
export function idOfPath(path: string, base: string): string {
  const below = relative(resolve(base), resolve(path))
  if (below === '..' || below.startsWith(`..${sep}`) || below === '')
    throw new GraphmillError('usage', `${path} does not lie below --base ${base}.`)
  return documentUrn(`path\n${below.split(sep).join('/')}`)
}

/** The id of what is at an address: the address, unless it is too long for an id. */
export function idOfUrl(url: string): string {
  return url.length <= longestId ? url : documentUrn(`url\n${url}`)
}

const documentUrn = (name: string) => `urn:graphmill:document:${hash('sha256', name).slice(0, 32)}`

/** The folder that a pattern such as `docs/**.md` begins with. */
export function baseOfPattern(pattern: string): string {
  return dirname(`${pattern.slice(0, pattern.search(/[*?[{]/))}x`)
}

/** Characters of an id, at most. */
export const longestId = 500

/** Throws `usage` for an id that no document may have. */
export function checkId(id: string): string {
  if (id.trim() !== id || id === '' || id.length > longestId || /[\0-\x1f\x7f]/.test(id) || id === '(flow)')
    throw new GraphmillError(
      'usage',
      `--id ${JSON.stringify(id)}: an id has 1 to ${longestId} characters, without control characters and white space around it.`,
    )
  return id
}

/** The version of a text that arrives in pieces. */
export async function versionOf(text: AsyncIterable<string>): Promise<string> {
  const digest = createHash('sha256')
  for await (const piece of text) digest.update(piece)
  return digest.digest('hex').slice(0, 32)
}
