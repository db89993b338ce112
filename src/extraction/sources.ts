// What a program may give to `extract` and `loadDocument`: names of files, texts, bytes and streams of them. All become documents.
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { checkId } from '../documents/identity.ts'
import { type FindOptions, type NamedSource, streamSource, walkDocuments } from '../documents/read.ts'
import { GraphmillError } from '../errors.ts'
import { defaultLimits } from '../subprocess/subprocess.ts'

/** A document that is no file. */
export interface DocumentSource {
  /** The text, whole or in pieces, taken as it is and held in memory. */
  readonly text?: string | Iterable<string> | AsyncIterable<string>
  /** The bytes of a document, whole or in pieces, instead of `text`: UTF-8 text, HTML or PDF, which the first bytes decide. */
  readonly bytes?: Uint8Array | AsyncIterable<Uint8Array>
  /** For people, and a part of the id that `extract` gives. Default `untitled`. */
  readonly title?: string
  /** Where it comes from, for provenance. Default none. */
  readonly uri?: string
  /** Its id, 1 to 500 characters. Default: made of its title and text. */
  readonly id?: string
}

/** A file, a folder, a pattern such as `docs/**.md`, an http, https or file URL, or `-` for standard input; or a document that is no file. */
export type Source = string | URL | DocumentSource

/** One source, or several, which may come one after the other. */
export type Sources = Source | Iterable<Source> | AsyncIterable<Source>

/** The sources one by one. A string is one source. */
export async function* eachSource(sources: Sources): AsyncGenerator<Source, void> {
  if (typeof sources === 'string' || sources instanceof URL || !isIterable(sources)) yield sources
  else yield* sources
}

const isIterable = (value: object): value is Iterable<Source> | AsyncIterable<Source> =>
  Symbol.iterator in value || Symbol.asyncIterator in value

/** The name of a source, for people. */
export function nameOf(source: Source): string {
  if (typeof source === 'string') return source
  return source instanceof URL ? source.href : (source.title ?? 'untitled')
}

/** The documents of a source. Throws `document_` errors, and `usage` for something that is no source. */
export async function* documentsOf(
  source: Source,
  options: FindOptions,
  signal: AbortSignal,
): AsyncGenerator<NamedSource, void> {
  if (typeof source === 'string') return yield* walkDocuments(source, signal, options)
  if (source instanceof URL) return yield* walkDocuments(placeOf(source), signal, options)
  yield await documentOf(source, options, signal)
}

function placeOf(url: URL): string {
  if (url.protocol === 'http:' || url.protocol === 'https:') return url.href
  if (url.protocol !== 'file:')
    throw new GraphmillError(
      'document_unreadable',
      `${url.protocol}//…: only http:, https: and file: URLs are read.`,
    )
  return fileURLToPath(url)
}

async function documentOf(
  { text, bytes, title = 'untitled', uri = '', id }: DocumentSource,
  { limits = defaultLimits }: FindOptions,
  signal: AbortSignal,
): Promise<NamedSource> {
  if ((text === undefined) === (bytes === undefined))
    throw new GraphmillError('usage', `The source ${title}: give either text or bytes.`)
  const own = { title, name: title, uri, ...(id !== undefined && { id: checkId(id) }) }
  if (typeof text === 'string') return { ...own, mediaType: 'text/plain', ...wholeText(text, title) }
  if (text !== undefined) {
    let whole = ''
    for await (const piece of text) {
      signal.throwIfAborted()
      whole += piece
    }
    return { ...own, mediaType: 'text/plain', ...wholeText(whole, title) }
  }
  const stream = Readable.from(bytes instanceof Uint8Array ? [bytes] : bytes!)
  return { ...(await streamSource(stream, { source: own, limits, signal })), ...own }
}

function wholeText(text: string, name: string): Pick<NamedSource, 'text' | 'holds'> {
  return {
    holds: 4 * text.length,
    async *text() {
      if (text.trim() === '') throw new GraphmillError('document_empty', `${name}: it holds no text.`)
      yield text
    },
  }
}
