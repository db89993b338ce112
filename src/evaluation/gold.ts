// Reads gold files: JSON Lines with one document a line, `{"id", "text"}` and, by kind, lists of the facts that the text states. A kind that
// a document does not list is not scored in it. Every mistake is an error with file, line and field. docs/evaluation.md describes the format.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { GraphmillError } from '../errors.ts'
import type { FormatEvent } from '../formats/format.ts'
import { readJsonLines } from '../formats/json-lines.ts'
import { isObject } from '../is-object.ts'
import { formatProblem } from '../prompt/catalogue/problem.ts'
import { type Kind, kinds } from './facts.ts'
import {
  createGoldReaders,
  type GoldFact,
  GoldFault,
  type GoldReader,
  type GoldTerms,
  refuseUnknown,
} from './gold-facts.ts'

/** A line of a gold file, at most, in bytes. */
const maxLine = 16 * 1024 * 1024

export interface GoldDocument {
  /** Unique among all files: its `id`, else `<file>:<line>`. */
  readonly id: string
  readonly text: string
  /** By kind; only the kinds that the document lists. */
  readonly facts: ReadonlyMap<Kind, readonly GoldFact[]>
}

/** What gold files hold, from a first reading. */
export interface GoldSummary {
  readonly documents: number
  /** The kinds that a document lists. */
  readonly kinds: readonly Kind[]
  /** A digest of all documents and their facts. */
  readonly digest: string
}

/** Reads gold files to their end. Throws what `readGold` throws. */
export async function summariseGold(paths: readonly string[], terms: GoldTerms): Promise<GoldSummary> {
  const found = new Set<Kind>()
  const digest = createHash('sha256')
  let documents = 0
  for await (const { id, text, facts } of readGold(paths, terms)) {
    documents++
    for (const kind of facts.keys()) found.add(kind)
    digest.update(JSON.stringify([id, text, [...facts]]))
  }
  if (documents === 0) throw invalid({ file: paths.join(', ') }, 'there is no document in it')
  if (found.size === 0) throw invalid({ file: paths.join(', ') }, 'no document lists facts')
  return {
    documents,
    kinds: kinds.filter((kind) => found.has(kind)),
    digest: digest.digest('hex').slice(0, 32),
  }
}

/** The documents of gold files, one at a time. Throws `gold_invalid` with file, line and field. */
export async function* readGold(paths: readonly string[], terms: GoldTerms): AsyncGenerator<GoldDocument> {
  const readers = createGoldReaders(terms)
  const [ids, texts] = [new Map<string, string>(), new Map<string, string>()]
  for (const file of paths) {
    // Gold files are read twice, and a pipe could be read only once.
    const found = await stat(file).catch((cause: Error) => cause)
    if (found instanceof Error) throw invalid({ file }, `it can't be read: ${found.message}`)
    if (!found.isFile()) throw invalid({ file }, 'it must be a file')
    for await (const event of readJsonLines(createReadStream(file), { maxRecord: maxLine })) {
      const { line } = event
      const place = { file, line }
      const value = recordOf(event, place)
      if (value === undefined) continue
      const document = documentOf(value, { ...place, readers })
      const hash = createHash('sha256').update(document.text.trim()).digest('base64url')
      claim(ids, document.id, { ...place, at: 'id' }, 'this id is that of')
      claim(texts, hash, { ...place, at: 'text' }, 'give all facts of a text in one line: it is also in')
      yield document
    }
  }
}

interface Place {
  readonly file: string
  readonly line?: number
  readonly at?: string
}

function invalid(place: Place, message: string): GraphmillError {
  return new GraphmillError(
    'gold_invalid',
    `${formatProblem({ ...place, code: 'gold_invalid', message })}.`.replace(/\?\.$/, '?'),
  )
}

/** The JSON value of a line; undefined for what is not a line, such as a byte order mark. */
function recordOf(event: FormatEvent, place: Place): unknown {
  if (event.type === 'ignored') return undefined
  if (event.type !== 'record') throw invalid(place, event.message.replace(/\.$/, ''))
  if (event.repairs.includes('encoding')) throw invalid(place, 'it is not UTF-8')
  return event.value
}

function claim(taken: Map<string, string>, key: string, place: Place, message: string): void {
  const other = taken.get(key)
  if (other !== undefined) throw invalid(place, `${message} ${other}`)
  taken.set(key, `${place.file}:${place.line}`)
}

function documentOf(
  value: unknown,
  { file, line, readers }: Place & { readonly readers: { readonly [K in Kind]: GoldReader } },
): GoldDocument {
  const known = ['id', 'text', ...kinds]
  let at = ''
  try {
    if (!isObject(value)) throw new GoldFault(undefined, `must be an object with ${known.join(', ')}`)
    refuseUnknown(value, known)
    const { id = `${basename(file)}:${line}`, text } = value
    if (typeof id !== 'string' || id.trim() === '')
      throw new GoldFault('id', 'must be a text that is not blank')
    if (typeof text !== 'string' || text.trim() === '')
      throw new GoldFault('text', text === undefined ? 'is missing' : 'must be a text that is not blank')
    const facts = new Map<Kind, readonly GoldFact[]>()
    // Entities come before triples, which refer to them.
    for (const kind of kinds.filter((each) => Object.hasOwn(value, each))) {
      const listed = value[kind]
      if (!Array.isArray(listed)) throw new GoldFault(kind, 'must be a list; [] if the text states none')
      const read = listed.map((fact, index) => {
        at = `${kind}[${index}]`
        return readers[kind](fact, facts.get('entities') ?? [])
      })
      at = ''
      facts.set(kind, read)
    }
    return { id, text: text.toWellFormed(), facts }
  } catch (thrown) {
    if (!(thrown instanceof GoldFault)) throw thrown
    const path = [at, thrown.field].filter((each) => each).join('.')
    throw invalid({ file, ...(line !== undefined && { line }), ...(path && { at: path }) }, thrown.message)
  }
}
