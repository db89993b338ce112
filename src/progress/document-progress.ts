// The state of one document: its parts, which units of its chunks are done (as bits), and what was seen of the other units.
import type { Message } from '../messages/envelope.ts'
import type { Progress } from '../messages/generated.ts'

export type Counts = Record<string, number>

export interface Tokens {
  promptTokens: number
  completionTokens: number
  /** Calls whose tokens the server did not report. */
  unreported: number
}

/** Counts of complete runs, and the tokens and calls of failed runs. */
export interface Totals extends Tokens {
  readonly facts: Counts
  readonly rejected: Counts
  repaired: number
  duplicates: number
  /** Calls, by what they were for: first, continuation, reask and so on; see schemas/spent.avsc. */
  readonly calls: Counts
  /** The tokens by the model as the server names it, without replies from the cache, which cost nothing. */
  readonly models: Record<string, Tokens>
}

export interface Reason {
  /** A code, such as `document_encrypted` or `empty_document`. */
  readonly type: string
  /** One sentence. */
  readonly message: string
}

export type ProgressEntry = Message<'Progress'>

/** A unit of a chunk that is not done: what was seen of its runs, and which of its messages are dead. */
export interface OpenUnit {
  readonly runs: Map<string, SeenRun>
  /** The run whose counts are in the totals; the first complete run replaces one that was cut off. */
  counted: SeenRun | undefined
  /** Ids of dead messages that held all of it (a chunk, a request, an error reply), with the reason. */
  readonly wholeDead: Map<string, string>
  /** Ids of dead messages that held a part of it (replies, facts, triples), with the reason. */
  readonly partDead: Map<string, string>
  /** The time of the newest death in `partDead`, in milliseconds since 1970. */
  partDeadAt: number
  /** What was seen of runs since that death, by run: a complete one makes up for all dead parts. */
  readonly again: Map<string, SeenRun>
  /** The ids of failed runs, whose tokens are in the totals. */
  readonly failedRuns: Set<string>
}

export interface SeenRun {
  readonly seqs: Set<number>
  /** The `seq` of its last part. */
  last: number | undefined
  /** Why it leaves its unit partial; known when all of its parts were seen. */
  incomplete: string | undefined
  readonly totals: Totals
}

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
  count: number
}

/** The chunks of a part, and the units of each. */
export interface PartSize {
  readonly chunks: number
  readonly units: readonly string[]
  /** When it was cut, in milliseconds since 1970; undefined in the state of an older ledger. */
  readonly time?: number | undefined
}

export interface Document {
  readonly id: string
  title: string
  parts: number | undefined
  /** When its last part was published, in milliseconds since 1970; undefined like `parts`. */
  loadedAt: number | undefined
  /** Why it could not be read. */
  failed: Reason | undefined
  /** By the cause that the death names. */
  readonly deadParts: Map<string, DeadPart>
  /** The newest deaths that a replay cancelled: their entries may come again. */
  readonly replayed: Set<string>
  readonly chunksOfPart: Map<number, PartSize>
  readonly done: ChunkSets
  doneCount: number
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
    deadParts: new Map(),
    replayed: new Set(),
    chunksOfPart: new Map(),
    done: new Map(),
    doneCount: 0,
    open: new Map(),
    folds: [],
    unplaced: [],
    totals: emptyTotals(),
  }
}

export const emptyUnit = (): OpenUnit => ({
  runs: new Map(),
  counted: undefined,
  wholeDead: new Map(),
  partDead: new Map(),
  partDeadAt: Number.POSITIVE_INFINITY,
  again: new Map(),
  failedRuns: new Set(),
})

export const emptyRun = (): SeenRun => ({
  seqs: new Set(),
  last: undefined,
  incomplete: undefined,
  totals: emptyTotals(),
})

/** Adds a reply part to its run. Returns whether all parts of the run have been seen. */
export function addToRun(run: SeenRun, part: Progress): boolean {
  if (!run.seqs.has(part.seq)) {
    run.seqs.add(part.seq)
    addProgress(run.totals, part)
    if (part.last) {
      run.last = part.seq
      run.incomplete = part.incomplete ?? undefined
    }
  }
  if (run.last === undefined || run.seqs.size <= run.last) return false
  if (sum(run.totals.facts) === 0 && sum(run.totals.rejected) > 0) run.incomplete ??= 'no_facts'
  return true
}

const sum = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0)

/** Stands for a run that was counted when its unit was done: its totals stay counted. */
export const countedBefore: SeenRun = {
  seqs: new Set(),
  last: 0,
  incomplete: undefined,
  totals: emptyTotals(),
}

export type UnitState = 'running' | 'done' | 'partial' | 'dead'

export function stateOfUnit({ counted, wholeDead, partDead }: OpenUnit): UnitState {
  if (counted && !counted.incomplete && partDead.size === 0) return 'done'
  if (counted || partDead.size > 0) return 'partial'
  return wholeDead.size > 0 ? 'dead' : 'running'
}

/** The key of a unit of a chunk, and of a unit in a part. */
export const unitKey = (unit: string, place: string | number) => `${unit}\n${place}`

export interface ChunkPlace {
  readonly part: number
  readonly index: number
}

/** Part and index from `<documentId>/<part>/<index>`. */
export function chunkPlace(chunkId: string): ChunkPlace | undefined {
  const found = /\/(\d+)\/(\d+)$/.exec(chunkId)
  return found ? { part: Number(found[1]), index: Number(found[2]) } : undefined
}

export function isDone(document: Document, unit: string, { part, index }: ChunkPlace): boolean {
  return hasBit(document.done, unitKey(unit, part), index)
}

export function setDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  setBit(document.done, unitKey(unit, part), index)
  document.doneCount++
}

export function clearDone(document: Document, unit: string, { part, index }: ChunkPlace): void {
  clearBit(document.done, unitKey(unit, part), index)
  document.doneCount--
}

/** Forgets which units of the part are done, except those of chunks below `chunks` that are among `units`. */
export function keepDone(document: Document, part: number, { chunks, units }: PartSize): void {
  for (const [key, bits] of document.done) {
    const [unit, of] = key.split('\n') as [string, string]
    if (Number(of) !== part) continue
    const end = units.includes(unit) ? chunks : 0
    for (let index = end; index < bits.length * 8; index++)
      if (hasBit(document.done, key, index)) clearDone(document, unit, { part, index })
  }
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

export function emptyTotals(): Totals {
  return {
    facts: named(),
    rejected: named(),
    repaired: 0,
    duplicates: 0,
    calls: named(),
    models: named(),
    ...emptyTokens(),
  }
}

/** Names come from servers and messages, and must not reach a prototype. */
function named<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}

function emptyTokens(): Tokens {
  return { promptTokens: 0, completionTokens: 0, unreported: 0 }
}

/** Adds the counts of one part of a run. */
export function addProgress(totals: Totals, entry: Progress): void {
  addCounts(totals.facts, entry.facts, 1)
  addCounts(totals.rejected, entry.rejected, 1)
  totals.repaired += entry.repaired
  totals.duplicates += entry.duplicates
  if (entry.last) addUsage(totals, entry)
}

/** Adds the tokens and calls of a run. */
export function addUsage(totals: Totals, { usage, model }: Progress): void {
  const spent = usage?.spent ?? []
  if (spent.length === 0) {
    const tokens = reported(usage)
    addTokens(totals, tokens, 1)
    addTokens(tokensOf(totals, model ?? ''), tokens, 1)
  }
  for (const each of spent) {
    const tokens = reported(each, each.calls)
    addCounts(totals.calls, { [each.reason]: each.calls }, 1)
    addTokens(totals, tokens, 1)
    if (each.reason !== 'cached') addTokens(tokensOf(totals, each.model), tokens, 1)
  }
}

/** The tokens of some calls, as far as the server reported them. */
function reported(
  usage: { readonly promptTokens: number | null; readonly completionTokens: number | null } | null,
  calls = 1,
): Tokens {
  return {
    promptTokens: usage?.promptTokens ?? 0,
    completionTokens: usage?.completionTokens ?? 0,
    unreported: usage?.completionTokens == null ? calls : 0,
  }
}

export function addTotals(totals: Totals, more: Totals, sign: 1 | -1): void {
  addCounts(totals.facts, more.facts, sign)
  addCounts(totals.rejected, more.rejected, sign)
  addCounts(totals.calls, more.calls, sign)
  totals.repaired += sign * more.repaired
  totals.duplicates += sign * more.duplicates
  addTokens(totals, more, sign)
  for (const [model, tokens] of Object.entries(more.models)) addTokens(tokensOf(totals, model), tokens, sign)
}

function tokensOf({ models }: Totals, model: string): Tokens {
  models[model] ??= emptyTokens()
  return models[model]
}

function addTokens(tokens: Tokens, more: Tokens, sign: 1 | -1): void {
  tokens.promptTokens += sign * more.promptTokens
  tokens.completionTokens += sign * more.completionTokens
  tokens.unreported += sign * more.unreported
}

function addCounts(counts: Counts, more: Readonly<Counts>, sign: 1 | -1): void {
  for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + sign * count
}
