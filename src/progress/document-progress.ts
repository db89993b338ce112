// The state of one document: its parts, which units of its chunks are done (as bits), and what was seen of the other units.
import type { Message } from '../messages/envelope.ts'
import { emptyTotals, type Totals } from './totals.ts'
import type { OpenUnit } from './unit-state.ts'

export interface Reason {
  /** A code, such as `document_encrypted` or `empty_document`. */
  readonly type: string
  /** One sentence. */
  readonly message: string
}

export type ProgressEntry = Message<'Progress'>

/** A part of the document that died before it was cut into chunks. */
export interface DeadPart {
  /** The part's index; null when its message could not be decoded. */
  readonly part: number | null
  readonly time: number
  readonly reason: Reason
}

/** Sets of chunks: by unit and part, with one bit for each chunk. */
export type ChunkSets = Map<string, Uint8Array>

/** Units that ended in the same way, for the same reason: see compaction.ts. */
export interface Fold {
  /** Cut off, hurt by a dead message (with a run counted, or none yet: `lost`), or dead. */
  readonly ending: 'cut' | 'hurt' | 'lost' | 'dead'
  readonly reason: string
  readonly units: ChunkSets
}

/** The chunks of a part, and the units of each. */
export interface PartSize {
  readonly chunks: number
  readonly units: readonly string[]
  /** The indexes of its chunks when they are known by their ids. */
  readonly indexes?: readonly number[] | undefined
  /** When it was cut, in milliseconds since 1970; undefined in the state of an older ledger. */
  readonly time?: number | undefined
}

/** Which versions of a document are known. Times are milliseconds since 1970; 0 and '' stand for none. */
export interface DocumentVersions {
  collection: string
  /** The newest one: what the document's parts are of. */
  version: string
  time: number
  /** Why the document was removed, when the newest one is a removal. */
  removed: string | undefined
  /** Whether there was another one before. */
  replaces: boolean
  /** Whether the document was removed before the newest one. */
  wasRemoved: boolean
  /** The last one that was processed: what readers see. */
  currentVersion: string
  currentTime: number
  /** The time of the last withdrawal, and the dead message when a store could not do it. */
  withdrawnUpTo: number
  notWithdrawn: { readonly cause: string; readonly reason: Reason } | undefined
  /** The last versions before the newest one, and those that came late, from the oldest. */
  others: OtherVersion[]
}

export interface OtherVersion {
  readonly version: string
  readonly time: number
  readonly kind: 'version' | 'removal' | 'late'
}

export interface Document {
  readonly id: string
  title: string
  parts: number | undefined
  /** When its last part was published, in milliseconds since 1970; undefined like `parts`. */
  loadedAt: number | undefined
  /** Why it could not be read. */
  failed: Reason | undefined
  /** The newest version that was announced, and what is known of others. */
  readonly versions: DocumentVersions
  /** By the cause that the death names. */
  readonly deadParts: Map<string, DeadPart>
  /** The newest deaths that a replay cancelled: their entries may come again. */
  readonly replayed: Set<string>
  readonly chunksOfPart: Map<number, PartSize>
  /** The chunks that are known by their ids: the index of each by its key. */
  readonly known: Map<number, number>
  /** The units of these chunks, by index; nothing for chunks that no part has announced. Follows from `chunksOfPart`. */
  readonly unitsOfKnown: (readonly string[] | undefined)[]
  /** As long as no part was announced: the chunks that were seen (as the unit `''`), and the units that extractors have begun. */
  readonly seen: ChunkSets
  /** When the last of these was seen, in milliseconds since 1970. */
  seenAt: number | undefined
  readonly done: ChunkSets
  readonly open: Map<string, OpenUnit>
  /** The units beyond a number of those that ended badly. */
  readonly folds: Fold[]
  /** Entries of dead messages whose part of the document was not announced yet. */
  unplaced: ProgressEntry[]
  readonly totals: Totals
}

export function emptyDocument(id: string): Document {
  return {
    id,
    title: '',
    parts: undefined,
    loadedAt: undefined,
    failed: undefined,
    versions: emptyVersions(),
    deadParts: new Map(),
    replayed: new Set(),
    chunksOfPart: new Map(),
    known: new Map(),
    unitsOfKnown: [],
    seen: new Map(),
    seenAt: undefined,
    done: new Map(),
    open: new Map(),
    folds: [],
    unplaced: [],
    totals: emptyTotals(),
  }
}

export const emptyVersions = (): DocumentVersions => ({
  collection: '',
  version: '',
  time: 0,
  removed: undefined,
  replaces: false,
  wasRemoved: false,
  currentVersion: '',
  currentTime: 0,
  withdrawnUpTo: 0,
  notWithdrawn: undefined,
  others: [],
})

/** The key of a unit of a chunk, and of a unit in a part. */
export const unitKey = (unit: string, place: string | number) => `${unit}\n${place}`

export interface ChunkPlace {
  readonly part: number
  readonly index: number
}

export function isDone(document: Document, unit: string, { part, index }: ChunkPlace): boolean {
  return hasBit(document.done, unitKey(unit, part), index)
}

export function setDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  setBit(document.done, unitKey(unit, part), index)
}

export function clearDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  clearBit(document.done, unitKey(unit, part), index)
}

/** Forgets the units of the part in these sets, except those of chunks below `chunks` that are among `units`. */
export function keepOnly(sets: ChunkSets, part: number, { chunks, units }: PartSize): void {
  for (const [key, bits] of sets) {
    const [unit, of] = readUnitKey(key)
    if (of !== part) continue
    const end = units.includes(unit) ? chunks : 0
    for (const index of indexesIn(bits)) if (index >= end) clearBit(sets, key, index)
  }
}

export function readUnitKey(key: string): [unit: string, part: number] {
  const [unit, part] = key.split('\n') as [string, string]
  return [unit, Number(part)]
}

export function* indexesIn(bits: Uint8Array): Generator<number> {
  for (let index = 0; index < bits.length * 8; index++)
    if ((bits[index >> 3]! & (1 << (index & 7))) !== 0) yield index
}

export function hasBit(sets: ChunkSets, key: string, index: number): boolean {
  return ((sets.get(key)?.[index >> 3] ?? 0) & (1 << (index & 7))) !== 0
}

export function setBit(sets: ChunkSets, key: string, index: number): void {
  let bits = sets.get(key)
  if (!bits || bits.length <= index >> 3) {
    const grown = new Uint8Array(Math.max(16, ((index >> 3) + 1) * 2))
    grown.set(bits ?? [])
    bits = grown
    sets.set(key, bits)
  }
  bits[index >> 3]! |= 1 << (index & 7)
}

export function clearBit(sets: ChunkSets, key: string, index: number): void {
  const bits = sets.get(key)
  if (bits && index >> 3 < bits.length) bits[index >> 3]! &= ~(1 << (index & 7))
}
