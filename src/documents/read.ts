// Reads files, folders, addresses and standard input as documents of UTF-8 text; the text of HTML and PDF is extracted. A document that cannot be
// read is a clear error of its own and does not stop the others. The extension or the first bytes decide what a file is. An encoding
// is never guessed.
import { createHash, type Hash } from 'node:crypto'
import { createReadStream, type Stats } from 'node:fs'
import { open, readFile, stat } from 'node:fs/promises'
import { basename, dirname, extname } from 'node:path'
import { addAbortSignal, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { GraphmillError } from '../errors.ts'
import { defaultLimits, maxInputBytes, type SubprocessLimits } from '../subprocess/subprocess.ts'
import { systemCall } from '../system-calls.ts'
import { type ExtractedType, extractText } from './extract.ts'
import { type FoundFile, filesIn, filesLike, type SkippedFile } from './files.ts'
import { baseOfPattern, idOfPath, idOfUrl } from './identity.ts'
import { headLength, sniff, spool } from './spool.ts'
import { openUrl, titleOfUrl, urlOf } from './url.ts'

/** A document that can be read any number of times. */
export interface TextSource {
  /** Its id, independent of its text. Default: none, it is the text's. */
  readonly id?: string
  readonly title: string
  readonly uri: string
  readonly mediaType: string
  /** The text in pieces. Throws `document_unreadable`, `document_not_utf8`, and at the end `document_empty` when the text is blank. */
  text(): AsyncIterable<string>
  /** Where its pages begin in the text, in UTF-16 code units, from page 1 on. Default: no pages. */
  readonly pages?: readonly number[]
  /** Does once what `text` would do at each call, and returns the document to use from then on. Throws further `document_` errors. */
  prepare?(signal: AbortSignal): Promise<TextSource>
}

/** A document that was found by name. */
export interface NamedSource extends TextSource {
  /** Its name in errors: its path as given, or `standard input`. Several documents may share a title. */
  readonly name: string
  /** About how many bytes of memory publishing it takes. */
  readonly holds: number
}

const mediaTypes: Readonly<Record<string, string>> = {
  '.txt': 'text/plain',
  '.text': 'text/plain',
  '.md': 'text/markdown',
  '.markdown': 'text/markdown',
  '.html': 'text/html',
  '.htm': 'text/html',
  '.xhtml': 'text/html',
  '.pdf': 'application/pdf',
}

export interface FindOptions {
  /** The folder below which the path of a file is its id. Default: the folder that is named, or that of the file. */
  readonly base?: string | undefined
  /** Limits of memory and time for a PDF or HTML file. */
  readonly limits?: SubprocessLimits
  /** Whether links in a folder that lead out of it are followed, folders included. Default false. */
  readonly followLinks?: boolean
  /** Called once per folder or pattern with the files that are not read, if there are any. */
  onSkipped?(files: readonly SkippedFile[]): void
}

/** All documents that `named` refers to; see `walkDocuments`. */
export async function findDocuments(
  named: string,
  signal: AbortSignal,
  options?: FindOptions,
): Promise<NamedSource[]> {
  const found: NamedSource[] = []
  for await (const document of walkDocuments(named, signal, options)) found.push(document)
  return found
}

/**
 * The files that `named` refers to: a file; all text, Markdown, HTML and PDF files of a folder, while the folder is read; the matches
 * of a pattern; what an http or https address leads to; or `-` for standard input. Throws `document_unreadable` when it refers to nothing.
 */
export async function* walkDocuments(
  named: string,
  signal: AbortSignal,
  { base, limits = defaultLimits, followLinks = false, onSkipped }: FindOptions = {},
): AsyncGenerator<NamedSource, void> {
  if (named === '-') {
    const source = { title: 'standard input', name: 'standard input', uri: '' }
    return yield await streamSource(process.stdin, { source, limits, signal })
  }
  const url = urlOf(named)
  if (url !== undefined) return yield await urlSource(url, { limits, signal })
  const found = await statOf(named)
  const withId = (file: FoundFile, folder: string): NamedSource => ({
    ...fileSource(file, limits),
    id: idOfPath(file.path, base ?? folder),
  })
  if (found?.isFile()) return yield withId({ path: named, size: found.size }, dirname(named))
  if (found && !found.isDirectory()) {
    // A pipe, such as a shell's <(command), or a device can be read only once.
    const source = { title: basename(named), name: named, uri: pathToFileURL(named).href }
    return yield await streamSource(createReadStream(named), { source, limits, signal })
  }
  if (!found && !/[*?[{]/.test(named))
    throw new GraphmillError('document_unreadable', `${named}: there is no such file.`)
  const skipped: SkippedFile[] = []
  const options = { followLinks, onSkipped: (file: SkippedFile) => void skipped.push(file) }
  const isMeant = (path: string) => mediaTypeOf(path) !== undefined
  const files = found ? filesIn(named, { ...options, isMeant }) : await filesLike(named, options)
  let count = 0
  for await (const file of files) {
    count++
    yield withId(file, found ? named : baseOfPattern(named))
  }
  if (skipped.length > 0) onSkipped?.(skipped)
  if (count === 0)
    throw new GraphmillError('document_unreadable', `${named}: no text, Markdown, HTML or PDF file is there.`)
}

const mediaTypeOf = (path: string) => mediaTypes[extname(path).toLowerCase()]

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new GraphmillError('document_unreadable', `${path}: ${(cause as Error).message}.`, { cause })
  }
}

/** A file of at most so many bytes is read once, as a whole. A longer one is read twice, in pieces, and is never held. */
const mostWhole = 256 * 1024

/** Text takes memory as bytes, string, message and request; of a long one, some document parts are held at a time. */
const heldByText = (size: number) => 4 * Math.min(size, 1024 * 1024)

/** So much that two are not read side by side: each has a child process, which may take all of --document-memory. */
const heldByExtraction = (size: number) => Math.max(9 * 1024 * 1024, 4 * size)

function fileSource({ path, size }: FoundFile, limits: SubprocessLimits): NamedSource {
  const source = { title: basename(path), name: path, uri: pathToFileURL(path).href }
  const mediaType = mediaTypeOf(path)
  const bytes = async () => {
    const { size } = await stat(path).catch((cause: Error) => raise(path, cause))
    checkSize(size, path, limits)
    return systemCall(`read ${path}`, readFile(path)).catch((cause: Error) => raise(path, cause))
  }
  const extractedAs = (type: ExtractedType) =>
    extracted({ ...source, mediaType: type, bytes, holds: heldByExtraction(size) }, limits)
  if (mediaType === 'text/html' || mediaType === 'application/pdf') return extractedAs(mediaType)
  const plain = {
    ...source,
    mediaType: mediaType ?? 'text/plain',
    holds: heldByText(size),
    text: () => notBlank(decodeText(createReadStream(path, { highWaterMark: 256 * 1024 }), path), path),
  }
  return {
    ...plain,
    async prepare(signal) {
      const { first, isWhole } = await firstBytes(path)
      const found = mediaType ?? sniff(first.subarray(0, headLength), path)
      if (found === 'text/html' || found === 'application/pdf') return extractedAs(found).prepare(signal)
      if (!isWhole) return plain
      let text = ''
      for await (const piece of decodeText([first], path)) text += piece
      return { ...plain, text: () => notBlank(pieces(text), path) }
    },
  }
}

interface StreamOptions {
  readonly source: Pick<NamedSource, 'title' | 'name' | 'uri'>
  /** Default: the first bytes decide. */
  readonly mediaType?: string | undefined
  /** Whether text is bounded as other types are. Default false. */
  readonly isBounded?: boolean
  readonly limits: SubprocessLimits
  readonly signal: AbortSignal
}

/** A document that is read here, to the end of its stream. Throws its `document_` errors. */
export async function streamSource(stream: Readable, options: StreamOptions): Promise<NamedSource> {
  const { source, limits, signal } = options
  const { name } = source
  const spooled = await spool(checked(addAbortSignal(signal, stream), options)).catch((cause: Error) => {
    signal.throwIfAborted()
    if (cause instanceof GraphmillError) throw cause
    return raise(name, cause)
  })
  const mediaType = options.mediaType ?? sniff(spooled.head, name)
  if (mediaType !== 'text/html' && mediaType !== 'application/pdf')
    return {
      ...source,
      mediaType,
      holds: heldByText(spooled.length),
      text: () => notBlank(decodeText(spooled.bytes(), name), name),
    }
  const bytes = async () => {
    checkSize(spooled.length, name, limits)
    return buffer(spooled.bytes())
  }
  return extracted({ ...source, mediaType, bytes, holds: heldByExtraction(spooled.length) }, limits)
}

/** What an address leads to now. */
async function urlSource(
  url: string,
  { limits, signal }: Pick<StreamOptions, 'limits' | 'signal'>,
): Promise<NamedSource> {
  const { body, mediaType } = await openUrl(url, { seconds: limits.seconds, signal })
  const source = { title: titleOfUrl(url), name: url, uri: url }
  const type = mediaType ?? mediaTypeOf(new URL(url).pathname)
  const how = { source, mediaType: type, isBounded: true, limits, signal }
  return { ...(await streamSource(Readable.from(body), how)), id: idOfUrl(url) }
}

/** Passes the pieces on. Throws as soon as they cannot be a document, or are too many: a stream may be endless. */
async function* checked(
  stream: AsyncIterable<Uint8Array>,
  { source: { name }, mediaType: given, isBounded = false, limits }: StreamOptions,
): AsyncGenerator<Uint8Array> {
  let head = Buffer.alloc(0)
  let mediaType = given
  let length = 0
  for await (const piece of stream) {
    length += piece.length
    if (head.length < headLength) head = Buffer.concat([head, piece]).subarray(0, headLength)
    if (head.length === headLength) mediaType ??= sniff(head, name)
    if (isBounded || (mediaType !== undefined && mediaType !== 'text/plain')) checkSize(length, name, limits)
    yield piece
  }
}

function checkSize(bytes: number, name: string, limits: SubprocessLimits): void {
  const most = maxInputBytes(limits)
  if (bytes <= most) return
  const message = `${name}: it has more than ${most / 1024 / 1024} MiB, a quarter of --document-memory.`
  throw new GraphmillError('document_too_large', message)
}

interface Extractable extends Pick<NamedSource, 'title' | 'name' | 'uri' | 'holds'> {
  readonly mediaType: ExtractedType
  readonly bytes: () => Promise<Uint8Array>
}

/** A document whose text is extracted in a child process. The text is held as long as the prepared document is. */
function extracted(
  { bytes, ...source }: Extractable,
  limits: SubprocessLimits,
): NamedSource & Required<Pick<NamedSource, 'prepare'>> {
  async function prepare(signal: AbortSignal): Promise<TextSource> {
    const { name, mediaType } = source
    const { text, pages } = await extractText({ mediaType, bytes: await bytes() }, { name, limits, signal })
    return { ...source, pages, text: () => notBlank(pieces(text), name) }
  }
  return {
    ...source,
    prepare,
    async *text() {
      yield* (await prepare(new AbortController().signal)).text()
    },
  }
}

/** Passes the pieces of a text on. When all are blank the error names the document, since others may have the same title. */
async function* notBlank(pieces: AsyncIterable<string>, name: string): AsyncGenerator<string> {
  let blank = true
  for await (const piece of pieces) {
    if (blank && piece.trim() !== '') blank = false
    yield piece
  }
  if (blank) throw new GraphmillError('document_empty', `${name}: it holds no text.`)
}

async function* pieces(text: string): AsyncGenerator<string> {
  const length = 256 * 1024
  for (let at = 0; at < text.length; at += length) yield text.slice(at, at + length)
}

/** The bytes of a short file, or the first ones of a long file. */
async function firstBytes(path: string): Promise<{ readonly first: Uint8Array; readonly isWhole: boolean }> {
  const file = await systemCall(`open ${path}`, open(path)).catch((cause: Error) => raise(path, cause))
  try {
    const { size } = await file.stat()
    const isShort = size <= mostWhole
    // One byte more, to notice a file that has grown or whose size is not told.
    const buffer = Buffer.allocUnsafe(isShort ? size + 1 : headLength)
    let length = 0
    let read: number
    do {
      read = (await systemCall(`read ${path}`, file.read(buffer, length, buffer.length - length, length)))
        .bytesRead
      length += read
    } while (read > 0 && length < Math.min(size, buffer.length))
    return { first: buffer.subarray(0, length), isWhole: isShort && length <= size }
  } catch (cause) {
    return raise(path, cause as Error)
  } finally {
    await file.close()
  }
}

function raise(name: string, cause: Error): never {
  throw new GraphmillError('document_unreadable', `${name}: ${cause.message}.`, { cause })
}

/** Decodes UTF-8 that arrives in pieces, without a byte order mark. `lossy`: invalid bytes become U+FFFD. */
export async function* decodeText(
  bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  name: string,
  { lossy = false } = {},
): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: !lossy })
  let position = 0
  const decode = (piece?: Uint8Array) => {
    try {
      return decoder.decode(piece, { stream: piece !== undefined })
    } catch (cause) {
      const before = new TextDecoder().decode(piece).split('\ufffd', 1)[0]!
      const near = position + Buffer.byteLength(before)
      throw new GraphmillError('document_not_utf8', `${name}: not UTF-8 near byte ${near}.`, { cause })
    }
  }
  try {
    for await (const piece of bytes) {
      const text = decode(piece)
      position += piece.length
      if (text) yield text
    }
  } catch (cause) {
    if (cause instanceof GraphmillError) throw cause
    throw new GraphmillError('document_unreadable', `${name}: ${(cause as Error).message}.`, { cause })
  }
  const rest = decode()
  if (rest) yield rest
}

/** The id of a document whose text is not known: made of its place, so that an unreadable document has the same id each time. */
export function documentPlaceId({ title, uri }: Pick<TextSource, 'title' | 'uri'>): string {
  return documentUrn(createHash('sha256').update(`\0${title}\n${uri}`))
}

/** The id of a document: made of its title and text, so that the same content is the same document. */
export async function documentId(source: TextSource): Promise<string> {
  const digest = createHash('sha256').update(`${source.title}\n`)
  for await (const piece of source.text()) digest.update(piece)
  return documentUrn(digest)
}

const documentUrn = (digest: Hash) => `urn:graphmill:document:${digest.digest('hex').slice(0, 32)}`
