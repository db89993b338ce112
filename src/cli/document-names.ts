// How a person names a document: by its id, its file or address, its title, or a short id, which the table of `graphmill status` shows.
import { dirname, relative } from 'node:path'
import { idOfPath, idOfUrl } from '../documents/identity.ts'
import { urlOf } from '../documents/url.ts'
import { GraphmillError } from '../errors.ts'

interface Named {
  readonly documentId: string
  readonly title: string
}

const own = 'urn:graphmill:document:'

/** The first 12 characters of an id of our own, which is a hash; of another, the last 16. Two documents rarely share one. */
export function shortId(documentId: string): string {
  if (documentId.startsWith(own)) return documentId.slice(own.length, own.length + 12)
  const characters = [...documentId]
  return characters.length <= 17 ? documentId : `…${characters.slice(-16).join('')}`
}

/** The fewest characters of a short id. */
const fewest = 4

/**
 * The document with this id, or of this file below the base (by default its folder), or the only one with this title. Throws
 * `document_unknown` if several have this title.
 */
export function findExactly<T extends Named>(
  named: string,
  documents: readonly T[],
  base: string = dirname(named),
): T | undefined {
  const isBelow = !relative(base, named).startsWith('..') && relative(base, named) !== ''
  const url = urlOf(named)
  const ids = [
    named,
    ...(url === undefined ? [] : [idOfUrl(url)]),
    ...(isBelow ? [idOfPath(named, base)] : []),
  ]
  for (const id of ids) {
    const found = documents.find(({ documentId }) => documentId === id)
    if (found) return found
  }
  return onlyOne(
    documents.filter(({ title }) => title === named),
    `have the title ${named}`,
  )
}

/**
 * As `findExactly`, or the only document with this short id: four or more characters that the id begins with after
 * `urn:graphmill:document:`, or ends with. Throws `document_unknown` if several have this title or short id.
 */
export function findDocument<T extends Named>(
  named: string,
  documents: readonly T[],
  base?: string,
): T | undefined {
  const exactly = findExactly(named, documents, base)
  const short = named.replace(/^…/, '')
  if (exactly || short.length < fewest) return exactly
  const byShortId = documents.filter(
    ({ documentId }) => documentId.startsWith(`${own}${short}`) || documentId.endsWith(short),
  )
  return onlyOne(byShortId, `have an id that begins or ends with ${short}`)
}

function onlyOne<T extends Named>(found: readonly T[], what: string): T | undefined {
  if (found.length < 2) return found[0]
  const ids = found.slice(0, 5).map(({ documentId }) => documentId)
  const more = found.length > ids.length ? ', …' : ''
  throw new GraphmillError('document_unknown', `${found.length} documents ${what}: ${ids.join(', ')}${more}.`)
}
