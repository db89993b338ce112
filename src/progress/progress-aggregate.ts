// From `Progress` messages, in any order and with any repetitions, to the state of each document. A chunk is done for a unit when every
// reply part of one run was seen and not all of its items were rejected. The first complete run counts, and a later one turns partial or dead
// into done. Everything else changes nothing.
import { parseTopic } from '../broker/topics.ts'
import type { Message } from '../messages/envelope.ts'
import type { LostRecords } from '../messages/generated.ts'
import {
  chunkPlace,
  indexOfKnown,
  openKey,
  readKeys,
  readOpenKey,
  see,
  setPart,
  setParts,
  unitsOfChunk,
  unitsSeen,
} from './chunk-places.ts'
import { anyDeath, foldUnits, unfoldUnit } from './compaction.ts'
import {
  type ChunkPlace,
  clearDone,
  type Document,
  emptyDocument,
  isDone,
  keepOnly,
  type PartSize,
  type ProgressEntry,
  type Reason,
  setDone,
} from './document-progress.ts'
import { type DocumentStatus, empty, statusOf } from './document-status.ts'
import { type Settlement, settleVersion, takeVersion } from './document-versions.ts'
import { expire } from './expiry.ts'
import { readState, writeState } from './snapshot.ts'
import { addTotals, addUsage } from './totals.ts'
import { addToRun, countedBefore, emptyRun, type OpenUnit, stateOfUnit } from './unit-state.ts'

export interface ProgressAggregate {
  /** Adds a message of the topic `progress`. Returns its document's id, or undefined when it concerns no document. */
  add(message: Message<'Progress'>): string | undefined
  /** Adds lost records: units that may have waited for one of them no longer count as running. */
  lose(lost: readonly LostRecords[]): void
  status(documentId: string): DocumentStatus | undefined
  documents(): DocumentStatus[]
  /** The whole state of a document, for `restore`; undefined when the document is not known. */
  save(documentId: string): Uint8Array | undefined
  /** Makes the newest version of a document the current one when it is processed. Returns it, once. */
  settle(documentId: string, options: { readonly partial: boolean }): Settlement | undefined
  /** Goes on from the result of `save`. Throws `bytes_undecodable`. */
  restore(state: Uint8Array): void
}

/** How many cancelled deaths are remembered. */
const maxReplays = 1000
/** How far the clocks of two processors may differ, in milliseconds. */
const clockDifferenceMs = 5000

/** How many units that ended badly are saved in detail. */
const maxDetailedUnits = 2000

export function createProgressAggregate(): ProgressAggregate {
  const documents = new Map<string, Document>()
  /** By their content; also for documents that are heard of later. */
  const losses = new Map<string, LostRecords>()

  function lose(lost: readonly LostRecords[], from: Iterable<Document>): void {
    for (const each of lost) losses.set(JSON.stringify(each), each)
    for (const document of from) expire(document, lost)
  }

  return {
    add(entry) {
      const { documentId, payload } = entry
      const document = documentId ? (documents.get(documentId) ?? emptyDocument(documentId)) : undefined
      if (document) documents.set(documentId, document)
      if (payload.kind === 'lost' || !document) {
        if (payload.lost) lose([payload.lost], document ? [document] : documents.values())
      } else addEntry(document, entry, losses)
      return document?.id
    },
    lose: (lost) => lose(lost, documents.values()),
    status: (id) => (documents.has(id) ? statusOf(documents.get(id)!) : undefined),
    documents: () => [...documents.values()].map(statusOf),
    save(id) {
      const document = documents.get(id)
      if (!document) return undefined
      foldUnits(document, maxDetailedUnits)
      return writeState(document)
    },
    settle: (id, options) => (documents.has(id) ? settleVersion(documents.get(id)!, options) : undefined),
    restore(state) {
      const document = readState(state)
      documents.set(document.id, document)
    },
  }
}

function addEntry(document: Document, entry: ProgressEntry, losses: Map<string, LostRecords>): void {
  const { payload } = entry
  if (isOfWithdrawal(document, entry)) return
  // What says nothing of a chunk is of one version.
  if (!entry.chunkId && !takeVersion(document, entry)) return
  switch (payload.kind) {
    case 'loading':
      document.title = payload.title ?? document.title
      break
    case 'document':
      setParts(document, payload.parts ?? 0)
      document.loadedAt = entry.time
      document.title = payload.title ?? document.title
      expire(document, losses.values())
      break
    case 'failed':
      document.title = payload.title ?? document.title
      document.failed = failure(payload.error)
      break
    case 'part':
      addPart(document, entry)
      expire(document, losses.values(), payload.part ?? 0)
      break
    case 'chunk':
      addChunk(document, entry)
      break
    case 'reply':
      addReply(document, entry)
      break
    case 'spent':
      addFailedRun(document, entry)
      break
    case 'dead':
      addDead(document, entry)
      break
    case 'replayed':
      cancelDeath(document, entry)
      break
    default: // paused, waiting: they change no document
  }
}

/**
 * A part that was cut differently, or has other units than before, starts from scratch. Chunks that are known by their ids keep what was
 * done, also when they move to another part.
 */
function addPart(document: Document, { time, payload }: ProgressEntry): void {
  const part = payload.part ?? 0
  const before = document.chunksOfPart.get(part)
  const keys = readKeys(payload.keys ?? Buffer.of())
  const indexes = keys.map((key) => indexOfKnown(document, key)).filter((index) => index !== undefined)
  const size = { chunks: payload.chunks ?? 0, units: payload.units, time }
  if (indexes.length < keys.length)
    document.deadParts.set(`${tooMany.type} ${part}`, { part, time, reason: tooMany })
  const isSame = before?.chunks === size.chunks && before.units.join('\n') === size.units.join('\n')
  setPart(document, part, keys.length > 0 ? { ...size, indexes } : size)
  const kept = keys.length === 0 && (before === undefined || isSame) ? size : { chunks: 0, units: [] }
  forgetUnits(document, part, kept)
  for (const [cause, dead] of document.deadParts)
    if (dead.part === part && dead.time < time) document.deadParts.delete(cause)
  const unplaced = document.unplaced
  document.unplaced = []
  for (const dead of unplaced) addDead(document, dead)
}

/** Two versions fit, but not several long ones that came one after the other, before any was processed. */
const tooMany: Reason = {
  type: 'document_too_large',
  message: 'its versions have too many chunks together: remove it, then load it again',
}

/**
 * Whether the entry is about a withdrawal that died, or was replayed. What a store can't withdraw stays there. The version is processed
 * all the same, and its status says so.
 */
function isOfWithdrawal(
  { versions }: Document,
  { causationId, payload, versionTime }: ProgressEntry,
): boolean {
  const { kind, error } = payload
  if (kind === 'replayed' && versions.notWithdrawn?.cause === causationId) {
    versions.notWithdrawn = undefined
    return true
  }
  if (kind !== 'dead' || !payload.topic || parseTopic(payload.topic)?.role !== 'retractions') return false
  const reason = { type: error?.type ?? 'dead', message: error?.message ?? '' }
  // A later withdrawal includes those before it.
  if (versionTime >= versions.withdrawnUpTo) versions.notWithdrawn = { cause: causationId, reason }
  return true
}

/** Forgets the units of the part, except those that are kept. */
function forgetUnits(document: Document, part: number, kept: PartSize): void {
  for (const [key, open] of document.open) {
    const { unit, place } = readOpenKey(key)
    if (place.part !== part || (place.index < kept.chunks && kept.units.includes(unit))) continue
    if (open.counted) addTotals(document.totals, open.counted.totals, -1)
    document.open.delete(key)
  }
  for (const sets of [document.done, ...document.folds.map(({ units }) => units)]) keepOnly(sets, part, kept)
}

/** Whether the unit is not one of the chunk's: it is of an extractor that was added later, or of another cut. */
function isExtra(document: Document, unit: string, chunk: ChunkPlace): boolean {
  return unitsOfChunk(document, chunk)?.includes(unit) === false
}

/** An extractor has begun with a chunk that no part announces: its units are not known otherwise until their replies come. */
function addChunk(document: Document, entry: ProgressEntry): void {
  const { time, payload } = entry
  const chunk = chunkPlace(document, entry)
  if (chunk) for (const unit of ['', ...payload.units]) see(document, chunk, unit, time)
}

function addReply(document: Document, entry: ProgressEntry): void {
  const { causationId, time, payload } = entry
  const chunk = chunkPlace(document, entry)
  const { unit, run: from } = payload
  if (!chunk || !unit || !from || isDone(document, unit, chunk) || isExtra(document, unit, chunk)) return
  see(document, chunk, unit, time)
  const open = openUnit(document, unit, chunk)
  if (isWholeAgain(open, entry)) {
    open.partDead.clear()
    close(document, unit, chunk)
  }
  if (open.counted && !open.counted.incomplete) return
  if (payload.error) {
    open.wholeDead.set(causationId, payload.error.type)
    return
  }
  const run = open.runs.get(from.id) ?? emptyRun()
  open.runs.set(from.id, run)
  if (run.seqs.has(payload.seq) || !addToRun(run, payload)) return
  // The first run that ended counts; one that was cut off counts until a complete one comes.
  if (open.counted && run.incomplete) return
  if (open.counted) addTotals(document.totals, open.counted.totals, -1)
  addTotals(document.totals, run.totals, 1)
  open.counted = run
  close(document, unit, chunk)
}

/** Whether this entry completes a run all of whose parts were handled well after the unit's facts had died. */
function isWholeAgain(open: OpenUnit, { time, payload }: ProgressEntry): boolean {
  if (open.partDead.size === 0 || payload.error || time < open.partDeadAt + clockDifferenceMs) return false
  const id = payload.run!.id
  const seen = open.again.get(id) ?? emptyRun()
  open.again.set(id, seen)
  return addToRun(seen, payload) && !seen.incomplete
}

/** Adds what a failed run spent. Its entry comes before the one that ends its unit, so later ones are repetitions. */
function addFailedRun(document: Document, entry: ProgressEntry): void {
  const { time, payload } = entry
  const chunk = chunkPlace(document, entry)
  const { unit, run } = payload
  if (!chunk || !unit || !run || isDone(document, unit, chunk) || isExtra(document, unit, chunk)) return
  see(document, chunk, unit, time)
  const { failedRuns } = openUnit(document, unit, chunk)
  if (failedRuns.has(run.id)) return
  failedRuns.add(run.id)
  addUsage(document.totals, payload)
}

/** A unit that is done needs one bit only. */
function close(document: Document, unit: string, chunk: ChunkPlace): void {
  const key = openKey(document, unit, chunk)
  const open = document.open.get(key)
  if (!open || stateOfUnit(open) !== 'done') return
  document.open.delete(key)
  setDone(document, unit, chunk)
}

function addDead(document: Document, entry: ProgressEntry): void {
  const { chunkId, causationId, time, payload } = entry
  if (document.replayed.has(causationId)) return
  const role = payload.topic ? parseTopic(payload.topic) : undefined
  const chunk = chunkPlace(document, entry)
  if (!chunk) {
    const reason = payload.error ?? { type: 'dead', message: 'a part of it is dead' }
    if (chunkId === '') document.deadParts.set(causationId, { part: payload.part, time, reason })
    return
  }
  const units = unitsOfChunk(document, chunk) ?? unitsSeen(document, chunk, payload.unit)
  if (units.length === 0 && !unitsOfChunk(document, chunk)) {
    document.unplaced.push(entry)
    return
  }
  const whole = role?.class === 'request' || role?.role === 'chunk'
  const reason = payload.error?.type ?? 'dead'
  for (const unit of unitsHurt(units, payload.unit, role?.role)) {
    see(document, chunk, unit, time)
    const done = isDone(document, unit, chunk)
    if (done && whole) continue
    if (done) clearDone(document, unit, chunk)
    const open = openUnit(document, unit, chunk)
    if (done) open.counted = countedBefore
    ;(whole ? open.wholeDead : open.partDead).set(causationId, reason)
    if (whole) continue
    open.partDeadAt = Number.isFinite(open.partDeadAt) ? Math.max(open.partDeadAt, time) : time
    open.again.clear()
  }
}

/** Triples do not name their unit: any unit of the chunk may lack some. */
function unitsHurt(
  units: readonly string[],
  unit: string | null,
  role: string | undefined,
): readonly string[] {
  const isAny = unit === null || role === 'triples' || role === 'entity-contexts'
  return isAny ? units : units.filter((each) => each === unit)
}

/** A dead message was replayed: what it held is not lost, unless it dies again. */
function cancelDeath(document: Document, entry: ProgressEntry): void {
  const { causationId } = entry
  document.replayed.add(causationId)
  for (const oldest of [...document.replayed].slice(0, -maxReplays)) document.replayed.delete(oldest)
  document.deadParts.delete(causationId)
  document.unplaced = document.unplaced.filter((dead) => dead.causationId !== causationId)
  const chunk = chunkPlace(document, entry)
  if (!chunk) return
  for (const unit of unitsOfChunk(document, chunk) ?? unitsSeen(document, chunk)) {
    if (isDone(document, unit, chunk)) continue
    const open = openUnit(document, unit, chunk)
    for (const id of [causationId, anyDeath]) {
      open.partDead.delete(id)
      open.wholeDead.delete(id)
    }
    close(document, unit, chunk)
  }
}

function openUnit(document: Document, unit: string, chunk: ChunkPlace): OpenUnit {
  const key = openKey(document, unit, chunk)
  const known = document.open.get(key)
  if (known) return known
  const fresh = unfoldUnit(document, unit, chunk)
  document.open.set(key, fresh)
  return fresh
}

function failure(error: ProgressEntry['payload']['error']): Reason {
  if (error === null) return { type: 'document_unreadable', message: 'it could not be read' }
  return error.type === 'document_empty' ? empty : { type: error.type, message: error.message }
}
