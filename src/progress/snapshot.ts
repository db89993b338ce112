// The state of a document as bytes, and back: a header in JSON, then the done units as bits, deflated together. 100,000 chunks of six
// units take a few kilobytes when all are done, and at most 75 KiB until then.

import { deflateRawSync, inflateRawSync } from 'node:zlib'
import { GraphmillError } from '../errors.ts'
import { keyLength as keyBytes } from '../messages/emission.ts'
import { byId, countUnits, indexOfKnown, readKeys, readOpenKey, setPart, writeKeys } from './chunk-places.ts'
import {
  type ChunkSets,
  type DeadPart,
  type Document,
  type DocumentVersions,
  emptyDocument,
  type Fold,
  type ProgressEntry,
  type Reason,
  readUnitKey,
} from './document-progress.ts'
import { addTotals, emptyTotals, type Totals } from './totals.ts'
import { countedBefore, type OpenUnit, type SeenRun } from './unit-state.ts'

/**
 * Of most documents, the state is short. By default zlib takes 256 KiB to deflate it and 16 KiB for each result, and seven times the CPU
 * (75 instead of 11 µs for 640 bytes). `inflateRawSync` reads any window.
 */
const [shortBytes, forShort] = [4096, { level: 1, windowBits: 12, memLevel: 4, chunkSize: 4096 }] as const

/** Raised when an older build would misread what this one writes. */
const version = 1

interface Header {
  readonly version: number
  readonly id: string
  readonly title: string
  readonly parts: number | null
  /** Not in what older builds wrote. */
  readonly loadedAt?: number | undefined
  readonly failed: Reason | null
  /** Not in what older builds wrote, and not of documents without versions. */
  readonly versions?: DocumentVersions | undefined
  readonly deadParts: readonly [string, DeadPart][]
  readonly replayed: readonly string[]
  /** The distinct lists of units of the parts. */
  readonly unitLists: readonly (readonly string[])[]
  /** Part, number of chunks, index of its list of units, and when it was cut (not in what older builds wrote). */
  readonly chunks: readonly [number, number, number, number?][]
  /** Key and length of each set of bits behind the header. */
  readonly done: readonly [string, number][]
  readonly open: readonly StoredUnit[]
  /** Ending, reason and count of each fold, with key and length of its sets of bits behind those of `done`. */
  readonly folds: readonly [Fold['ending'], string, number, readonly [string, number][]][]
  readonly unplaced: readonly ProgressEntry[]
  /**
   * How many keys of chunks known by their ids stand behind these sets, the part and indexes of each part that has such chunks, and the
   * sets of what was seen, with its time. Not in what older builds wrote.
   */
  readonly known?: number
  readonly indexes?: readonly [number, readonly number[]][]
  readonly seen?: readonly [string, number][]
  readonly seenAt?: number | undefined
  readonly totals: Totals
}

/**
 * An open unit. `counted` is the index of the counted run, or `before`. A run in `again` that is incomplete has `last` null, so that an
 * older reader, which ignores the totals here, never takes it for complete.
 */
type StoredUnit = readonly [
  key: string,
  runs: readonly StoredRun[],
  counted: number | 'before' | null,
  wholeDead: readonly [string, string][],
  partDead: readonly [string, string][],
  failedRuns: readonly string[],
  partDeadAt: number | null,
  again: readonly [id: string, seqs: readonly number[], last: number | null, totals?: Totals][],
]

type StoredRun = readonly [
  id: string,
  seqs: readonly number[],
  last: number | null,
  incomplete: string | null,
  totals: Totals,
]

export function writeState(document: Document): Uint8Array {
  const unitLists: string[][] = []
  const listIndex = (units: readonly string[]) => {
    const known = unitLists.findIndex((list) => list.join('\n') === units.join('\n'))
    return known >= 0 ? known : unitLists.push([...units]) - 1
  }
  const bits: Uint8Array[] = []
  const keep = (sets: ChunkSets) =>
    [...sets].map(([key, set]): [string, number] => {
      const kept = trimmed(set)
      bits.push(kept)
      return [key, kept.length]
    })
  const header: Header = {
    version,
    id: document.id,
    title: document.title,
    parts: document.parts ?? null,
    loadedAt: document.loadedAt,
    failed: document.failed ?? null,
    versions: document.versions.time > 0 ? document.versions : undefined,
    deadParts: [...document.deadParts],
    replayed: [...document.replayed],
    indexes: [...document.chunksOfPart].flatMap(([part, { indexes }]) => (indexes ? [[part, indexes]] : [])),
    chunks: [...document.chunksOfPart].map(([part, { chunks, units, time }]) =>
      time === undefined ? [part, chunks, listIndex(units)] : [part, chunks, listIndex(units), time],
    ),
    unitLists,
    done: keep(document.done),
    open: [...document.open].map(storedUnit),
    folds: document.folds.map(({ ending, reason, units }) => [
      ending,
      reason,
      countUnits(document, units),
      keep(units),
    ]),
    seen: keep(document.seen),
    seenAt: document.seenAt,
    known: document.known.size,
    unplaced: document.unplaced,
    totals: document.totals,
  }
  bits.push(writeKeys(document.known.keys()))
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  const bytes = Buffer.concat([length, text, ...bits])
  const state = deflateRawSync(bytes, bytes.length > shortBytes ? { level: 1 } : forShort)
  // What zlib returns is a view of a longer buffer, which would be held as long as the state is.
  const own = Buffer.allocUnsafeSlow(state.length)
  own.set(state)
  return own
}

/** Throws `bytes_undecodable` for what `writeState` of this version did not write. */
export function readState(state: Uint8Array): Document {
  let bytes: Buffer
  let header: Header
  let at: number
  try {
    bytes = inflateRawSync(state, state.length > shortBytes ? undefined : { chunkSize: shortBytes })
    at = 4 + bytes.readUInt32LE(0)
    header = JSON.parse(bytes.toString('utf8', 4, at)) as Header
  } catch (cause) {
    throw new GraphmillError('bytes_undecodable', 'The state of a document can’t be read.', { cause })
  }
  if (header.version !== version)
    throw new GraphmillError('bytes_undecodable', `The state of a document is of version ${header.version}.`)
  const document = emptyDocument(header.id)
  document.title = header.title
  document.parts = header.parts ?? undefined
  document.loadedAt = header.loadedAt
  document.failed = header.failed ?? undefined
  Object.assign(document.versions, header.versions)
  for (const [cause, dead] of header.deadParts) document.deadParts.set(cause, dead)
  for (const cause of header.replayed) document.replayed.add(cause)
  const indexes = new Map(header.indexes)
  for (const [part, chunks, list, time] of header.chunks)
    setPart(document, part, { chunks, units: header.unitLists[list]!, time, indexes: indexes.get(part) })
  const take = (sets: ChunkSets, places: Header['done']) => {
    for (const [key, length] of places) {
      // An older build has kept these bits, but not which chunks they mean.
      if (header.known !== undefined || readUnitKey(key)[1] !== byId)
        sets.set(key, Uint8Array.from(bytes.subarray(at, at + length)))
      at += length
    }
  }
  take(document.done, header.done)
  for (const entry of header.open)
    if (header.known !== undefined || readOpenKey(entry[0]).place.part !== byId)
      document.open.set(entry[0], openUnit(entry))
  for (const [ending, reason, , places] of header.folds) {
    const units: ChunkSets = new Map()
    take(units, places)
    document.folds.push({ ending, reason, units })
  }
  take(document.seen, header.seen ?? [])
  document.seenAt = header.seenAt
  for (const key of readKeys(bytes.subarray(at, at + keyBytes * (header.known ?? 0))))
    indexOfKnown(document, key)
  document.unplaced = [...header.unplaced]
  addTotals(document.totals, header.totals, 1)
  return document
}

function storedUnit([key, open]: [string, OpenUnit]): StoredUnit {
  const { runs, counted, wholeDead, partDead, failedRuns, partDeadAt, again } = open
  const entries = [...runs].map(([id, run]): StoredRun => {
    const { seqs, last = null, incomplete = null, totals } = run
    return [id, [...seqs], last, incomplete, totals]
  })
  const place = counted === countedBefore ? 'before' : [...runs.values()].indexOf(counted!)
  const since = [...again].map(([id, { seqs, last = null, incomplete, totals }]): StoredUnit[7][number] => [
    id,
    [...seqs],
    incomplete ? null : last,
    totals,
  ])
  const at = Number.isFinite(partDeadAt) ? partDeadAt : null
  return [
    key,
    entries,
    place === -1 ? null : place,
    [...wholeDead],
    [...partDead],
    [...failedRuns],
    at,
    since,
  ]
}

function openUnit([, entries, counted, wholeDead, partDead, failedRuns, at, again]: StoredUnit): OpenUnit {
  const runs = entries.map((entry): [string, SeenRun] => [entry[0], seenRun(entry)])
  return {
    runs: new Map(runs),
    counted: counted === 'before' ? countedBefore : counted === null ? undefined : runs[counted]?.[1],
    wholeDead: new Map(wholeDead),
    partDead: new Map(partDead),
    failedRuns: new Set(failedRuns),
    partDeadAt: at ?? Number.POSITIVE_INFINITY,
    again: new Map(
      again.map(([id, seqs, last, totals = emptyTotals()]) => [id, seenRun([id, seqs, last, null, totals])]),
    ),
  }
}

function seenRun([, seqs, last, incomplete, said]: StoredRun): SeenRun {
  const totals = emptyTotals()
  addTotals(totals, said, 1)
  return { seqs: new Set(seqs), last: last ?? undefined, incomplete: incomplete ?? undefined, totals }
}

/** Without the zeros at the end. */
function trimmed(bits: Uint8Array): Uint8Array {
  return bits.subarray(0, bits.findLastIndex((byte) => byte !== 0) + 1)
}
