// Which place a chunk has in the bits of its document, and which units are expected of it. A chunk of chunk-text has the part and index of
// its id. Any other chunk is known by its whole id: it takes the next index of the part `byId` at first sight.
import { emissionKey, keyLength as keyBytes } from '../messages/emission.ts'
import type { Header } from '../messages/envelope.ts'
import {
  type ChunkPlace,
  type ChunkSets,
  type Document,
  hasBit,
  indexesIn,
  type PartSize,
  readUnitKey,
  setBit,
  unitKey,
} from './document-progress.ts'

/** Stands for the part of chunks that are known by their ids. No document has so many parts. */
export const byId = 2 ** 31 - 1
/** The state of more chunks that are known by their ids would not fit a message: twice as many as chunk-text lets two versions have. */
const maxKnown = 80_000
/** A higher index is taken from an id only when its part has so many chunks: the id may come from anywhere, and bits cost memory. */
const maxIndex = 2 ** 16

/** The keys as numbers. */
export function readKeys(keys: Uint8Array): number[] {
  const bytes = Buffer.from(keys.buffer, keys.byteOffset, keys.byteLength)
  return Array.from({ length: Math.floor(bytes.length / keyBytes) }, (_, at) =>
    bytes.readUIntBE(at * keyBytes, keyBytes),
  )
}

export function writeKeys(keys: Iterable<number>): Buffer {
  const numbers = [...keys]
  const bytes = Buffer.alloc(numbers.length * keyBytes)
  for (const [at, key] of numbers.entries()) bytes.writeUIntBE(key, at * keyBytes, keyBytes)
  return bytes
}

/** The place of a chunk, which a chunk that is known by its id takes now. Undefined without a chunk, and when the document has too many. */
export function chunkPlace(
  document: Document,
  entry: Pick<Header, 'documentId' | 'chunkId' | 'versionTime'>,
): ChunkPlace | undefined {
  const { chunkId, versionTime } = entry
  if (chunkId === '') return undefined
  const { time } = document.versions
  const place = placeInId(document, chunkId)
  if (place && place.index < Math.max(maxIndex, document.chunksOfPart.get(place.part)?.chunks ?? 0))
    return versionTime > 0 && versionTime !== time ? undefined : place
  const key = keyOf(entry)
  // A processor of the version before says nothing of versions.
  const ofNewest = !versionTime && time > 0 ? keyOf({ ...entry, versionTime: time }) : key
  const known = [key, ofNewest].find((each) => document.known.has(each))
  // Late entries of what was withdrawn, or will be, are of no chunk.
  if (known === undefined && isSettled(document, versionTime)) return undefined
  const index = indexOfKnown(document, known ?? key)
  return index === undefined ? undefined : { part: byId, index }
}

/** Whether it is known which chunks of a version the newest one has. */
function isSettled(document: Document, versionTime: number): boolean {
  const { time, currentTime } = document.versions
  return versionTime > 0 && (versionTime <= currentTime || (versionTime < time && isCut(document)))
}

/** Whether all parts of the document were announced. */
export function isCut({ parts = Number.POSITIVE_INFINITY, chunksOfPart }: Document): boolean {
  if (chunksOfPart.size < parts) return false
  for (let part = 0; part < parts; part++) if (!chunksOfPart.has(part)) return false
  return true
}

const keyOf = (entry: Pick<Header, 'documentId' | 'chunkId' | 'versionTime'>) =>
  readKeys(Buffer.from(emissionKey(entry), 'latin1'))[0]!

export function indexOfKnown({ known }: Document, key: number): number | undefined {
  const index = known.get(key) ?? known.size
  if (index >= maxKnown) return undefined
  known.set(key, index)
  return index
}

/** Part and index of an id that chunk-text has made: `<documentId>/<part>/<index>`. No other id has the same. */
function placeInId({ id }: Document, chunkId: string): ChunkPlace | undefined {
  if (!chunkId.startsWith(`${id}/`)) return undefined
  const found = /^(0|[1-9]\d{0,8})\/(0|[1-9]\d{0,8})$/.exec(chunkId.slice(id.length + 1))
  return found ? { part: Number(found[1]), index: Number(found[2]) } : undefined
}

/** The key of a unit of a chunk among the open units: unit and `<documentId>/<part>/<index>`. */
export const openKey = ({ id }: Document, unit: string, { part, index }: ChunkPlace) =>
  unitKey(unit, `${id}/${part}/${index}`)

export function readOpenKey(key: string): { readonly unit: string; readonly place: ChunkPlace } {
  const [part, index] = key.split('/').slice(-2).map(Number) as [number, number]
  return { unit: key.slice(0, key.indexOf('\n')), place: { part, index } }
}

/** The units that are expected of a chunk; undefined when no part has announced it. */
export function unitsOfChunk(document: Document, { part, index }: ChunkPlace): readonly string[] | undefined {
  if (part === byId) return document.unitsOfKnown[index]
  const size = document.chunksOfPart.get(part)
  if (!size) return undefined
  return !size.indexes && index < size.chunks ? size.units : []
}

/** Whether its chunks come from elsewhere: no part was announced, so nobody knows how many there are. */
export const isForeign = ({ chunksOfPart, seen }: Document) => chunksOfPart.size === 0 && seen.size > 0

/** Remembers a chunk that no part has announced, and that one of its units has begun. */
export function see(document: Document, { part, index }: ChunkPlace, unit: string, time: number): void {
  if (document.chunksOfPart.size > 0) return
  setBit(document.seen, unitKey('', part), index)
  if (unit !== '') setBit(document.seen, unitKey(unit, part), index)
  document.seenAt = Math.max(time, document.seenAt ?? time)
}

/** How many chunks were seen that no part has announced. */
export function chunksSeen(document: Document): number {
  const chunks = [...document.seen].filter(([key]) => readUnitKey(key)[0] === '')
  return countUnits(document, new Map(chunks))
}

/** The units of a chunk that no part has announced, and the one that is known otherwise. */
export function unitsSeen({ seen }: Document, { part, index }: ChunkPlace, named?: string | null): string[] {
  const units = new Set(named ? [named] : [])
  for (const key of seen.keys()) {
    const [unit, of] = readUnitKey(key)
    if (unit !== '' && of === part && hasBit(seen, key, index)) units.add(unit)
  }
  return [...units]
}

/** Sets the part's size. What was seen before the first part no longer counts. */
export function setPart(document: Document, part: number, size: PartSize): void {
  const isNew = !document.chunksOfPart.get(part)?.indexes
  document.chunksOfPart.set(part, size)
  document.seen.clear()
  document.seenAt = undefined
  if (isNew) expectKnown(document, part, size)
  else expectAllKnown(document)
}

/** Sets how many parts the document has. */
export function setParts(document: Document, parts: number): void {
  document.parts = parts
  expectAllKnown(document)
}

/** Forgets the chunks that are known by their ids and that no part has: those of older versions. */
export function forgetUnannounced(document: Document): void {
  const { known, unitsOfKnown } = document
  const kept = [...known].filter(([, index]) => unitsOfKnown[index] !== undefined)
  if (kept.length === known.size) return
  const moved = new Map(kept.map(([, index], at) => [index, at]))
  known.clear()
  for (const [at, [key]] of kept.entries()) known.set(key, at)
  for (const [part, size] of document.chunksOfPart) {
    const indexes = size.indexes?.flatMap((index) => moved.get(index) ?? [])
    document.chunksOfPart.set(part, { ...size, indexes })
  }
  expectAllKnown(document)
  for (const sets of [document.done, ...document.folds.map(({ units }) => units)]) moveBits(sets, moved)
  const open = [...document.open]
  document.open.clear()
  for (const [key, state] of open) {
    const { unit, place } = readOpenKey(key)
    const index = place.part === byId ? moved.get(place.index) : place.index
    if (index !== undefined) document.open.set(openKey(document, unit, { ...place, index }), state)
  }
}

function moveBits(sets: ChunkSets, moved: ReadonlyMap<number, number>): void {
  for (const [key, bits] of [...sets]) {
    if (readUnitKey(key)[1] !== byId) continue
    sets.delete(key)
    for (const index of indexesIn(bits)) if (moved.has(index)) setBit(sets, key, moved.get(index)!)
  }
}

/** From scratch: a chunk may have moved to another part, and a document that was loaded again may have fewer parts. */
function expectAllKnown(document: Document): void {
  document.unitsOfKnown.length = 0
  for (const [part, size] of document.chunksOfPart) expectKnown(document, part, size)
}

function expectKnown(
  { parts, unitsOfKnown }: Document,
  part: number,
  { units, indexes = [] }: PartSize,
): void {
  if (part < (parts ?? Number.POSITIVE_INFINITY)) for (const index of indexes) unitsOfKnown[index] = units
}

export interface ExpectedUnit {
  readonly unit: string
  readonly place: ChunkPlace
  /** When its part was cut, or its chunk was seen at the latest. */
  readonly time: number
  readonly part: number
}

/** The units that a document must pass, as far as they are known. */
export function* expectedUnits(document: Document): Generator<ExpectedUnit> {
  for (const [part, { chunks, units, time = 0, indexes }] of document.chunksOfPart)
    for (const unit of units)
      for (let at = 0; at < (indexes?.length ?? chunks); at++)
        yield { unit, place: indexes ? { part: byId, index: indexes[at]! } : { part, index: at }, time, part }
  for (const [key, bits] of document.seen) {
    const [unit, part] = readUnitKey(key)
    for (const index of unit === '' ? [] : indexesIn(bits))
      yield { unit, place: { part, index }, time: document.seenAt ?? 0, part }
  }
}

/** Whether the unit counts: one of a chunk that is known by its id does when its part expects it, or when no part was announced. */
export function isCounted(document: Document, unit: string, { part, index }: ChunkPlace): boolean {
  if (part !== byId || document.chunksOfPart.size === 0) return true
  return document.unitsOfKnown[index]?.includes(unit) ?? false
}

/** How many units in the sets count. */
export function countUnits(document: Document, sets: ChunkSets): number {
  let count = 0
  for (const [key, bits] of sets) {
    const [unit, part] = readUnitKey(key)
    if (part !== byId) for (const byte of bits) count += ones[byte]!
    else for (const index of indexesIn(bits)) if (isCounted(document, unit, { part, index })) count++
  }
  return count
}

const ones = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)
