// From `Progress` messages, in any order and with any repetitions, to the state of each document. A chunk is done for a unit when every
// reply part of one run was seen and not all of its items were rejected. The first complete run counts, and a later one turns partial or dead
// into done. Everything else changes nothing.
import { parseTopic } from '../broker/topics.ts'
import type { Message } from '../messages/envelope.ts'
import type { LostRecords } from '../messages/generated.ts'
import { anyDeath, foldUnits, stateOfFold, unfoldUnit } from './compaction.ts'
import {
  type ChunkPlace,
  chunkPlace,
  clearBit,
  clearDone,
  type Document,
  emptyDocument,
  hasBit,
  isDone,
  keepDone,
  type PartSize,
  type ProgressEntry,
  type Reason,
  setDone,
  unitKey,
} from './document-progress.ts'
import { expire } from './expiry.ts'
import { readState, writeState } from './snapshot.ts'
import { addTotals, addUsage, type Counts, type Totals } from './totals.ts'
import { addToRun, countedBefore, emptyRun, type OpenUnit, stateOfUnit } from './unit-state.ts'

export type DocumentPhase = 'queued' | 'running' | 'done' | 'partial' | 'failed'

export interface DocumentStatus {
  readonly documentId: string
  readonly title: string
  readonly state: DocumentPhase
  /** Why it failed. */
  readonly error: Reason | undefined
  readonly chunks: number
  /** Numbers of units, over all chunks. */
  readonly units: {
    readonly expected: number
    readonly done: number
    readonly partial: number
    readonly dead: number
  }
  /** Why units are partial, with their numbers. */
  readonly incomplete: Counts
  readonly totals: Totals
}

export interface ProgressAggregate {
  /** Adds a message of the topic `progress`. Returns its document's id, or undefined when it concerns no document. */
  add(message: Message<'Progress'>): string | undefined
  /** Adds lost records: units that may have waited for one of them no longer count as running. */
  lose(lost: readonly LostRecords[]): void
  status(documentId: string): DocumentStatus | undefined
  documents(): DocumentStatus[]
  /** The whole state of a document, for `restore`; undefined when the document is not known. */
  save(documentId: string): Uint8Array | undefined
  /** Goes on from the result of `save`. Throws `bytes_undecodable`. */
  restore(state: Uint8Array): void
}

/** How many cancelled deaths are remembered. */
const maxReplays = 1000
/** How far the clocks of two processors may differ, in milliseconds. */
const clockDifferenceMs = 5000

/** How many units that ended badly are saved in detail. */
const maxDetailedUnits = 2000

/** The code is that of the specification; `load` calls a file without text `document_empty`. */
const empty: Reason = { type: 'empty_document', message: 'it has no text' }

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
    restore(state) {
      const document = readState(state)
      documents.set(document.id, document)
    },
  }
}

function addEntry(document: Document, entry: ProgressEntry, losses: Map<string, LostRecords>): void {
  const { payload } = entry
  switch (payload.kind) {
    case 'loading':
      document.title = payload.title ?? document.title
      break
    case 'document':
      document.parts = payload.parts ?? 0
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

/** A part that was cut differently, or has other units than before, starts from scratch. */
function addPart(document: Document, { time, payload }: ProgressEntry): void {
  const part = payload.part ?? 0
  const before = document.chunksOfPart.get(part)
  const size = { chunks: payload.chunks ?? 0, units: payload.units, time }
  const isSame = before?.chunks === size.chunks && before.units.join('\n') === size.units.join('\n')
  document.chunksOfPart.set(part, size)
  const kept = before === undefined || isSame ? size : { chunks: 0, units: [] }
  keepDone(document, part, kept)
  forgetUnits(document, (unit, chunk) => chunk.part === part && !isExpected(kept, unit, chunk))
  for (const [cause, dead] of document.deadParts)
    if (dead.part === part && dead.time < time) document.deadParts.delete(cause)
  const unplaced = document.unplaced
  document.unplaced = []
  for (const dead of unplaced) addDead(document, dead)
}

function forgetUnits(document: Document, is: (unit: string, chunk: ChunkPlace) => boolean): void {
  for (const [key, open] of document.open) {
    const [unit, chunkId] = key.split('\n') as [string, string]
    if (!is(unit, chunkPlace(chunkId)!)) continue
    if (open.counted) addTotals(document.totals, open.counted.totals, -1)
    document.open.delete(key)
  }
  for (const fold of document.folds)
    for (const [key, bits] of fold.units) {
      const [unit, part] = key.split('\n') as [string, string]
      for (let index = 0; index < bits.length * 8; index++)
        if (hasBit(fold.units, key, index) && is(unit, { part: Number(part), index })) {
          clearBit(fold.units, key, index)
          fold.count--
        }
    }
}

const isExpected = ({ chunks, units }: PartSize, unit: string, { index }: ChunkPlace) =>
  index < chunks && units.includes(unit)

/** Whether the unit is not one of the chunk's: it is of an extractor that was added later, or of another cut. */
function isExtra(document: Document, unit: string, chunk: ChunkPlace): boolean {
  const size = document.chunksOfPart.get(chunk.part)
  return size !== undefined && !isExpected(size, unit, chunk)
}

function addReply(document: Document, entry: ProgressEntry): void {
  const { chunkId, causationId, payload } = entry
  const chunk = chunkPlace(chunkId)
  const { unit, run: from } = payload
  if (!chunk || !unit || !from || isDone(document, unit, chunk) || isExtra(document, unit, chunk)) return
  const open = openUnit(document, unit, chunkId)
  if (isWholeAgain(open, entry)) {
    open.partDead.clear()
    close(document, unit, chunkId)
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
  close(document, unit, chunkId)
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
function addFailedRun(document: Document, { chunkId, payload }: ProgressEntry): void {
  const chunk = chunkPlace(chunkId)
  const { unit, run } = payload
  if (!chunk || !unit || !run || isDone(document, unit, chunk) || isExtra(document, unit, chunk)) return
  const { failedRuns } = openUnit(document, unit, chunkId)
  if (failedRuns.has(run.id)) return
  failedRuns.add(run.id)
  addUsage(document.totals, payload)
}

/** A unit that is done needs one bit only. */
function close(document: Document, unit: string, chunkId: string): void {
  const open = document.open.get(unitKey(unit, chunkId))
  const chunk = chunkPlace(chunkId)
  if (!open || !chunk || stateOfUnit(open) !== 'done') return
  document.open.delete(unitKey(unit, chunkId))
  setDone(document, unit, chunk)
}

function addDead(document: Document, entry: ProgressEntry): void {
  const { chunkId, causationId, time, payload } = entry
  if (document.replayed.has(causationId)) return
  const role = payload.topic ? parseTopic(payload.topic) : undefined
  const chunk = chunkPlace(chunkId)
  if (!chunk) {
    const reason = payload.error ?? { type: 'dead', message: 'a part of it is dead' }
    document.deadParts.set(causationId, { part: payload.part, time, reason })
    return
  }
  const size = document.chunksOfPart.get(chunk.part)
  if (!size) {
    document.unplaced.push(entry)
    return
  }
  if (chunk.index >= size.chunks) return
  const whole = role?.class === 'request' || role?.role === 'chunk'
  const reason = payload.error?.type ?? 'dead'
  for (const unit of unitsHurt(size, payload.unit, role?.role)) {
    const done = isDone(document, unit, chunk)
    if (done && whole) continue
    if (done) clearDone(document, unit, chunk)
    const open = openUnit(document, unit, chunkId)
    if (done) open.counted = countedBefore
    ;(whole ? open.wholeDead : open.partDead).set(causationId, reason)
    if (whole) continue
    open.partDeadAt = Number.isFinite(open.partDeadAt) ? Math.max(open.partDeadAt, time) : time
    open.again.clear()
  }
}

/** Triples do not name their unit: any unit of the chunk may lack some. */
function unitsHurt({ units }: PartSize, unit: string | null, role: string | undefined): readonly string[] {
  const isAny = unit === null || role === 'triples' || role === 'entity-contexts'
  return isAny ? units : units.filter((each) => each === unit)
}

/** A dead message was replayed: what it held is not lost, unless it dies again. */
function cancelDeath(document: Document, { chunkId, causationId }: ProgressEntry): void {
  document.replayed.add(causationId)
  for (const oldest of [...document.replayed].slice(0, -maxReplays)) document.replayed.delete(oldest)
  document.deadParts.delete(causationId)
  document.unplaced = document.unplaced.filter((dead) => dead.causationId !== causationId)
  const chunk = chunkPlace(chunkId)
  for (const unit of (chunk && document.chunksOfPart.get(chunk.part)?.units) ?? []) {
    if (!chunk || isDone(document, unit, chunk)) continue
    const open = openUnit(document, unit, chunkId)
    for (const id of [causationId, anyDeath]) {
      open.partDead.delete(id)
      open.wholeDead.delete(id)
    }
    close(document, unit, chunkId)
  }
}

function statusOf(document: Document): DocumentStatus {
  let chunks = 0
  let expected = 0
  for (const [part, size] of document.chunksOfPart) {
    // A document that was loaded again may have fewer parts.
    if (part >= (document.parts ?? Number.POSITIVE_INFINITY)) continue
    chunks += size.chunks
    expected += size.chunks * size.units.length
  }
  const ended = { done: document.doneCount, partial: 0, dead: 0 }
  const incomplete: Counts = {}
  for (const unit of document.open.values()) {
    const state = stateOfUnit(unit)
    if (state === 'running') continue
    ended[state]++
    const [reason] = [unit.counted?.incomplete, ...unit.partDead.values(), ...unit.wholeDead.values()].filter(
      Boolean,
    )
    if (reason) incomplete[reason] = (incomplete[reason] ?? 0) + 1
  }
  for (const fold of document.folds) {
    ended[stateOfFold(fold)] += fold.count
    if (fold.count > 0) incomplete[fold.reason] = (incomplete[fold.reason] ?? 0) + fold.count
  }
  const known = document.parts !== undefined && document.chunksOfPart.size >= document.parts
  const over = known && ended.done + ended.partial + ended.dead >= expected
  // A document that was published completely once is loaded, also when another attempt failed.
  const unloaded = document.parts === undefined ? document.failed : undefined
  const error =
    unloaded ?? [...document.deadParts.values()][0]?.reason ?? (known && chunks === 0 ? empty : undefined)
  const units = { expected, ...ended }
  const state = error !== undefined ? 'failed' : over ? endState(units) : chunks > 0 ? 'running' : 'queued'
  const { id: documentId, title, totals } = document
  return { documentId, title, state, error, chunks, units, incomplete, totals }
}

function endState({ expected, partial, dead }: DocumentStatus['units']): DocumentPhase {
  if (dead === expected) return 'failed'
  return partial + dead > 0 ? 'partial' : 'done'
}

function openUnit(document: Document, unit: string, chunkId: string): OpenUnit {
  const key = unitKey(unit, chunkId)
  const known = document.open.get(key)
  if (known) return known
  const fresh = unfoldUnit(document, unit, chunkPlace(chunkId)!)
  document.open.set(key, fresh)
  return fresh
}

function failure(error: ProgressEntry['payload']['error']): Reason {
  if (error === null) return { type: 'document_unreadable', message: 'it could not be read' }
  return error.type === 'document_empty' ? empty : { type: error.type, message: error.message }
}
